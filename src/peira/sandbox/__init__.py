"""Sandboxes for untrusted processes, and killing whole process trees; imported lazily."""

from __future__ import annotations

from peira.core.lazy import lazy_imports

with lazy_imports(__name__):
    from peira.sandbox.process_tree import end as end
