"""Groups of trials, collected in one pass: the samples behind tables and comparisons.

Every value is kept with its unit of evidence (the case, or the cluster of cases). Failures and scores without
a verdict are counted separately and enter no sample. For each group and score, `trials == values in the
sample + failed + without a verdict + not scored`.
"""

from __future__ import annotations

import math
from array import array
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, MutableSequence, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Generic, TypeVar

from peira.core.ids import Json, canonical
from peira.core.log.events import TERMINAL, State
from peira.core.registry import nearest
from peira.errors import Unknown
from peira.evaluators.scores import LARGEST
from peira.results.slices import METADATA
from peira.results.trials import FAILED, PLAIN, Score, TrialResult, parts

LOST = FAILED - {State.cancelled}
"""States of trials whose value is lost. Those that were not begun or were cancelled say nothing of theirs."""
T = TypeVar("T", float, str)
Unit = tuple[str, str]
"""The unit of evidence: ("case", id) or ("cluster", name)."""
LabelKey = str | bytes
"""A hashable key of a label; see `key_of`."""

ATTRIBUTES: Mapping[str, Callable[[TrialResult], Json]] = {
    "agent": lambda trial: trial.agent,
    "case": lambda trial: trial.case_id,
    "slice": lambda trial: trial.slice,
    "cluster": lambda trial: trial.cluster,
    "served": lambda trial: trial.about.get("served"),
}
"""What trials can be grouped by besides factors and the metadata of their cases."""


MEASURES: Mapping[str, Callable[[TrialResult], float | None]] = {
    "took": lambda trial: trial.took,
    "cost": lambda trial: trial.cost,
}
"""Measures that every trial has: seconds, and US dollars; None if unknown."""


_no_units: Callable[[], array[int]] = partial(array, "q")
"""Where the units of trials are kept: as their hashes (see `stats.inputs.hashed`), and not as texts."""


@dataclass
class Sample(Generic[T]):
    """The values of one score in one group, with the hashes of their units.

    `across` holds the level of the factor that is generalised over, if there is one.
    """

    values: MutableSequence[T]
    units: array[int] = field(default_factory=_no_units)
    across: list[LabelKey] = field(default_factory=list)

    def __len__(self) -> int:
        return len(self.values)


