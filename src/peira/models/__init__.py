"""The shelf of models: who is asked, and how. No vendor's library is imported here, nor aiohttp before the
first call."""

from __future__ import annotations

from peira.models.anthropic import anthropic
from peira.models.local import LocalModel
from peira.models.names import make, parse, register
from peira.models.openai import openai
from peira.models.post import Timeouts
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
    "record",
    "register",
    "request_digest",
]
