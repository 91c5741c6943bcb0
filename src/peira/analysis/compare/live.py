"""Comparison of the arms of a stream, whose jobs go on arriving: valid at every look.

Jobs whose condition was drawn are weighted by the recorded probabilities (augmented inverse-propensity
weighting), so that the traffic may have followed the evidence. Jobs that were done under all conditions, the
others as shadows, are compared job by job. Intervals are confidence sequences of the mean effect on the jobs
so far (`peira.stats.sequential.running_mean`), and p-values are valid whenever one looks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from peira.analysis.compare.comparison import ComparisonTable, Contrast, DifferenceBounds
from peira.analysis.compare.contrasts import ComparisonOptions, loss_notes
from peira.analysis.compare.imputation import at_worst
from peira.analysis.compare.sides import Levels, Pair, choose_pairs, levels_of
from peira.analysis.table.measures import Measured, Observation, measure
from peira.core.ids import Json
from peira.core.looks import Arm, arms_of
from peira.core.text import grid as layout
from peira.core.text.words import counted
from peira.errors import Invalid
from peira.results.trials import TrialResult
from peira.stats.sequential.randomisation import ArmPredictions, Limits, RandomisedContrast
from peira.stats.sequential.running_mean import BracketedMean, SequencePath, SequencePoint
from peira.stats.tests.equivalence import Answer, Equivalence
from peira.stats.tests.multiplicity import bonferroni, family_level, holm
from peira.stats.values import Estimate

ONE_LOOK = "jobs go on arriving: these intervals hold for one look, not for looking until they please"
"""The note of numbers that are not valid at every look."""
FOLLOWED = "the traffic followed the evidence: means of arms may be too low; compare() makes up for that"
VALID = "valid at every look, for all jobs since {since}"
LEFT_OUT = "not in the comparison: {jobs} drawn before this experiment began, or given to its winner"
UNCORRECTED = (None, "declared", "holm", "bonferroni")


@dataclass(frozen=True)
class LiveDesign:
    """How the jobs of a stream got their conditions.

    `arms` are the conditions as they are shown, in the order of the arms of jobs. `least_share` is the
    smallest probability that an arm may have had in the experiment.
    """

    assign: str
    arms: tuple[Mapping[str, Json], ...]
    experiment: str = ""
    least_share: float = 1.0
    since: str = "the first"

    @property
    def compares(self) -> bool:
        """Whether its jobs can be compared at every look."""
        return len(self.arms) > 1 and (self.assign == "all" or bool(self.experiment))

    @property
    def notes(self) -> tuple[str, ...]:
        """What is to be said of every other number."""
        adaptive = self.assign in ("thompson", "successive rejects")
        return (ONE_LOOK, *((FOLLOWED,) if adaptive else ()))


def compare_live(
    trials: Iterable[TrialResult],
    live: LiveDesign,
    by: str,
    a: Json = None,
    b: Json = None,
    score: str | None = None,
    baseline: Json = None,
    wish: ComparisonOptions | None = None,
    notes: Sequence[str] = (),
) -> ComparisonTable:
    """Compare levels of a factor over the jobs of a stream: `a` with `b`, all with the `baseline`, or all.

    Raises Unknown for unknown names and levels, Invalid for options that have no meaning at every look, and
    if there is nothing to compare.
    """
    wish = wish or ComparisonOptions()
    _check(wish)
    every = list(trials)
    own = [one for one in every if live.assign == "all" or _drawn_for(one, live.experiment)]
    measured = measure(own, score)
    remarks = [*loss_notes(measured, wish.missing)]
    left = sum(one.draw is None or not _drawn_for(one, live.experiment) for one in every)
    if left and live.assign != "all":
        remarks.append(LEFT_OUT.format(jobs=counted(left, "job")))
    if wish.missing == "worst":
        measured = at_worst(measured)
    levels = _in_order(levels_of(measured, by), live, by)
    pairs = choose_pairs(levels, a, b, baseline)
    arms = _arms(levels, live, by)
    level = family_level(wish.level, len(pairs)) if len(pairs) > 1 and wish.correction else wish.level
    found = [_contrast(measured, live, arms, pair, replace(wish, level=level)) for pair in pairs]
    correction = "" if len(pairs) < 2 or wish.correction is None else wish.correction
    correction = "holm" if correction == "declared" else correction
    if correction:
        adjusted = (holm if correction == "holm" else bonferroni)([one.p for one in found])
        found = [replace(one, adjusted=p) for one, p in zip(found, adjusted, strict=True)]
    remarks.append(VALID.format(since=live.since))
    kept = [note for note in notes if note not in live.notes]
    return ComparisonTable(
        by, measured.name, wish.level, correction, tuple(found), wish.margin, (*remarks, *kept)
    )


@dataclass(frozen=True)
class ArmSequence:
    """The difference of two arms of a stream (by their numbers), as its jobs came.

    `points` are at most `MOST_POINTS` moments: the number of jobs, the estimate and the ends of the
    confidence sequence, None where they are unknown; the last one is the present. `p` is valid at every look.
    """

    first: int
    second: int
    points: tuple[SequencePoint, ...]
    p: float | None


def arm_sequences(
    measured: Measured, live: LiveDesign, reference: int, level: float, limits: Limits | None
) -> list[ArmSequence]:
    """The differences of one arm from each other at growing numbers of jobs.

    `limits` are the least and the greatest possible value, by those that were observed if they are not known.
    Lost jobs count as the worst for the lower end and as the best for the upper one.
    """
    found, ends = [], limits or measured.ends
    for other in range(len(live.arms)):
        if other == reference:
            continue
        weights = [float(arm == reference) - float(arm == other) for arm in range(len(live.arms))]
        path = SequencePath(len(measured.observations) // (len(live.arms) if live.assign == "all" else 1))
        sequence = _sequence(measured.observations, ends, live, weights, level, path.look)
        p = sequence.p if sequence.n else None
        found.append(ArmSequence(reference, other, path.points(sequence), p))
    return found


def _check(wish: ComparisonOptions) -> None:
    """Invalid for options that have no meaning at every look."""
    problems = [
        f"{name}: streams are compared by confidence sequences, valid at every look; leave it out"
        for name in ("test", "effect", "interval", "paired")
        if getattr(wish, name)
    ]
    if wish.correction not in UNCORRECTED:
        problems.append(f"correction: {wish.correction} does not hold at every look; holm and bonferroni do")
    if wish.missing == "impute":
        problems.append("missing: lost jobs of a stream are left out, or counted as worst")
    if problems:
        raise Invalid(problems)


def _drawn_for(trial: TrialResult, experiment: str) -> bool:
    return trial.draw is not None and trial.draw.experiment == experiment


def _in_order(levels: Levels, live: LiveDesign, by: str) -> Levels:
    """The levels in the order in which the stream declares them, not that of the jobs that came first."""
    order = {layout.cell(arm.level): place for place, arm in enumerate(arms_of(live.arms, by))}
    found = sorted(levels.sides.items(), key=lambda item: order.get(item[1].label, len(order)))
    return Levels(dict(found))


def _arms(levels: Levels, live: LiveDesign, by: str) -> dict[str, Arm]:
    """The arms of the stream that have each level, by its label."""
    found = {layout.cell(arm.level): arm for arm in arms_of(live.arms, by)}
    return {one.label: found[one.label] for one in levels.sides.values() if one.label in found}


def _weights(pair: Pair, arms: Mapping[str, Arm], n: int) -> list[float]:
    """The weight of each arm of the stream in the difference of two levels.

    Levels are compared under equal levels of the other factors, each of which counts the same.
    """
    one, two = pair
    if one.label not in arms or two.label not in arms:
        raise Invalid("by: on a stream, name a factor whose levels are drawn, or agent")
    groups = arms[one.label].against(arms[two.label])
    weights = [0.0] * n
    for first, second in groups:
        for side, sign in ((first, 1.0), (second, -1.0)):
            for number in side:
                weights[number] += sign / len(side) / len(groups)
    return weights


def _contrast(
    measured: Measured, live: LiveDesign, arms: Mapping[str, Arm], pair: Pair, wish: ComparisonOptions
) -> Contrast:
    """The difference of two levels, with what is known of lost jobs beside it."""
    weights = _weights(pair, arms, len(live.arms))
    one, two = pair
    observed = measured.known
    among = observed if live.assign != "all" else _whole(observed, weights, live)
    mean = _sequence(among, measured.ends, live, weights, wish.level)
    now = mean.now()
    sides = [seen for seen in observed if weights[_arm(seen.trial, live)]]
    how: Literal["pairs", "groups"] = "pairs" if live.assign == "all" else "groups"
    enough = len(one.scored) and len(two.scored) and mean.n
    empty = Contrast(
        first=one.label,
        second=two.label,
        paired=live.assign == "all",
        pairing=_pairing(live) if enough else "a side has no scores",
        n=mean.n if live.assign == "all" else len(sides),
        units=mean.n if live.assign == "all" else len(sides),
        unit="job",
        unmatched=0,
        shared=0.0,
        shared_what="trials",
        model=how,
        bounds=_bounds(measured, live, weights, wish.level),
    )
    if not enough or now.mean is None:
        return empty
    ends = [None if abs(end) == float("inf") else end for end in (now.low, now.high)]
    p = None if ends[0] is None or ends[1] is None else mean.p
    estimate = Estimate(now.mean, ends[0], ends[1], mean.n, now.method)
    found = replace(empty, difference=estimate, p=p, adjusted=p, test="confidence sequence")
    equivalent, not_worse = _margins(estimate, wish)
    return replace(found, equivalent=equivalent, not_worse=not_worse)


def _pairing(live: LiveDesign) -> str:
    if live.assign == "all":
        return "job"
    split = "equal shares" if live.assign == "random" else "the share of its arm at that moment"
    return f"each job was given one arm; weighted by {split}"


def _margins(found: Estimate, wish: ComparisonOptions) -> tuple[Equivalence, Equivalence] | tuple[None, None]:
    """Equivalence and non-inferiority by the confidence sequence itself."""
    if wish.margin is None or found.low is None or found.high is None:
        return None, None
    low, high, margin = found.low, found.high, wish.margin
    above: Answer = "within" if low > -margin else "outside" if high < -margin else "undecided"
    both: Answer = "outside" if low > margin or high < -margin else "undecided"
    both = "within" if low > -margin and high < margin else both
    return Equivalence(both, None, None, None, found), Equivalence(above, None, None, None, found)


def _arm(trial: TrialResult, live: LiveDesign) -> int:
    """The number of a trial's arm."""
    if trial.draw is not None:
        return trial.draw.arm
    shown = {"agent": trial.agent, **trial.condition}
    return next(number for number, arm in enumerate(live.arms) if dict(arm) == shown)


