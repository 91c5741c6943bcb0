"""What can be named in a study, on the command line and in the project file, with a line about each."""

from __future__ import annotations

import inspect
from functools import partial
from importlib import import_module
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import msgspec

from peira import recipes
from peira.app.models import LIMITS
from peira.core.registry import nearest, registry
from peira.errors import Invalid
from peira.models.http.pool import LOOPBACK
from peira.models.http.request import Timeouts
from peira.models.prices import RATES
from peira.results.causes import CAUSES
from peira.spec.project import Project

KINDS = {
    "evaluators": "evaluator",
    "transforms": "transform",
    "designs": "design",
    "models": "model",
    "exports": "export",
    "benchmarks": "benchmark",
    "runners": "runner",
    "agents": "agent",
}
"""What can be listed, and the kind of plug-in that it is."""
LISTED = (*KINDS, "recipes", "model-keys", "plots", "causes")
HIDDEN = {"function"}
"""Plug-ins that are not named: a function is given itself."""


class CatalogueEntry(NamedTuple):
    """Something that can be named, and a line about it."""

    name: str
    about: str


def catalogue(what: str, project: Project) -> list[CatalogueEntry]:
    """Everything of a kind, of plug-ins and the project file too; Invalid if there is no such kind."""
    if what not in LISTED:
        raise Invalid(f"{what!r} cannot be listed{nearest(what, LISTED)}")
    project.load_plugins()
    if what == "recipes":
        return [CatalogueEntry(name, _line(getattr(recipes, name))) for name in recipes.__all__]
    if what == "model-keys":
        return [CatalogueEntry(one.key, f"{one.meaning} ({one.providers})") for one in model_keys()]
    if what == "plots":
        files = import_module("peira.report.plots.files")  # slow, and only listed here
        shown = {name: _line(make).split(";")[0].rstrip(".") for name, make in files.PLOTS.items()}
        return [CatalogueEntry(name, f"{text}. Needs {files.NEEDS[name]}.") for name, text in shown.items()]
    if what == "causes":
        return [CatalogueEntry(one.name, f"{one.about} What to do: {one.remedy}.") for one in CAUSES]
    kind = KINDS[what]
    found = [CatalogueEntry(name, _about(kind, name)) for name in registry.names(kind) if name not in HIDDEN]
    if what == "models":
        aliases = ((name, given) for name, given in project.models.items())
        return [*(CatalogueEntry(name, _alias(given)) for name, given in aliases), *found]
    return found


def _alias(given: Any) -> str:
    """What a name of the project file stands for."""
    return f"{given.get('model', '?') if isinstance(given, dict) else given}, as the project file says"


def _about(kind: str, name: str) -> str:
    """The line about a plug-in: a benchmark's title, or else the first sentence of its documentation."""
    if kind == "benchmark":
        found = registry.make(kind, name)
        return str(found.title or found.description or found.name)
    if kind == "model":
        return f"{name}:NAME. {_provider(name)}"
    return _line(registry.look(kind, name))


def _provider(name: str) -> str:
    """The line about a provider of models: of a compatible one its address and the variable of its key."""
    presets = import_module("peira.models.providers.openai").PRESETS  # only listed here
    if name not in presets:
        return _line(registry.look("model", name))
    base, variable = presets[name]
    key = "no key" if urlsplit(base).hostname in LOOPBACK else f"key: {variable}"
    return f"OpenAI's interface at {base}; {key}."


def _line(made: Any) -> str:
    """The first paragraph of an object's documentation, as one line; "" if it has none."""
    made = inspect.unwrap(made)
    while isinstance(made, partial):
        lazily = made.func.__module__ == "peira.core.lazy"
        made = getattr(import_module(made.args[0]), made.args[1]) if lazily else made.func
    first = (inspect.getdoc(made) or "").split("\n\n")[0]
    return " ".join(first.split())


# The keys of a model in the project file


class ModelKey(NamedTuple):
    """A key of `[models.NAME]`: its default, what it means, and the providers that take it."""

    key: str
    default: str
    meaning: str
    providers: str


MEANINGS = {
    "model": "The model that the name stands for, as provider:name.",
    "fallbacks": "Models that are asked instead, in this order, if this one cannot answer.",
    "slots": "How many calls its server answers at a time, each with a context of its own.",
    "limits.requests_per_minute": "The most requests in a minute.",
    "limits.tokens_per_minute": "The most tokens in a minute, input and output.",
    "limits.concurrency": "The most calls at once.",
    "limits.max_input_tokens": "The most input tokens of one call.",
    "limits.max_output_tokens": "The most output tokens of one call, by which budgets reserve.",
    "price.input": "US dollars for a million input tokens; without a price, the table of genai-prices.",
    "price.output": "US dollars for a million output tokens.",
    "price.cached": "US dollars for a million input tokens that were read from the provider's cache.",
    "price.written": "US dollars for a million input tokens that were written to the provider's cache.",
    "price.written_long": "US dollars for a million input tokens that were written there for an hour.",
    "price.request": "US dollars for each request, beside its tokens.",
    "price.batch": "The factor on these prices for calls in batches.",
    "base_url": "Where it is served; else the provider's own address.",
    "key": "The environment variable that holds the key.",
    "form": "The interface: chat (completions) or responses.",
    "api_version": "The version in the query, as Azure wants it.",
    "headers": "More headers of every request; a value $NAME is read from that environment variable.",
    "parameters": "Parameters of every request, unless it has its own: temperature, max_tokens, ...",
    "stream": "Whether replies are streamed.",
    "timeouts.connect": "Seconds until there is a connection.",
    "timeouts.first_byte": "The longest silence in seconds, before the first byte of an answer or after any.",
    "timeouts.total": "Seconds from the start to the last byte.",
    "context": "The most tokens of prompt and reply together.",
    "answers": "The scripted answers, in order, or by prompt; without any, prompts are echoed.",
    "delay": "Seconds until each scripted answer.",
}
"""What each key means; which there are follows from the declarations of the providers, limits and prices."""


def model_keys() -> list[ModelKey]:
    """Every key of `[models.NAME]` in the project file, from its declaration."""
    found = [_key("model", "", "all"), _key("fallbacks", "[]", "all")]
    found += [_key(f"limits.{name}", "none", "all") for name in LIMITS]
    found += [_key(f"price.{name}", "unknown", "all") for name in RATES]
    takers: dict[str, list[str]] = {}
    defaults: dict[str, str] = {}
    for provider in registry.names("model"):
        for name, default in _options(provider).items():
            takers.setdefault(name, []).append(provider)
            defaults.setdefault(name, default)
    every = registry.names("model")
    for name, some in takers.items():
        others = [provider for provider in every if provider not in some]
        but = f"all but {', '.join(others)}"
        found.append(_key(name, defaults[name], but if len(others) < len(some) else ", ".join(some)))
    return found


def _options(provider: str) -> dict[str, str]:
    """The options of a provider's models and their defaults, with those of tables one by one."""
    found: dict[str, str] = {}
    for name, one in list(inspect.signature(registry.look("model", provider)).parameters.items())[1:]:
        if isinstance(one.default, Timeouts):
            found |= {
                f"{name}.{key}": f"{value:g}" for key, value in msgspec.to_builtins(one.default).items()
            }
        elif one.kind is not one.VAR_KEYWORD and name != "recording":
            found[name] = "" if one.default in (None, one.empty) else str(one.default)
    return found


def _key(name: str, default: str, providers: str) -> ModelKey:
    """A key with its meaning; that of a plug-in's own option is its plug-in's to document."""
    return ModelKey(name, default, MEANINGS.get(name, "An option of the plug-in."), providers)
