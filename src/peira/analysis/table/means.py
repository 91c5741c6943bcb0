"""Computes the table of means, with worst-case bounds for trials that failed or have no score."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain

from peira.analysis.table.groups import MEASURES, Group, Groups, LabelKey, gather
from peira.analysis.table.intervals import check_interval_method, mean_by
from peira.analysis.table.value import Table, TableRow
from peira.core.log.events import State
from peira.core.registry import nearest
from peira.core.text import grid as layout
from peira.core.text.words import counted
from peira.core.verdicts import is_raw
from peira.errors import Invalid, Unknown
from peira.results.trials import FAILED, TrialResult, end_counts
from peira.stats.inputs import coded
from peira.stats.intervals.bounded import scale_of
from peira.stats.intervals.means import Limits, bounds, two_way
from peira.stats.values import Estimate

# Lost values

MOST = 8
"""The number of groups with lost trials that are described; the others are counted."""


@dataclass(frozen=True)
class Loss:
    """One score in one group: the observed values with their units, and the units of the lost ones.

    `group` is its levels with the names of their factors, "" if there is one group only. `unknown` is the
    number of trials that succeeded, and of which a measure is not known.
    """

    group: str
    score: str
    values: Sequence[float]
    units: Sequence[Hashable]
    lost: Sequence[Hashable]
    limits: Limits | None = (0.0, 1.0)
    unknown: int = 0


def remarks(losses: Iterable[Loss], level: float) -> Iterator[str]:
    """One line for each group that lost values, up to `MOST`."""
    some = [loss for loss in losses if loss.lost or loss.unknown]
    yield from (_remark(loss, level) for loss in some[:MOST])
    if len(some) > MOST:
        yield f"and {len(some) - MOST} more means with lost trials"


def _remark(loss: Loss, level: float) -> str:
    """The worst-case bounds of a group's mean, as text."""
    name = f"{loss.group}, {loss.score}" if loss.group else loss.score
    lost = counted(len(loss.lost), "lost trial")
    if loss.unknown:
        more = f", and for {lost}" if loss.lost else ""
        return f"{name}: not known for {counted(loss.unknown, 'trial')}{more}"
    if loss.limits is None:
        return f"{name}: the mean with {lost} has no known bounds"
    found = bounds(loss.values, loss.units, loss.lost, *loss.limits, level=level)
    inner, outer = _span(found.low, found.high), _span(found.lowest, found.highest)
    return f"{name}: with {lost} at worst or best {inner}, {100 * level:g}% bounds {outer}"


def _span(low: float | None, high: float | None) -> str:
    """A range as text."""
    return " to ".join("unknown" if end is None else f"{end:.3f}" for end in (low, high))


# The table

MOST_CATEGORIES = 12
"""The number of categories of a text score that get rows of their own."""
ENDS = State.exhausted, State.cancelled, State.in_doubt
"""How trials end of which a table has the numbers, beside those that failed."""
OTHER = "(other)"
"""The label of all rarer categories together."""


def tabulate(
    trials: Iterable[TrialResult],
    by: Sequence[str] = (),
    score: str | None = None,
    level: float = 0.95,
    notes: Sequence[str] = (),
    interval: str = "",
    across: str = "",
) -> Table:
    """The table of means with one row per group and score; reads the trials once as a stream.

    `interval` names an interval method other than the one that fits the data. The levels of `across` are
    treated as a sample, like cases, so that intervals generalise to other levels. A text score is
    categorical: the share of each category is a row "score=category", with the rarest combined. Raises
    Invalid for a level outside (0, 1) and Unknown for unknown names.
    """
    if not 0 < level < 1:
        raise Invalid(f"level={level!r} does not lie between 0 and 1")
    check_interval_method(interval)
    groups = gather(trials, by, across, score or "")
    shown = [_part(name, evaluator, groups) for name, evaluator in _chosen(groups, score).items()]
    rows = [row for group in groups.groups for row in _rows(group, shown, level, interval)]
    lost = remarks(_losses(groups, shown), level)
    scales = (f"{part.name}: taken for grades from 1 to 5" for part in shown if part.limits == (1, 5))
    remarks_below = (*_remarks(groups, shown, rows), *scales, *lost, *notes)
    return Table(groups.by, level, tuple(rows), remarks_below, dict(groups.cases))


def _chosen(groups: Groups, score: str | None) -> dict[str, str]:
    """The score parts to show, each with its evaluator; raw values only if named."""
    parts = {part: name for name, known in groups.names.items() for part in known}
    chosen = {part: name for part, name in parts.items() if score in (part, name)}
    if score is None:
        chosen = {part: name for part, name in parts.items() if part == name or not is_raw(part)}
    if groups.groups and not chosen and score is not None:
        known = {*parts, *groups.names, *MEASURES, *groups.metrics}
        raise Unknown(f"no score {score!r}{nearest(score, known)}")
    return chosen


@dataclass(frozen=True)
class ScorePart:
    """A score or part of one, with its categories and its limits over all groups.

    `limits` are None for a score that is neither from 0 to 1 nor a grade from 1 to 5.
    """

    name: str
    evaluator: str
    numeric: bool
    categories: tuple[str, ...]
    limits: Limits | None = None


def _part(name: str, evaluator: str, groups: Groups) -> ScorePart:
    """Whether a part is numeric, and its categories, most frequent first."""
    seen: Counter[str] = Counter()
    for group in groups.groups:
        if name in group.texts:
            seen.update(group.texts[name].values)
    often = sorted(seen, key=lambda text: (-seen[text], text))
    categories = sorted(often[:MOST_CATEGORIES]) + [OTHER] * (len(often) > MOST_CATEGORIES)
    samples = [group.numbers[name].values for group in groups.groups if name in group.numbers]
    limits = scale_of(chain.from_iterable(samples))
    return ScorePart(name, evaluator, not seen or bool(samples), tuple(categories), limits)