def _sequence(
    observations: Iterable[Observation],
    ends: Limits | None,
    live: LiveDesign,
    weights: Sequence[float],
    level: float,
    look: Callable[[BracketedMean], None] = lambda mean: None,
) -> BracketedMean:
    """The confidence sequence of a contrast after these jobs, in their order; `look` is called after each."""
    if live.assign == "all":
        return _paired(observations, ends, live, weights, level, look)
    mean = RandomisedContrast(weights, live.least_share, ends, level)
    predictions = ArmPredictions(len(weights), ends)
    for one in observations:
        draw = one.trial.draw
        assert draw is not None
        mean.draw(predictions, draw.arm, draw.share, one.value)
        if one.value is not None:
            predictions.add(draw.arm, one.value)
        look(mean)
    return mean


def _by_job(observations: Iterable[Observation]) -> dict[str, list[Observation]]:
    found: dict[str, list[Observation]] = {}
    for one in observations:
        found.setdefault(one.trial.case_id, []).append(one)
    return found


def _whole(
    observations: Iterable[Observation], weights: Sequence[float], live: LiveDesign
) -> list[Observation]:
    """The observations of jobs that have a value under every condition of the contrast."""
    needed = {arm for arm, weight in enumerate(weights) if weight}
    groups = _by_job(observations).values()
    return [one for group in groups if {_arm(seen.trial, live) for seen in group} >= needed for one in group]


