"""Models by name: "provider:model", the provider being a plug-in of the kind `model`.

A provider's factory takes the model's name and a configuration; nothing is sent and no key looked for when a
model is made: that is its `check`.
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
"""The names of all that are offered; their rooms are opened when a model is first made."""


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
    registry.promise("model", PROVIDERS, "peira.models.providers")
