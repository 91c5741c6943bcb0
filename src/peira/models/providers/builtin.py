"""Registers the built-in providers, with checks of their configuration in the project file."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import wraps

import msgspec

from peira.core.ids import Json
from peira.core.models import Model
from peira.core.registry import Registry, nearest
from peira.errors import Invalid
from peira.models.http.request import Timeouts
from peira.models.providers.anthropic import anthropic
from peira.models.providers.litellm import LitellmModel
from peira.models.providers.local import LocalModel
from peira.models.providers.openai import providers
from peira.models.providers.replay import ReplayModel
from peira.models.providers.scripted import ScriptedModel

Factory = Callable[..., Model]


def register(registry: Registry) -> None:
    """Register the factories of all built-in providers."""
    for provider, factory in _FACTORIES.items():
        registry.add("model", provider, factory)


def _checked_factory(provider: str, factory: Factory) -> Factory:
    """The factory with checks of its options (all mistakes at once), and timeouts given as a table."""
    known = list(inspect.signature(factory).parameters)[1:]

    @wraps(factory)
    def make_model(model: str, **config: Json) -> Model:
        if unknown := [key for key in config if key not in known]:
            where = f"model '{provider}:{model}'"
            raise Invalid(f"{where}: no option {key!r}{nearest(key, known)}" for key in unknown)
        if isinstance(config.get("timeouts"), dict):
            config["timeouts"] = _timeouts(provider, config["timeouts"])
        return factory(model, **config)

    return make_model


def _timeouts(provider: str, given: dict[str, Json]) -> Timeouts:
    """Timeouts from a table; Invalid with every unknown key."""
    known = list(msgspec.to_builtins(Timeouts()))
    if unknown := [key for key in given if key not in known]:
        raise Invalid(f"{provider}: timeouts: no {key!r}{nearest(key, known)}" for key in unknown)
    try:
        return msgspec.convert(given, Timeouts)
    except msgspec.ValidationError as problem:
        raise Invalid(f"{provider}: timeouts: {problem}") from None


_PLAIN: dict[str, Factory] = {
    **providers(),
    "anthropic": anthropic,
    "litellm": LitellmModel,
    "local": LocalModel,
    "replay": ReplayModel,
    "scripted": ScriptedModel,
}
_FACTORIES = {provider: _checked_factory(provider, factory) for provider, factory in _PLAIN.items()}
