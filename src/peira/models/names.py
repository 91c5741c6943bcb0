"""Models by name: "provider:model", the provider being a plug-in of the kind `model`.

A provider's factory takes the model's name and a configuration; nothing is sent and no key looked for when a
model is made: that is its `check`.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import wraps
from typing import Any

import msgspec

from peira.core.ids import Json
from peira.core.models import Model
from peira.core.registry import Registry, nearest
from peira.errors import Invalid, Unknown
from peira.models.anthropic import anthropic
from peira.models.litellm import LitellmModel
from peira.models.local import LocalModel
from peira.models.openai import providers
from peira.models.post import Timeouts
from peira.models.replay import ReplayModel
from peira.models.scripted import ScriptedModel

Factory = Callable[..., Model]


def parse(name: str, registry: Registry) -> tuple[str, str]:
    """The provider and its model's name; Unknown with the nearest, Invalid if one is missing."""
    provider, colon, model = name.partition(":")
    if not colon:
        raise Invalid(f'model {name!r} names no provider; write "provider:model", like "openai:{name}"')
    known = registry.names("model")
    if provider not in known:
        raise Unknown(f"no provider {provider!r} in model {name!r}{nearest(provider, known)}")
    if not model and provider != "scripted":
        raise Invalid(f'model {name!r} names no model; write "{provider}:NAME"')
    return provider, model


def make(name: str, registry: Registry, **config: Json) -> Any:
    """The model of that name, configured."""
    provider, model = parse(name, registry)
    return registry.make("model", provider, model=model, **config)


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
