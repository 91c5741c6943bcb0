"""Selects trials by an expression over factors, agent, case, slice, cluster, repeat and metadata."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from peira.analysis.table.groups import METADATA
from peira.core.expressions import Expression
from peira.core.ids import Json
from peira.core.registry import nearest
from peira.errors import ExpressionError, Invalid
from peira.results.trials import TrialResult


def selected(trials: Iterable[TrialResult], where: str) -> Iterator[TrialResult]:
    """The trials for which an expression holds, such as "model == 'small' and metadata.src != 'web'".

    A factor that an agent does not take, and metadata that a case does not have, are None. Raises Invalid if
    it is not an expression, or names what no trial has; the latter after the last trial.
    """
    try:
        wanted = Expression(where)
    except ExpressionError as problem:
        raise Invalid(f"where: {problem}") from None
    missing, known = set(wanted.names), set[str]()
    for trial in trials:
        facts = facts_of(trial)
        missing -= facts.keys()
        known |= facts.keys()
        if _holds(wanted, facts):
            yield trial
    if known and missing:
        raise Invalid(f"where: there is no {name!r}{nearest(name, known)}" for name in sorted(missing))


def _holds(wanted: Expression, facts: Mapping[str, Json]) -> bool:
    """Whether the expression is true of these facts; not if it compares a number with what is missing."""
    try:
        return wanted.evaluate({name: facts.get(name) for name in wanted.names})
    except ExpressionError as problem:
        if any(facts.get(name) is None for name in wanted.names):
            return False
        raise Invalid(f"where: {problem}") from None


def facts_of(trial: TrialResult) -> Mapping[str, Json]:
    """What an expression may name: factors first, then attributes, then metadata of the case."""
    return {
        **trial.metadata,
        **{f"{METADATA}{name}": value for name, value in trial.metadata.items()},
        "agent": trial.agent,
        "case": trial.case_id,
        "slice": trial.slice,
        "cluster": trial.cluster,
        "repeat": trial.repeat,
        **trial.condition,
    }
