"""`openai:NAME`, and the other providers whose endpoints speak the same language (`gemini:`, `ollama:`, ...).

The base URL of `openai:` is the one given, else OPENAI_BASE_URL, else OpenAI's own; anything compatible will
do (vLLM, llama.cpp, Azure, a gateway). A key is needed at OpenAI, at Azure, and wherever one was named;
elsewhere it is sent if it is there.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from functools import partial
from types import MappingProxyType
from urllib.parse import quote, urlsplit

from peira.core.ids import Json
from peira.core.registry import nearest
from peira.errors import Invalid
from peira.models.chat import Chat
from peira.models.endpoint import Endpoint
from peira.models.post import DEFAULT, Timeouts
from peira.models.responses import Responses
from peira.models.secrets import Key
from peira.models.served import Form, ServedModel
from peira.models.wire import LOOPBACK

OPENAI = "https://api.openai.com/v1"
PRESETS: Mapping[str, tuple[str, str]] = MappingProxyType(
    {
        "deepseek": ("https://api.deepseek.com/v1", "DEEPSEEK_API_KEY"),
        "gemini": ("https://generativelanguage.googleapis.com/v1beta/openai", "GEMINI_API_KEY"),
        "groq": ("https://api.groq.com/openai/v1", "GROQ_API_KEY"),
        "mistral": ("https://api.mistral.ai/v1", "MISTRAL_API_KEY"),
        "ollama": ("http://localhost:11434/v1", "OLLAMA_API_KEY"),
        "openrouter": ("https://openrouter.ai/api/v1", "OPENROUTER_API_KEY"),
        "together": ("https://api.together.xyz/v1", "TOGETHER_API_KEY"),
        "xai": ("https://api.x.ai/v1", "XAI_API_KEY"),
    }
)
"""Providers known by name: their base URL and the variable with their key."""
NAMED_HEADERS = {"openai-organization": "OPENAI_ORG_ID", "openai-project": "OPENAI_PROJECT_ID"}


def openai(
    model: str,
    *,
    base_url: str | None = None,
    key: str | None = None,
    form: str = "chat",
    api_version: str | None = None,
    headers: Mapping[str, str] | None = None,
    parameters: Mapping[str, Json] | None = None,
    stream: bool = False,
    timeouts: Timeouts = DEFAULT,
) -> ServedModel:
    """`key` is the name of an environment variable. `api_version` makes it Azure style: the key in `api-key`,
    the model a deployment (unless the base URL is Azure's newer one, which ends in /v1)."""
    base = base_url or os.environ.get("OPENAI_BASE_URL") or OPENAI
    azure, own = api_version is not None, urlsplit(base).hostname == urlsplit(OPENAI).hostname
    named = {header: f"${variable}" for header, variable in NAMED_HEADERS.items() if not azure}
    endpoint = Endpoint(
        base,
        Key(key or ("AZURE_OPENAI_API_KEY" if azure else "OPENAI_API_KEY"), own or azure or key is not None),
        key_header="api-key" if azure else "authorization",
        headers={**named, **(headers or {})},
        query={"api-version": api_version} if api_version else {},
        timeouts=timeouts,
    )
    deployment = f"/openai/deployments/{quote(model, safe='')}" if azure and not _versioned(base) else ""
    spoken = _form(form, "max_completion_tokens" if own or azure else "max_tokens", deployment)
    known: dict[str, Json] = {} if own else {"endpoint": endpoint.place}
    if form != "chat":
        known["form"] = form
    return ServedModel("openai", model, spoken, endpoint, defaults=parameters, stream=stream, identity=known)


def preset(
    provider: str,
    model: str,
    *,
    base_url: str | None = None,
    key: str | None = None,
    headers: Mapping[str, str] | None = None,
    parameters: Mapping[str, Json] | None = None,
    stream: bool = False,
    timeouts: Timeouts = DEFAULT,
) -> ServedModel:
    """A model of one of the `PRESETS`."""
    home, variable = PRESETS[provider]
    base = base_url or home
    needed = key is not None or urlsplit(base).hostname not in LOOPBACK
    endpoint = Endpoint(base, Key(key or variable, needed), headers=headers or {}, timeouts=timeouts)
    known = {} if base == home else {"endpoint": endpoint.place}
    return ServedModel(provider, model, Chat(), endpoint, defaults=parameters, stream=stream, identity=known)


def providers() -> dict[str, Callable[..., ServedModel]]:
    return {"openai": openai, **{name: partial(preset, name) for name in PRESETS}}


def _form(form: str, limit: str, prefix: str) -> Form:
    if form == "chat":
        return Chat(limit, f"{prefix}/chat/completions")
    if form == "responses":
        return Responses(f"{prefix}/responses")
    raise Invalid(f"no form {form!r}{nearest(form, ('chat', 'responses'))}")


def _versioned(base: str) -> bool:
    return urlsplit(base).path.rstrip("/").endswith("/v1")
