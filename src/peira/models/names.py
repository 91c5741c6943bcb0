"""Models by name: "provider:model", where the provider is a plug-in of the kind `model`.

A provider's factory takes the model's name and its configuration. Making a model sends nothing and looks up
no key: that is done by its `check`.
"""

from __future__ import annotations

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


def parse(name: str, registry: Registry) -> tuple[str, str]:
    """The provider and the model's name; Unknown with the nearest provider, Invalid if a part is missing."""
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
    """The model of this name, with this configuration."""
    provider, model = parse(name, registry)
    return registry.make("model", provider, model=model, **config)


def register(registry: Registry) -> None:
    """Register the built-in providers, lazily."""
    registry.promise("model", PROVIDERS, "peira.models.providers.builtin")