def _paired(
    observations: Iterable[Observation],
    ends: Limits | None,
    live: LiveDesign,
    weights: Sequence[float],
    level: float,
    look: Callable[[BracketedMean], None],
) -> BracketedMean:
    """The confidence sequence of differences within jobs that were done under all conditions."""
    reach = None if ends is None else (ends[1] - ends[0]) * sum(map(abs, weights)) / 2
    limits = None if reach is None else (-reach, reach)
    mean = BracketedMean(None if reach is None else 2 * reach, level, reach=limits)
    predictions = ArmPredictions(1, limits)
    for group in _by_job(observations).values():
        low = high = 0.0
        known = True
        for one in group:
            weight = weights[_arm(one.trial, live)]
            if not weight:
                continue
            if one.value is None:
                if ends is None:
                    break
                known = False
            least, most = (one.value, one.value) if one.value is not None else ends or (0.0, 0.0)
            low += min(weight * least, weight * most)
            high += max(weight * least, weight * most)
        else:
            mean.add(low, high, predictions.of(0))
            if known:
                predictions.add(0, low)
            look(mean)
    return mean


def _bounds(
    measured: Measured, live: LiveDesign, weights: Sequence[float], level: float
) -> DifferenceBounds | None:
    """The worst-case range of the difference over the lost jobs; None if none was lost."""
    lost = [one for one in measured.observations if one.value is None and weights[_arm(one.trial, live)]]
    if not lost:
        return None
    if measured.ends is None:
        return DifferenceBounds(None, None, None, None, len(lost))
    mean = _sequence(measured.observations, measured.ends, live, weights, level)
    now = mean.now()
    return DifferenceBounds(mean.low.mean, mean.high.mean, now.low, now.high, len(lost))
