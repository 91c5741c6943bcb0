"""Models by name: "provider:model", where the provider is a plug-in of the kind `model`.

A provider's factory takes the model's name and its configuration. Making a model sends nothing and looks up
no key: that is done by its `check`.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from peira.core.ids import Json
from peira.core.registry import Registry, nearest
from peira.errors import Invalid, Unknown

PROVIDERS = (
    "anthropic",
    "deepseek",
    "gemini",
    "groq",
    "litellm",
    "local",
    "mistral",
    "ollama",
    "openai",
    "openrouter",
    "replay",
    "scripted",
    "together",
    "xai",
)
"""The names of the built-in providers; their module is imported when a model is first made."""

MOST = 3
"""Sellers of a model that an error message names."""


def parse(name: str, registry: Registry) -> tuple[str, str]:
    """The provider and the model's name; Unknown with the nearest provider, Invalid if a part is missing."""
    provider, colon, model = name.partition(":")
    known = registry.names("model")
    if not colon:
        raise Invalid(f"model {name!r} names no provider; {advice(name, known)}")
    if provider not in known:
        raise Unknown(f"no provider {provider!r} in model {name!r}{nearest(provider, known)}")
    if not model and provider != "scripted":
        raise Invalid(f'model {name!r} names no model; write "{provider}:NAME"')
    return provider, model


def advice(model: str, providers: Collection[str]) -> str:
    """What to write for a model without a provider: who sells it, by the table of prices."""
    from peira.models.prices import sellers  # imports the table

    found = sellers(model, providers)[:MOST]
    return f"write {' or '.join(map(repr, found))}" if found else f"write 'provider:{model}'"


def make(name: str, registry: Registry, **config: Json) -> Any:
    """The model of this name, with this configuration."""
    provider, model = parse(name, registry)
    return registry.make("model", provider, model=model, **config)


def register(registry: Registry) -> None:
    """Register the built-in providers, lazily."""
    registry.promise("model", PROVIDERS, "peira.models.providers.builtin")
