"""Reduces the repeats of a case to one trial: by majority, best, pass@k and other reducers.

The results are trials again, one for each condition and case, so that all analyses apply to them. Time,
attempts, calls and metrics of the repeats are added up.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from math import fsum

import msgspec

from peira.analysis.table.groups import key_of
from peira.core.ids import canonical
from peira.core.log.events import Failure, State
from peira.core.transforms import to_json
from peira.errors import Invalid
from peira.results.trials import FAILED, NOTHING, Score, TrialResult, numbers
from peira.stats.reducers import Reducer, reducer

CONSISTENCY = "consistency"
"""The name of the reducer that measures how often repeats agree."""


def reduce_repeats(trials: Iterable[TrialResult], name: str, passing: float = 1.0) -> Iterator[TrialResult]:
    """One trial for all repeats of a case under a condition; raises Invalid for an unknown reducer.

    `consistency` is the share of pairs of repeats with the same answer.
    """
    try:
        reduce = None if name == CONSISTENCY else reducer(name, passing)
    except ValueError as error:
        raise Invalid(f"reduce: {error}, {CONSISTENCY}") from None
    repeats: dict[tuple[object, ...], list[TrialResult]] = defaultdict(list)
    for trial in trials:
        if not trial.anchor:
            condition = tuple((factor, key_of(level)) for factor, level in trial.condition.items())
            repeats[trial.agent, condition, trial.case_id].append(trial)
    return (_as_one(group, reduce) for group in repeats.values())


def _as_one(repeats: Sequence[TrialResult], reduce: Reducer | None) -> TrialResult:
    """The repeats reduced to one trial."""
    done = [trial for trial in repeats if trial.state is State.succeeded]
    first = done[0] if done else repeats[0]
    return msgspec.structs.replace(
        first,
        repeat=0,
        scores=_scores(repeats, reduce) if done else NOTHING,
        metrics=_sums(done),
        took=_time(repeats),
        attempts=sum(trial.attempts for trial in repeats),
        calls=tuple(call for trial in repeats for call in trial.calls),
    )


def _time(trials: Sequence[TrialResult]) -> float | None:
    """The seconds that all of them took; None if that is unknown of one."""
    known = [trial.took for trial in trials if trial.took is not None]
    return fsum(known) if len(known) == len(trials) else None


def _sums(trials: Sequence[TrialResult]) -> Mapping[str, float]:
    """The sums of metrics; a metric that some repeat lacks is left out."""
    names = list(trials[0].metrics) if trials else []
    whole = [name for name in names if all(name in trial.metrics for trial in trials)]
    return {name: fsum(trial.metrics[name] for trial in trials) for name in whole}


def _scores(repeats: Sequence[TrialResult], reduce: Reducer | None) -> dict[str, Score]:
    """The reduced scores of a case, or its consistency."""
    if reduce is None:
        return {CONSISTENCY: _consistency(repeats)}
    names = dict.fromkeys(name for trial in repeats for name in trial.scores)
    return {name: _score(name, repeats, reduce) for name in names}


def _score(name: str, repeats: Sequence[TrialResult], reduce: Reducer) -> Score:
    """A score with each numeric part reduced; texts are left out."""
    given = [trial.scores[name] for trial in repeats if name in trial.scores]
    values: dict[str, list[float]] = defaultdict(list)
    for score in given:
        for part, value in numbers(score).items():
            values[part].append(value)
    if not values:
        undecided = [score for score in given if score.no_verdict]
        lost = any(score.state in FAILED for score in given)
        return undecided[0] if undecided else Score(name, State.failed if lost else State.queued)
    try:
        found = {part.removeprefix(f"{name}."): reduce(several) for part, several in values.items()}
    except ValueError as error:
        return Score(name, State.failed, failure=Failure("ValueError", str(error)))
    return Score(name, State.succeeded, found[name] if set(found) == {name} else found)


def _consistency(repeats: Sequence[TrialResult]) -> Score:
    """The share of pairs of repeats with the same answer."""
    answers = Counter(canonical(to_json(trial.answer)) for trial in repeats if trial.state is State.succeeded)
    n = answers.total()
    if n < 2:
        few = Failure("ValueError", f"{n} of {len(repeats)} repeats have an answer; it takes two")
        return Score(CONSISTENCY, State.failed, failure=few)
    same = sum(count * (count - 1) for count in answers.values())
    return Score(CONSISTENCY, State.succeeded, same / (n * (n - 1)))
