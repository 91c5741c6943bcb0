"""The repeats of a case made into one: scores by a reducer (majority, best, pass@k, ...), the rest added up.

What comes of it are trials again, one for each condition and case, so that everything that is said of trials
can be said of them. What repeats took and cost, they took and cost together.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from math import fsum

import msgspec

from peira.analysis.groups import key_of
from peira.analysis.trials import FAILED, NOTHING, Score, TrialResult, numbers
from peira.core.events import Failure, State
from peira.core.ids import canonical
from peira.core.transforms import to_json
from peira.errors import Invalid
from peira.stats.reducers import Reducer, reducer

CONSISTENCY = "consistency"


def reduced(trials: Iterable[TrialResult], name: str, passing: float = 1.0) -> Iterator[TrialResult]:
    """One trial for all repeats of a case under a condition. `consistency` is the share of pairs of repeats
    that gave the same answer."""
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
    done = [trial for trial in repeats if trial.state is State.succeeded]
    first = done[0] if done else repeats[0]
    return msgspec.structs.replace(
        first,
        repeat=0,
        scores=_scores(repeats, reduce) if done else NOTHING,
        metrics=_sums(done),
        took=fsum(trial.took for trial in repeats),
        attempts=sum(trial.attempts for trial in repeats),
        calls=tuple(call for trial in repeats for call in trial.calls),
    )


def _sums(trials: Sequence[TrialResult]) -> Mapping[str, float]:
    """Metrics added up; one that some repeat lacks is not known of all."""
    names = list(trials[0].metrics) if trials else []
    whole = [name for name in names if all(name in trial.metrics for trial in trials)]
    return {name: fsum(trial.metrics[name] for trial in trials) for name in whole}


def _scores(repeats: Sequence[TrialResult], reduce: Reducer | None) -> dict[str, Score]:
    if reduce is None:
        return {CONSISTENCY: _consistency(repeats)}
    names = dict.fromkeys(name for trial in repeats for name in trial.scores)
    return {name: _score(name, repeats, reduce) for name in names}


def _score(name: str, repeats: Sequence[TrialResult], reduce: Reducer) -> Score:
    """The parts of a score, each reduced; texts have no order, and are left out."""
    given = [trial.scores[name] for trial in repeats if name in trial.scores]
    values: dict[str, list[float]] = defaultdict(list)
    for score in given:
        for part, value in numbers(score).items():
            values[part].append(value)
    if not values:
        lost = any(score.state in FAILED for score in given)
        return Score(name, State.failed if lost else State.queued)
    try:
        found = {part.removeprefix(f"{name}."): reduce(several) for part, several in values.items()}
    except ValueError as error:
        return Score(name, State.failed, failure=Failure("ValueError", str(error)))
    return Score(name, State.succeeded, found[name] if set(found) == {name} else found)


def _consistency(repeats: Sequence[TrialResult]) -> Score:
    answers = Counter(canonical(to_json(trial.answer)) for trial in repeats if trial.state is State.succeeded)
    n = answers.total()
    if n < 2:
        few = Failure("ValueError", f"{n} of {len(repeats)} repeats have an answer; it takes two")
        return Score(CONSISTENCY, State.failed, failure=few)
    same = sum(count * (count - 1) for count in answers.values())
    return Score(CONSISTENCY, State.succeeded, same / (n * (n - 1)))
