"""Confined processes, and the end of whole process trees: opened when there is a process to end."""

from __future__ import annotations

from typing import TYPE_CHECKING

from peira.core.door import open_late

if TYPE_CHECKING:
    from peira.sandbox.tree import end

__all__ = ["end"]

_ROOMS = {"peira.sandbox.tree": ("end",)}
open_late(__name__, _ROOMS)
