"""Models by name: described in the project file, or `provider:name`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

import peira.app as app
import peira.engine.calls as model_calls
import peira.models as providers
from peira.core.models import Model, ModelLimits, NamedModel, SlottedModel, Usage
from peira.core.registry import nearest, registry
from peira.errors import Invalid, Unknown
from peira.models.names import advice, parse
from peira.spec.limits import Budget
from peira.spec.project import Project

LIMITS = {
    "requests_per_minute": "requests",
    "tokens_per_minute": "tokens",
    "concurrency": "concurrency",
    "max_input_tokens": "input",
    "max_output_tokens": "output",
}
WHOLE = ("concurrency", "max_input_tokens", "max_output_tokens")


def models_of(project: Project) -> Callable[[str], NamedModel]:
    """A function from names to models; Invalid or Unknown names what is wrong with one."""
    return lambda name: named(project, name)


def named(project: Project, name: str) -> NamedModel:
    """The model of that name. Nothing is sent, and no key is looked for: that is its `check`."""
    options = _described(project, name)
    limits, price = options.pop("limits", {}), options.pop("price", None)
    fallbacks = options.pop("fallbacks", ())
    provider, model = _parsed(project, name, str(options.pop("model", name)))
    if provider == "replay" and app.is_store(Path(model)):
        options["recording"] = app.recorded_answers(project, Path(model))
    made: Model = registry.make("model", provider, model=model, **options)
    parameters = options.get("parameters") or {}
    most, cost = model_calls.stated_output(parameters), providers.price_of(provider, model, price)
    return NamedModel(
        name,
        made,
        _with_slots(_limits(name, limits), made),
        cost,
        _fallbacks(project, name, fallbacks),
        most or getattr(made, "default_output", None),
        tuple((key, value if type(value) is int else 0) for key, value in parameters.items()),
        getattr(cost, "window", None),
    )


def _described(project: Project, name: str) -> dict[str, Any]:
    """The options of a model in the project file."""
    found = project.models.get(name, {})
    return dict(found) if isinstance(found, Mapping) else {"model": found}


def _parsed(project: Project, name: str, full: str) -> tuple[str, str]:
    """Provider and model of a full name; without a provider, Invalid with who sells it, or the nearest."""
    if ":" not in full:
        known = registry.names("model")
        if providers.sellers(full, known):
            raise Invalid(f"model {name!r} names no provider; {advice(full, known)}")
        names = [*project.models, *(f"{provider}:..." for provider in known)]
        raise Invalid(f"model {name!r}: write provider:name, or a name of peira.toml{nearest(name, names)}")
    return parse(full, registry)


# Prices


class PriceRow(NamedTuple):
    """What a model costs in US dollars: a million tokens, one call, and all of them; None if not known."""

    model: str
    input: float | None
    output: float | None
    call: float | None
    total: float | None
    source: str


def price_list(project: Project, names: Sequence[str], usage: Usage, calls: int = 1) -> list[PriceRow]:
    """The prices of models, the cheapest first and unknown ones last.

    A name without a provider stands for every provider that sells this model, by the table of prices; without
    names the models of the project file are listed. Invalid with all names that nobody sells.
    """
    problems, full = [], []
    for name in names or list(project.models):
        found = (
            [name]
            if name in project.models or ":" in name
            else providers.sellers(name, registry.names("model"))
        )
        full += found
        if not found:
            problems.append(f"model {name!r}: no provider sells it, by {providers.table()}")
    if problems:
        raise Invalid(problems)
    rows = [_price_row(project, name, usage, calls) for name in dict.fromkeys(full)]
    return sorted(rows, key=lambda row: (row.call is None, row.call or 0.0, row.model))


def _price_row(project: Project, name: str, usage: Usage, calls: int) -> PriceRow:
    """The price of one model."""
    options = _described(project, name)
    provider, model = _parsed(project, name, str(options.get("model", name)))
    price = providers.price_of(provider, model, options.get("price"))
    if price is None:
        return PriceRow(name, None, None, None, None, "not known")
    base, once = price.cost(Usage(0, 0)) or 0.0, price.cost(usage)
    read, written = price.cost(Usage(1_000_000, 0)), price.cost(Usage(0, 1_000_000))
    return PriceRow(
        name,
        None if read is None else read - base,
        None if written is None else written - base,
        once,
        None if once is None else once * calls,
        price.source,
    )


def _limits(name: str, given: object) -> ModelLimits:
    """The limits of a model; Invalid with all problems."""
    if not isinstance(given, Mapping):
        raise Invalid(f"model {name!r}: limits: must be a table of {', '.join(LIMITS)}, not {given!r}")
    problems = [
        f"model {name!r}: limits: no {key!r}{nearest(key, LIMITS)}" for key in given if key not in LIMITS
    ]
    for key, value in given.items():
        whole = key in WHOLE
        if key in LIMITS and (type(value) not in ((int,) if whole else (int, float)) or not value > 0):
            kind = "a whole number" if whole else "a number"
            problems.append(f"model {name!r}: limits.{key}: must be {kind} above 0, not {value!r}")
    if problems:
        raise Invalid(problems)
    return ModelLimits(**{LIMITS[key]: value for key, value in given.items()})


def _with_slots(limits: ModelLimits, model: Model) -> ModelLimits:
    """The limits; without one of its own, concurrency is that of the model's server."""
    if limits.concurrency is not None or not isinstance(model, SlottedModel):
        return limits
    return msgspec.structs.replace(limits, concurrency=model.slots)


def _fallbacks(project: Project, name: str, given: object) -> tuple[str, ...]:
    """The models to ask when this one fails; Invalid if one has no provider."""
    if not isinstance(given, (list, tuple)) or not all(isinstance(one, str) for one in given):
        raise Invalid(f"model {name!r}: fallbacks: must be a list of models, not {given!r}")
    for one in given:
        _parsed(project, one, str(_described(project, one).get("model", one)))
    return tuple(given)


def problems_of(project: Project, names: Iterable[str]) -> list[str]:
    """All problems with these models and their fallbacks, and with any model of the project file."""
    problems: list[str] = []
    asked = list(dict.fromkeys(names))
    for name in asked:  # grows during iteration
        try:
            found = named(project, name)
            asked += [one for one in found.fallbacks if one not in asked]
            found.model.check()
        except (Invalid, Unknown) as problem:
            problems += getattr(problem, "problems", None) or [str(problem)]
    for name in project.models.keys() - set(asked):
        try:
            named(project, name)
        except (Invalid, Unknown) as problem:
            problems += getattr(problem, "problems", None) or [str(problem)]
    return list(dict.fromkeys(problems))


def is_model(project: Project, value: object) -> bool:
    """Whether a value is the name of a model of the project file, or of a known provider."""
    if not isinstance(value, str):
        return False
    provider, colon, model = value.partition(":")
    if value in project.models:
        return True
    return bool(colon and (model or provider == "scripted") and provider in registry.names("model"))


def by_model(project: Project, budget: Budget) -> Budget:
    """The budget with its models by their full names."""
    if not budget.per_model:
        return budget
    full = {named(project, name).model.name: allowance for name, allowance in budget.per_model.items()}
    return budget.model_copy(update={"per_model": full})
