"""Calls that are handed in as batches: gathered, recorded, submitted, collected.

Imported at the first of them.
"""

from __future__ import annotations

from peira.core.lazy import lazy_imports

with lazy_imports(__name__):
    from peira.engine.batch.batcher import in_batch as in_batch
    from peira.engine.batch.record import batches_of as batches_of
    from peira.engine.batch.record import read_record as read_record
