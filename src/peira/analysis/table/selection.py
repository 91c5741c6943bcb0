"""Selects trials by an expression over factors, agent, case, slice, cluster, repeat and metadata."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from peira.core.expressions import Expression
from peira.core.registry import nearest
from peira.errors import ExpressionError, Invalid
from peira.results.slices import facts_of, holds
from peira.results.trials import TrialResult

EITHER = re.compile(r"\b([A-Za-z_][\w.]*) in \['([^']*)', \2\]")
"""What NAME=VALUE stands for where the value may be a number or its text."""


def as_asked(where: str) -> str:
    """An expression as people write it: shots=2, not the list of what that stands for."""
    return EITHER.sub(r"\1=\2", where)


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
        if holds(wanted, facts, "where"):
            yield trial
    if known and missing:
        raise Invalid(f"where: there is no {name!r}{nearest(name, known)}" for name in sorted(missing))


def names_in(where: str) -> list[str]:
    """The names that an expression mentions, in order; none if it is not one."""
    try:
        return sorted(Expression(where).names)
    except ExpressionError:
        return []
