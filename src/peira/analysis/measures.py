"""One number of each trial: a score or part of one, a category's share, or what agents and the engine report.

A trial that ended without the number has lost it, and that is told: it is not the same as a trial of which
the number was never asked. Anchors are measured again only to see drift; they are no evidence here.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from peira.analysis.trials import TrialResult
from peira.core.events import State
from peira.core.ids import Json
from peira.core.registry import nearest
from peira.core.verdicts import VALUE, is_reason
from peira.errors import Invalid, Unknown

TAKEN: dict[str, Callable[[TrialResult], float | None]] = {
    "took": lambda trial: trial.took,
    "cost": lambda trial: trial.cost,
}
"""What every trial reports by itself: seconds, and US dollars (None where a price is unknown)."""


@dataclass(frozen=True)
class Observation:
    """A trial and its number; None if it was lost."""

    trial: TrialResult
    value: float | None


@dataclass(frozen=True)
class Measured:
    """All observations of one number. `ends` are the worst and best it can be, None where that is unknown."""

    name: str
    observations: tuple[Observation, ...]

    @property
    def ends(self) -> tuple[float, float] | None:
        """Scores that all lie between 0 and 1 are taken for scores that can lie nowhere else."""
        known = [one.value for one in self.observations if one.value is not None]
        within = known and all(0 <= value <= 1 for value in known)
        return (0.0, 1.0) if within and self.name not in TAKEN else None


def measure(trials: Iterable[TrialResult], score: str | None = None) -> Measured:
    """The named number of every trial that was asked for it; without a name, the only score there is."""
    found = [trial for trial in trials if not trial.anchor]
    known = _names(found)
    name = score if score is not None else _only(known)
    if name is None:
        return Measured("score", tuple(Observation(trial, None) for trial in found))
    read = _reader(found, name, known)
    values = [read(trial) if trial.state is State.succeeded else None for trial in found]
    asked = {trial.case_id for trial, value in zip(found, values, strict=True) if value is not None}
    answered = {trial.case_id for trial in found if trial.state is State.succeeded}
    unasked = answered - asked
    seen = zip(found, values, strict=True)
    return Measured(
        name, tuple(Observation(trial, _lost(v)) for trial, v in seen if trial.case_id not in unasked)
    )


def _lost(value: float | None) -> float | None:
    return None if value is None or not math.isfinite(value) else value


@dataclass(frozen=True)
class _Names:
    """The parts of all scores, by whether they are numbers or texts, each with its evaluator and key."""

    numbers: dict[str, tuple[str, str | None]]
    texts: dict[str, tuple[str, str | None]]
    evaluators: set[str]


def _names(trials: Sequence[TrialResult]) -> _Names:
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
    """None where no trial has any score: then nothing is known, whatever its name. Of an evaluator that gives
    several, the one named "value" stands for all."""
    whole = {name: of for name, of in known.numbers.items() if of[1] in (None, VALUE)}
    if len(whole) == 1 and len({of[0] for of in known.numbers.values()}) == 1:
        return next(iter(whole))
    if len(known.numbers) > 1 or (known.texts and not known.numbers):
        several = bool(known.numbers)
        why = "there are several scores" if several else "a text has no mean; name a category as SCORE=TEXT"
        raise Invalid(f"score: {why}; name one of {', '.join(known.numbers or known.texts)}")
    return next(iter(known.numbers), None)


Reader = Callable[[TrialResult], float | None]


def _reader(trials: Sequence[TrialResult], name: str, known: _Names) -> Reader:
    """How to read the number of a trial with an output; NaN where it was asked for and is lost."""
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
    """None if it was not asked for, NaN if it was lost."""
    score = trial.scores.get(evaluator)
    if score is None:
        return None
    if score.state is not State.succeeded:
        return math.nan
    if key is None:
        return score.value
    return score.value.get(key, math.nan) if isinstance(score.value, Mapping) else math.nan


def _score(evaluator: str, key: str | None, trial: TrialResult) -> float | None:
    value = _value(evaluator, key, trial)
    return None if value is None else math.nan if isinstance(value, (str, Mapping)) else float(value)


def _share(evaluator: str, key: str | None, category: str, trial: TrialResult) -> float | None:
    value = _value(evaluator, key, trial)
    return float(value == category) if isinstance(value, str) else None if value is None else math.nan


def _metric(name: str, trial: TrialResult) -> float | None:
    found = TAKEN[name](trial) if name in TAKEN else trial.metrics.get(name)
    return math.nan if found is None else found
