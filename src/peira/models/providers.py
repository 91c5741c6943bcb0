"""The built-in providers of models, each made from a configuration that a project file may have given."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import wraps

import msgspec

from peira.core.ids import Json
from peira.core.models import Model
from peira.core.registry import Registry, nearest
from peira.errors import Invalid
from peira.models.anthropic import anthropic
from peira.models.litellm import LitellmModel
from peira.models.local import LocalModel
from peira.models.openai import providers
from peira.models.post import Timeouts
from peira.models.replay import ReplayModel
from peira.models.scripted import ScriptedModel

Factory = Callable[..., Model]


def register(registry: Registry) -> None:
    """Offer the built-in providers, as any plug-in would."""
    for provider, factory in _FACTORIES.items():
        registry.add("model", provider, factory)


def _careful(provider: str, factory: Factory) -> Factory:
    """The factory, with a configuration from a file: all its mistakes said at once, timeouts as a table."""
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
_FACTORIES = {provider: _careful(provider, factory) for provider, factory in _PLAIN.items()}