def _rows(group: Group, shown: Sequence[ScorePart], level: float, way: str) -> Iterator[TableRow]:
    """The rows of a group, one per score part and category; without scores, the counts alone."""
    if not shown:
        _, cases = coded(group.units, len(group.units))
        n, ends = group.succeeded, [group.ends[state] for state in ENDS]
        counts = n, cases, group.failed, group.trials - n - group.failed - sum(ends)
        others = group.no_answer, 0, *ends, group.refused
        yield TableRow(group.labels, None, None, None, None, *counts, "", *others)
    for part in shown:
        across = group.numbers[part.name].across if part.name in group.numbers else []
        for title, values, units in _samples(part, group):
            yield _row(group, part, title, values, units, level, way, across)


def _samples(part: ScorePart, group: Group) -> Iterator[tuple[str, Sequence[float], Sequence[int]]]:
    """The numbers of a part; then for each category the 0/1 indicator of each text."""
    if part.numeric:
        numbers = group.numbers.get(part.name)
        yield (part.name, numbers.values, numbers.units) if numbers else (part.name, (), ())
    texts = group.texts.get(part.name)
    labels = [text if text in part.categories else OTHER for text in texts.values] if texts else []
    for category in part.categories:
        yield (
            f"{part.name}={category}",
            [float(one == category) for one in labels],
            texts.units if texts else (),
        )


def _losses(groups: Groups, shown: Sequence[ScorePart]) -> Iterator[Loss]:
    """The losses of all groups and parts."""
    for group in groups.groups:
        pairs = zip(groups.by, group.labels, strict=True)
        named = ", ".join(f"{layout.cell(name)}={layout.cell(label)}" for name, label in pairs)
        for part in shown:
            unscored = group.lost_scores.get(part.evaluator, [])
            unknown = len(unscored) if part.name == groups.measure else 0
            gone = group.lost_of(part.evaluator) if group.lost else []
            lost = list(map(hash, gone if unknown else [*gone, *unscored]))
            for title, values, units in _samples(part, group) if lost or unknown else ():
                limits = part.limits if title == part.name else (0.0, 1.0)
                yield Loss(named, title, values, units, lost, limits, unknown)


def _row(
    group: Group,
    part: ScorePart,
    title: str,
    values: Sequence[float],
    units: Sequence[int],
    level: float,
    way: str,
    across: Sequence[LabelKey],
) -> TableRow:
    """The table row of one part in one group."""
    failed = group.failed + group.failed_scores[part.evaluator]
    undecided, ends = group.no_verdicts[part.evaluator], [group.ends[state] for state in ENDS]
    unscored = group.trials - len(values) - failed - undecided - sum(ends)
    others = group.no_answer, undecided, *ends, group.refused
    if not values:
        counts = 0, 0, failed, unscored
        return TableRow(group.labels, title, None, None, None, *counts, "", *others)
    both = across and len(across) == len(values)
    limits = part.limits if title == part.name else (0.0, 1.0)
    found = (
        _two_way_mean(values, units, across, level, limits)
        if both
        else mean_by(way, values, units, level, limits)
    )
    _, cases = coded(units, len(units))
    mean, counts = (found.mean, found.low, found.high), (found.n, cases, failed, unscored)
    return TableRow(group.labels, title, *mean, *counts, found.method, *others)


def _two_way_mean(
    values: Sequence[float],
    units: Sequence[int],
    across: Sequence[LabelKey],
    level: float,
    limits: Limits | None,
) -> Estimate:
    """The mean with two-way clustering by units and levels, clipped to the limits of the score."""
    found = two_way(values, units, across, level)
    if found.low is None or found.high is None or limits is None:
        return found
    return replace(found, low=max(found.low, limits[0]), high=min(found.high, limits[1]))


def _remarks(groups: Groups, shown: Sequence[ScorePart], rows: Iterable[TableRow]) -> Iterator[str]:
    """The remarks below the table: interval methods, and what is not in the means."""
    methods = sorted({row.method for row in rows if row.method})
    if methods:
        yield f"intervals: {', '.join(methods)}"
    states = sum((group.ends for group in groups.groups), Counter[State]())
    over = end_counts(state for state in states.elements() if state in FAILED) if states else {}
    trials = [_count(n, f"{word} trial") for word, n in over.items() if word != "in doubt"]
    trials += [f"{_count(over['in doubt'], 'trial')} in doubt"] if "in doubt" in over else []
    evaluators = {part.evaluator for part in shown}
    scores = sum(group.failed_scores[name] for group in groups.groups for name in evaluators)
    undecided = sum(group.no_verdicts[name] for group in groups.groups for name in evaluators)
    if shown and (trials or scores or undecided):
        lost = (*trials, _count(scores, "failed score"), _without(undecided))
        yield f"not in the means: {', '.join(filter(None, lost))}"
    if to_come := sum(group.scores_to_come[name] for group in groups.groups for name in evaluators):
        yield f"scores not made yet: {to_come:,}"
    if left := end_counts(state for state in states.elements() if state not in FAILED) if states else {}:
        yield ", ".join(f"{word}: {_count(n, 'trial')}" for word, n in left.items())


def _without(n: int) -> str:
    """The number of scores without a verdict, as text."""
    return f"{_count(n, 'score')} without a verdict" if n else ""


def _count(n: int, what: str) -> str:
    """A number with its noun; empty for 0."""
    return counted(n, what) if n else ""
