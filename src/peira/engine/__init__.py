"""How it runs. What of it is asked for by those who only look is opened when they ask."""

from __future__ import annotations

from typing import TYPE_CHECKING

from peira.core.door import open_late

if TYPE_CHECKING:
    from peira.engine.opening import call_by_call

__all__ = ["call_by_call"]

_ROOMS = {"peira.engine.opening": ("call_by_call",)}
open_late(__name__, _ROOMS)
