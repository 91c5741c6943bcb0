"""The process that commits for a busy writer, and what is said between both.

Imported when the first writer is busy: a short run needs none.
"""

from __future__ import annotations

from peira.core.lazy import lazy_imports

with lazy_imports(__name__):
    from peira.stores.sqlite.writer_process.messages import ListingMessage as ListingMessage
    from peira.stores.sqlite.writer_process.messages import plan_messages as plan_messages
    from peira.stores.sqlite.writer_process.messages import words_message as words_message
    from peira.stores.sqlite.writer_process.process import WriterProcess as WriterProcess