@dataclass
class Group:
    """The trials with the same labels; mutable while they are collected, read-only afterwards."""

    labels: tuple[Json, ...]
    trials: int = 0
    ends: Counter[State] = field(default_factory=Counter)
    no_answer: int = 0
    refused: int = 0
    units: array[int] = field(default_factory=_no_units)
    numbers: dict[str, Sample[float]] = field(default_factory=dict)
    texts: dict[str, Sample[str]] = field(default_factory=dict)
    failed_scores: Counter[str] = field(default_factory=Counter)
    no_verdicts: Counter[str] = field(default_factory=Counter)
    scores_to_come: Counter[str] = field(default_factory=Counter)
    """How many scores have not been made yet: these are not lost."""
    measured: Sample[float] = field(default_factory=lambda: Sample(array("d")))
    unmeasured: list[Unit] = field(default_factory=list)
    lost: list[Unit] = field(default_factory=list)
    lost_scores: dict[str, list[Unit]] = field(default_factory=dict)
    reported: dict[str, list[Unit]] = field(default_factory=dict)
    """Units of trials that are lost, but whose outcome of this name was reported later."""

    @property
    def succeeded(self) -> int:
        """The number of trials that succeeded."""
        return self.trials - sum(self.ends.values())

    @property
    def failed(self) -> int:
        """The number of trials that failed."""
        return self.ends[State.failed] + self.ends[State.blocked]

    def add(
        self, trial: TrialResult, names: dict[str, dict[str, None]], across: str = "", measure: str = ""
    ) -> None:
        """Add a trial: count it, and put its scores into the samples.

        `names` collects the parts of scores. `measure` is a metric, or seconds or cost, that is wanted too.
        """
        self.trials += 1
        unit = trial.unit
        if trial.state != State.succeeded:
            self.ends[trial.state] += 1
            if trial.state in LOST:
                self.lost.append(unit)
                later = [score for score in trial.scores.values() if score.reported]
                for score in later:
                    self.reported.setdefault(score.name, []).append(unit)
                self._add_scores(trial, unit, later, names, across)
            return
        self.units.append(hash(unit))
        if trial.found is not None:
            self.no_answer += bool(trial.no_answer)
        if trial.metrics:
            self.refused += bool(trial.metrics.get("refusals"))
        self._add_scores(trial, unit, trial.scores.values(), names, across)
        if measure:
            self._measure(trial, measure, across)

    def lost_of(self, score: str) -> list[Unit]:
        """The units of lost trials, without those whose outcome of this name was reported later."""
        known = Counter(self.reported.get(score, ()))
        return list((Counter(self.lost) - known).elements())

    def _add_scores(
        self,
        trial: TrialResult,
        unit: Unit,
        scores: Iterable[Score],
        names: dict[str, dict[str, None]],
        across: str,
    ) -> None:
        """Put scores of a trial into the samples."""
        for score in scores:
            name = score.name
            known = names.get(name)
            if known is None:
                known = names[name] = {}
            sample = self.numbers.get(name)
            value: Any = (
                score.value if name in known and not across and score.state is State.succeeded else None
            )
            if sample is not None and type(value) in PLAIN and abs(value) < LARGEST:  # one number, as most
                sample.values.append(float(value))
                sample.units.append(hash(unit))
                continue
            found = parts(score)
            if not found and score.state not in TERMINAL:  # its stage was not run, or it waits for people
                self.scores_to_come[score.name] += 1
            elif not found:
                self.failed_scores[score.name] += score.state in FAILED
                self.no_verdicts[score.name] += score.no_verdict is not None
                self.lost_scores.setdefault(score.name, []).append(unit)
            for part, value in found.items():
                known[part] = None
                into = self._put(part, value, unit)
                if across:
                    into.across.append(key_of(label_of(trial, across)))

    def _measure(self, trial: TrialResult, name: str, across: str) -> None:
        """Put a metric, or a measure that every trial has, into its sample."""
        value = MEASURES[name](trial) if name in MEASURES else trial.metrics.get(name)
        if value is None or not math.isfinite(value):
            self.unmeasured.append(trial.unit)
            return
        self.measured.values.append(value)
        self.measured.units.append(hash(trial.unit))
        if across:
            self.measured.across.append(key_of(label_of(trial, across)))

    def _put(self, name: str, value: float | str, unit: Unit) -> Sample[float] | Sample[str]:
        """Append a value to the sample of numbers or of texts."""
        is_text = isinstance(value, str)
        samples: dict[str, Any] = self.texts if is_text else self.numbers
        sample: Sample[float] | Sample[str] | None = samples.get(name)
        if sample is None:
            sample = samples[name] = Sample([] if is_text else array("d"))
        sample.values.append(value)  # type: ignore[arg-type]
        sample.units.append(hash(unit))
        return sample


@dataclass(frozen=True)
class Groups:
    """All groups in order of first appearance, which is the study's order.

    `names` maps each evaluator to the parts of its score, or the measure that was asked for to itself.
    `metrics` are the names of all metrics, `cases` the labels of cases by id if these are groups.
    """

    by: tuple[str, ...]
    groups: tuple[Group, ...]
    names: Mapping[str, tuple[str, ...]]
    metrics: frozenset[str] = frozenset()
    cases: Mapping[str, str] = field(default_factory=dict)
    measure: str = ""
    """The measure that these groups are about in place of scores; "" for none."""


