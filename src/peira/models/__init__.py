"""The shelf of models: who is asked, and how. No vendor's library is imported here, nor aiohttp before the
first call, and no provider's room is opened before a model is made."""

from __future__ import annotations

from typing import TYPE_CHECKING

from peira.core.door import open_late

if TYPE_CHECKING:
    from peira.models.anthropic import anthropic
    from peira.models.local import LocalModel
    from peira.models.names import make, parse, register
    from peira.models.openai import openai
    from peira.models.post import Timeouts
    from peira.models.prices import price_of
    from peira.models.replay import ReplayModel, record, request_digest
    from peira.models.scripted import ScriptedModel
    from peira.models.served import ServedModel

__all__ = [
    "LocalModel",
    "ReplayModel",
    "ScriptedModel",
    "ServedModel",
    "Timeouts",
    "anthropic",
    "make",
    "openai",
    "parse",
    "price_of",
    "record",
    "register",
    "request_digest",
]

_ROOMS = {
    "peira.models.anthropic": ("anthropic",),
    "peira.models.local": ("LocalModel",),
    "peira.models.names": ("make", "parse", "register"),
    "peira.models.openai": ("openai",),
    "peira.models.post": ("Timeouts",),
    "peira.models.prices": ("price_of",),
    "peira.models.replay": ("ReplayModel", "record", "request_digest"),
    "peira.models.scripted": ("ScriptedModel",),
    "peira.models.served": ("ServedModel",),
}
open_late(__name__, _ROOMS)
