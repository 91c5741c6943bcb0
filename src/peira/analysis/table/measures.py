"""Measures: one number per trial, from a score, a part of one, a category, or a metric.

A trial that ended without the number (failed, exhausted, in doubt, or not scored) counts as lost. A trial
that was not begun, has not ended or was cancelled says nothing about its number: it is unfinished, not lost.
A trial that was not given this score is left out, and so are anchors, which only serve to detect drift.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial

from peira.analysis.table.groups import LOST, MEASURES
from peira.core.ids import Json
from peira.core.log.events import State
from peira.core.registry import nearest
from peira.core.text.words import counted
from peira.core.verdicts import VALUE, is_reason
from peira.errors import Invalid, Unknown
from peira.results.trials import TrialResult, end_counts
from peira.stats.intervals.bounded import scale_of

TAKEN = MEASURES
"""Measures that every trial has."""


@dataclass(frozen=True, slots=True)
class Observation:
    """A trial and its number; None if it was lost."""

    trial: TrialResult
    value: float | None


@dataclass(frozen=True)
class Measured:
    """All observations of one measure."""

    name: str
    observations: tuple[Observation, ...]
    metric: bool = False
    """Whether it is reported by the agent, or is time or cost: not graded on a scale."""
    unfinished: tuple[TrialResult, ...] = ()
    """Trials that were not begun, have not ended, or were cancelled."""

    @cached_property
    def ends(self) -> tuple[float, float] | None:
        """The smallest and largest possible value, by the observed ones (see `scale_of`); or None."""
        if self.name in TAKEN:
            return None
        found = scale_of(one.value for one in self.observations if one.value is not None)
        return None if self.metric and found != (0.0, 1.0) else found

    @property
    def known(self) -> list[Observation]:
        """The observations that have a value."""
        return [one for one in self.observations if one.value is not None]

    @property
    def lost(self) -> int:
        """The number of lost trials."""
        return sum(one.value is None for one in self.observations)

    def with_unfinished(self) -> Measured:
        """The measure with unfinished trials counted as lost."""
        more = tuple(Observation(trial, None) for trial in self.unfinished)
        return replace(self, observations=(*self.observations, *more), unfinished=())

    def remarks(self, where: str, tested: bool = True) -> list[str]:
        """What is not in some numbers ("means", "effects"): lost and unfinished trials, by their ends.

        Not `tested` are numbers of which it is not known what the lost trials could overturn.
        """
        lost = ends_text(one.trial.state for one in self.observations if one.value is None)
        lines = [f"not in the {where}: {lost}"] if lost else []
        if lost and not tested:
            lines.append("what lost trials could overturn is not tested here: effects and comparisons say it")
        left = end_counts(one.state for one in self.unfinished)
        return [
            *lines,
            *([", ".join(f"{word}: {counted(n, 'trial')}" for word, n in left.items())] if left else []),
        ]


def ends_text(states: Iterable[State]) -> str:
    """How many trials without a score there are, by how they ended: "2 failed trials, 1 exhausted trial"."""
    gone, words = list(states), list[str]()
    for word, n in end_counts(gone).items():
        before = word not in ("in doubt", "not begun")
        words.append(counted(n, f"{word} trial") if before else f"{counted(n, 'trial')} {word}")
    if unscored := gone.count(State.succeeded):
        words.append(f"{counted(unscored, 'trial')} without a score")
    return ", ".join(words)


def measure(trials: Iterable[TrialResult], score: str | None = None) -> Measured:
    """The named number of every trial that has this score; without a name, the only score there is.

    Raises Invalid if a name is needed to choose between several scores, and Unknown for an unknown name.
    """
    every = [trial for trial in trials if not trial.anchor]
    found = [trial for trial in every if trial.state is State.succeeded or trial.state in LOST]
    left = tuple(trial for trial in every if trial.state is not State.succeeded and trial.state not in LOST)
    known = _names(found)
    name = score if score is not None else _only(known)
    if name is None:
        return Measured("score", tuple(Observation(trial, None) for trial in found), unfinished=left)
    read = _reader(found, name, known)
    values = [
        read(trial) if trial.state is State.succeeded or _is_reported(trial, name) else None
        for trial in found
    ]
    with_score = {trial.case_id for trial, value in zip(found, values, strict=True) if value is not None}
    answered = {trial.case_id for trial in found if trial.state is State.succeeded}
    unasked = answered - with_score
    seen = zip(found, values, strict=True)
    kept = tuple(Observation(trial, _lost(v)) for trial, v in seen if trial.case_id not in unasked)
    return Measured(name, kept, getattr(read, "func", None) is _metric, left)


def _is_reported(trial: TrialResult, name: str) -> bool:
    """Whether the measure was reported of a job later, which is also known of one that failed."""
    score = trial.scores.get(name) or trial.scores.get(name.partition("=")[0])
    return score is not None and score.reported


def _lost(value: float | None) -> float | None:
    """The number, or None if it is not finite."""
    return None if value is None or not math.isfinite(value) else value


@dataclass(frozen=True)
class _Names:
    """The names of all score parts, numeric and text, each with its evaluator and key."""

    numbers: dict[str, tuple[str, str | None]]
    texts: dict[str, tuple[str, str | None]]
    evaluators: set[str]


def _names(trials: Sequence[TrialResult]) -> _Names:
    """Collect the names of all score parts."""
    known = _Names({}, {}, set())
    for trial in trials:
        for score in trial.scores.values():
            known.evaluators.add(score.name)
            if score.name in known.numbers or score.state is not State.succeeded or score.no_verdict:
                continue
            if isinstance(score.value, Mapping):
                for key, value in score.value.items():
                    if is_reason(key):
                        continue
                    of = known.texts if isinstance(value, str) else known.numbers
                    of[f"{score.name}.{key}"] = (score.name, key)
            else:
                of = known.texts if isinstance(score.value, str) else known.numbers
                of[score.name] = (score.name, None)
    return known


def _only(known: _Names) -> str | None:
    """The name of the only numeric score; None if no trial has a score.

    Of an evaluator with several parts, the part "value" is taken. Raises Invalid if there are several.
    """
    whole = {name: of for name, of in known.numbers.items() if of[1] in (None, VALUE)}
    if len(whole) == 1 and len({of[0] for of in known.numbers.values()}) == 1:
        return next(iter(whole))
    if len(known.numbers) > 1 or (known.texts and not known.numbers):
        several = bool(known.numbers)
        why = "there are several scores" if several else "a text has no mean; name a category as SCORE=TEXT"
        raise Invalid(f"score: {why}; name one of {', '.join(known.numbers or known.texts)}")
    return next(iter(known.numbers), None)


Reader = Callable[[TrialResult], float | None]
"""Reads a measure from a trial."""


def _reader(trials: Sequence[TrialResult], name: str, known: _Names) -> Reader:
    """The function that reads the number of a succeeded trial.

    It returns NaN if the number was lost and None if the trial was not given this score.
    """
    part, _, category = name.partition("=")
    if part in known.texts and part != name:
        return partial(_share, *known.texts[part], category)
    if name not in known.numbers and f"{name}.{VALUE}" in known.numbers:
        return partial(_score, name, VALUE)
    several = [one for one in known.numbers if one.startswith(f"{name}.")]
    if name in known.evaluators and several:
        raise Invalid(f"score: {name} has parts; name one of {', '.join(several)}")
    if name in known.numbers or name in known.evaluators:
        return partial(_score, *known.numbers.get(name, (name, None)))
    if name in TAKEN or any(name in trial.metrics for trial in trials):
        return partial(_metric, name)
    if not any(trial.state is State.succeeded for trial in trials):
        return lambda trial: None
    metrics = {name for trial in trials for name in trial.metrics}
    raise Unknown(f"no score {name!r}{nearest(name, {*known.numbers, *TAKEN, *metrics})}")


def _value(evaluator: str, key: str | None, trial: TrialResult) -> Json:
    """The value of a score part: None if the trial was not given it, NaN if it was lost."""
    score = trial.scores.get(evaluator)
    if score is None:
        return None
    if score.state is not State.succeeded:
        return math.nan
    if key is None:
        return score.value
    return score.value.get(key, math.nan) if isinstance(score.value, Mapping) else math.nan


def _score(evaluator: str, key: str | None, trial: TrialResult) -> float | None:
    """A numeric score; None if the trial was not given it, NaN if it was lost."""
    value = _value(evaluator, key, trial)
    return None if value is None else math.nan if isinstance(value, (str, Mapping)) else float(value)


def _share(evaluator: str, key: str | None, category: str, trial: TrialResult) -> float | None:
    """The 0/1 indicator of a category."""
    value = _value(evaluator, key, trial)
    return float(value == category) if isinstance(value, str) else None if value is None else math.nan


def _metric(name: str, trial: TrialResult) -> float | None:
    """A metric, or a measure in `TAKEN`; NaN if the trial lacks it."""
    found = TAKEN[name](trial) if name in TAKEN else trial.metrics.get(name)
    return math.nan if found is None else found
