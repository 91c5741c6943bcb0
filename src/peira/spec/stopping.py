"""When a study may stop early: the name of a stopping rule, and its options."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from pydantic import Field

from peira.core.contracts import StopRule
from peira.core.ids import Json
from peira.core.registry import made
from peira.errors import Invalid
from peira.spec.values import Name, Table, Value, join

if TYPE_CHECKING:
    from peira.spec.study import Study

ORDERED = ("crossover", "repeated_measures", "split_plot")
"""Designs in which the order of the trials is part of the design."""


class Stop(Value):
    """A stopping rule of a study: `rule` is its name ("decided", "racing", ...), `options` its options."""

    rule: Name
    options: Table = Field(default_factory=dict)

    if TYPE_CHECKING:

        def __init__(self, rule: str, options: Json = ...) -> None: ...

    def made(self) -> StopRule:
        """Make the rule; Invalid says what is wrong with it."""
        rule: StopRule = made("stop", self.rule, self.options)
        return rule

    def written(self) -> Json:
        """The form that a study file contains."""
        return {"rule": self.rule, **self.options} if self.options else self.rule


def read_stop(raw: Any) -> Stop:
    """Read "when decided", or a table {rule = "decided", margin = 0.02}; problems are continuations."""
    if isinstance(raw, Stop):
        return raw
    if isinstance(raw, str):
        return Stop(raw.removeprefix("when "))
    if not isinstance(raw, Mapping) or not isinstance(raw.get("rule", "decided"), str):
        raise Invalid(f'must be the name of a rule, or a table like {{rule = "decided"}}, not {raw!r}')
    options = {str(key): value for key, value in raw.items() if key != "rule"}
    return Stop(str(raw.get("rule", "decided")).removeprefix("when "), options)


def stop_problems(study: Study) -> Iterator[str]:
    """What is wrong with the rule of a study, or cannot be combined with the rest of it."""
    if study.stop is None:
        return
    if "order" in study.model_fields_set and study.order != "cases":
        yield f"order: a study that may stop goes case by case; leave it out, not {study.order!r}"
    if study.design.name in ORDERED:
        yield f"stop: a {study.design.name} design has an order of its own, and cannot go case by case"
    if not study.evaluators and not any(one.metric for one in study.outcomes):
        yield "stop: there is nothing to go by; give an evaluator"
    try:
        rule = study.stop.made()
        if len(study.evaluators) > 1 and not followed(study, rule):
            yield "stop: there are several scores; declare a primary outcome"
        yield from (join("stop", problem) for problem in _as_options(rule.problems(study)))
    except Invalid as error:
        yield from (join("stop", problem) for problem in _as_options(error.problems))


def followed(study: Study, rule: StopRule) -> str:
    """The outcome that the rule uses; empty if it is the only score there is."""
    primary = [one.name for one in study.outcomes if one.primary] or [one.name for one in study.outcomes]
    return rule.outcome(study) or (primary[0] if len(primary) == 1 else "")


def _as_options(problems: Any) -> list[str]:
    """The problems, with those that name an option made continuations of the path `stop`."""
    return [f".{line}" if line.split(":")[0].isidentifier() else line for line in problems]