def gather(
    trials: Iterable[TrialResult], by: Sequence[str] = (), across: str = "", measure: str = ""
) -> Groups:
    """Group trials by factors, attributes and metadata of cases.

    The level of a factor that an agent does not take is None. If `measure` is not a score but seconds, cost
    or a metric, it is the only score of the groups.

    Anchors are left out. Raises Unknown for a name that is neither a factor nor an attribute.
    """
    by = tuple(dict.fromkeys(by))
    groups: dict[tuple[str | bytes, ...], Group] = {}
    names: dict[str, dict[str, None]] = {}
    factors: set[str] = set()
    metrics: set[str] = set()
    plain = {*ATTRIBUTES}
    cases: dict[str, str] = {}
    ranks: list[dict[str | bytes, int]] = [{} for _ in by]
    condition: Mapping[str, Json] | None = None
    for trial in trials:
        if trial.anchor:
            continue
        if trial.condition is not condition:  # trials of one condition follow one another
            condition = trial.condition
            factors.update(condition)
        if trial.metadata and not plain.issuperset(by):
            factors |= groupable([trial])
        if "case" in by and trial.case_id not in cases and "case" not in trial.condition:
            cases[trial.case_id] = trial.case_label
        if measure:
            metrics.update(trial.metrics)
        labels = tuple([label_of(trial, name) for name in by]) if by else ()
        key = tuple(map(key_of, labels))
        group = groups.get(key)
        if group is None:
            group = groups[key] = Group(labels)
            for rank, label in zip(ranks, key, strict=True):
                rank.setdefault(label, len(rank))
        group.add(trial, names, across, measure)
    if groups:
        check_names([*by, across] if across else by, factors, names)
    order = sorted(groups, key=lambda key: [rank[label] for rank, label in zip(ranks, key, strict=True)])
    found = [groups[key] for key in order]
    parts = {name: tuple(known) or (name,) for name, known in names.items()}
    known = {*parts, *(part for some in parts.values() for part in some)}
    if measure and measure not in known and (measure in MEASURES or measure in metrics):
        for group in found:
            group.numbers[measure], group.lost_scores[measure] = group.measured, group.unmeasured
        parts = {measure: (measure,)}
    else:
        measure = ""
    return Groups(by, tuple(found), parts, frozenset(metrics), cases, measure)


def label_of(trial: TrialResult, name: str) -> Json:
    """A trial's level of a factor, its attribute, or a field of its case's metadata; None if none."""
    if name in trial.condition:
        return trial.condition[name]
    attribute = ATTRIBUTES.get(name)
    if attribute:
        return attribute(trial)
    key = name if name in trial.metadata else name.removeprefix(METADATA)
    return trial.metadata.get(key)


def groupable(trials: Iterable[TrialResult]) -> set[str]:
    """The names of all factors, and of all fields of the cases' metadata, plain and with their prefix."""
    factors: set[str] = set()
    fields: set[str] = set()
    for trial in trials:
        factors.update(trial.condition)
        fields.update(trial.metadata)
    return factors | fields | {f"{METADATA}{name}" for name in fields}


def key_of(label: Json) -> str | bytes:
    """A hashable key that distinguishes labels of different types and values."""
    # Bytes and text never compare equal, so 1, True and "1" are three labels.
    if type(label) is int:
        return b"%d" % label
    return label if isinstance(label, str) else canonical(label)


def check_names(by: Sequence[str], factors: Iterable[str], scores: Collection[str]) -> None:
    """Raise Unknown unless every name is an attribute or among `factors` (see `groupable`).

    `scores` are names of scores, for a better message if one of these was given.
    """
    known = {*factors, *ATTRIBUTES}
    for name in by:
        if name in scores and name not in known:
            raise Unknown(f"{name!r} is a score, not something to group by; name it with score={name!r}")
        if name not in known:
            raise Unknown(f"no factor {name!r} to group by{nearest(name, known)}")


def varying(trials: Sequence[TrialResult]) -> tuple[str, ...]:
    """ "agent" if there are several, and every factor with more than one level."""
    names = dict.fromkeys(["agent", *(name for trial in trials for name in trial.condition)])
    return tuple(name for name in names if len({key_of(label_of(trial, name)) for trial in trials}) > 1)
