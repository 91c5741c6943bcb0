"""From groups of trials to a table of means."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from peira.analysis.groups import Group, Groups, Unit, gather
from peira.analysis.missing import Loss, remarks
from peira.analysis.table import Row, Table
from peira.analysis.trials import TrialResult
from peira.core.registry import nearest
from peira.errors import Invalid, Unknown
from peira.stats.intervals import estimate

MOST_CATEGORIES = 12
OTHER = "(other)"


def tabulate(
    trials: Iterable[TrialResult],
    by: Sequence[str] = (),
    score: str | None = None,
    level: float = 0.95,
    notes: Sequence[str] = (),
) -> Table:
    """One row per group and score; the trials are read once and not kept.

    A text is a category: each category's share is a row "score=category", the rarest together as one.
    """
    if not 0 < level < 1:
        raise Invalid(f"level={level!r} does not lie between 0 and 1")
    groups = gather(trials, by)
    shown = [_part(name, evaluator, groups) for name, evaluator in _chosen(groups, score).items()]
    rows = [row for group in groups.groups for row in _rows(group, shown, level)]
    lost = remarks(_losses(groups, shown), level)
    return Table(groups.by, level, tuple(rows), (*_remarks(groups, shown, rows), *lost, *notes))


def _chosen(groups: Groups, score: str | None) -> dict[str, str]:
    """The parts to show, each with the evaluator it is from."""
    parts = {part: name for name, known in groups.names.items() for part in known}
    chosen = {part: name for part, name in parts.items() if score in (None, part, name)}
    if groups.groups and not chosen and score is not None:
        raise Unknown(f"no score {score!r}{nearest(score, {*parts, *groups.names})}")
    return chosen


@dataclass(frozen=True)
class Part:
    """A score or part of one, as all groups together know it."""

    name: str
    evaluator: str
    numeric: bool
    categories: tuple[str, ...]


def _part(name: str, evaluator: str, groups: Groups) -> Part:
    seen: Counter[str] = Counter()
    for group in groups.groups:
        if name in group.texts:
            seen.update(group.texts[name].values)
    often = sorted(seen, key=lambda text: (-seen[text], text))
    categories = sorted(often[:MOST_CATEGORIES]) + [OTHER] * (len(often) > MOST_CATEGORIES)
    numeric = not seen or any(name in group.numbers for group in groups.groups)
    return Part(name, evaluator, numeric, tuple(categories))


def _rows(group: Group, shown: Sequence[Part], level: float) -> Iterator[Row]:
    if not shown:
        n, cases = group.succeeded, len(group.units)
        counts = n, cases, group.failed, group.unfinished
        yield Row(group.labels, None, None, None, None, *counts, "", group.no_answer)
    for part in shown:
        for title, values, units in _samples(part, group):
            yield _row(group, part, title, values, units, level)


def _samples(part: Part, group: Group) -> Iterator[tuple[str, Sequence[float], Sequence[Unit]]]:
    """The part's numbers; and for each category whether each text is of it (1) or not (0)."""
    if part.numeric:
        numbers = group.numbers.get(part.name)
        yield (part.name, numbers.values, numbers.units) if numbers else (part.name, (), ())
    texts = group.texts.get(part.name)
    said = [text if text in part.categories else OTHER for text in texts.values] if texts else []
    for category in part.categories:
        yield (
            f"{part.name}={category}",
            [float(one == category) for one in said],
            texts.units if texts else (),
        )


def _losses(groups: Groups, shown: Sequence[Part]) -> Iterator[Loss]:
    for group in groups.groups:
        for part in shown:
            lost = [*group.lost, *group.lost_scores.get(part.evaluator, ())]
            for title, values, units in _samples(part, group) if lost else ():
                yield Loss(group.labels, title, values, units, lost)


def _row(
    group: Group, part: Part, title: str, values: Sequence[float], units: Sequence[Unit], level: float
) -> Row:
    failed = group.failed + group.failed_scores[part.evaluator]
    unscored = group.trials - len(values) - failed
    if not values:
        return Row(group.labels, title, None, None, None, 0, 0, failed, unscored, "", group.no_answer)
    found = estimate(values, units, level)
    mean, cases = (found.mean, found.low, found.high), len(set(units))
    counts = found.n, cases, failed, unscored
    return Row(group.labels, title, *mean, *counts, found.method, group.no_answer)


def _remarks(groups: Groups, shown: Sequence[Part], rows: Iterable[Row]) -> Iterator[str]:
    """What the reader of the means must know: how the intervals were made, and what is not in them."""
    methods = sorted({row.method for row in rows if row.method})
    if methods:
        yield f"intervals: {', '.join(methods)}"
    trials = sum(group.failed for group in groups.groups)
    evaluators = {part.evaluator for part in shown}
    scores = sum(group.failed_scores[name] for group in groups.groups for name in evaluators)
    if shown and (trials or scores):
        lost = (_count(trials, "failed trial"), _count(scores, "failed score"))
        yield f"not in the means: {', '.join(filter(None, lost))}"
    if unfinished := sum(group.unfinished for group in groups.groups):
        yield f"not finished: {_count(unfinished, 'trial')}"


def _count(n: int, what: str) -> str:
    return f"{n} {what}{'' if n == 1 else 's'}" if n else ""
