"""A report, as one frozen value: everything that is said about a run, before anybody decides how it looks.

Renderers add nothing to it and compute nothing: what HTML, Markdown, LaTeX and JSON say is the same.
"""

from __future__ import annotations

from dataclasses import dataclass

from peira.analysis.effect_values import Effects
from peira.analysis.findings import Finding
from peira.analysis.leaderboard import Leaderboard
from peira.analysis.table import Table


@dataclass(frozen=True)
class Point:
    """Something with an interval, for a plot and its table. Bounds of None are unknown. `declared` says that
    a hypothesis was declared about it before the run; everything else is exploratory."""

    label: str
    mean: float | None
    low: float | None
    high: float | None
    p: float | None = None
    declared: bool = False
    zero: bool = True
    """Whether it is a change, of which 0 means none."""


@dataclass(frozen=True)
class Interaction:
    """The means of every combination of two factors' levels: a row for each level of the first."""

    first: str
    second: str
    rows: tuple[str, ...]
    columns: tuple[str, ...]
    cells: tuple[tuple[Point | None, ...], ...]


@dataclass(frozen=True)
class Priced:
    """One entry's quality against what it costs (US dollars or seconds, each for one trial)."""

    label: str
    quality: Point
    price: Point
    on_front: float | None


@dataclass(frozen=True)
class Scored:
    """Everything that is said of one number. `sentences` are what it comes to; `points` the forest plot's."""

    name: str
    primary: bool
    lower_is_better: bool
    unit: str
    sentences: tuple[str, ...]
    points: tuple[Point, ...]
    effects: Effects | None
    table: Table | None
    interactions: tuple[Interaction, ...] = ()
    board: Leaderboard | None = None
    priced: tuple[Priced, ...] = ()
    priced_in: str = ""
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Spending:
    """Cost and time: a line each, and what every model took."""

    lines: tuple[str, ...]
    header: tuple[str, ...] = ()
    rows: tuple[tuple[str, ...], ...] = ()


@dataclass(frozen=True)
class FailureKind:
    """Failures of one kind: how many, where, and one of their messages."""

    stage: str
    kind: str
    count: int
    message: str
    where: str


@dataclass(frozen=True)
class Lost:
    """What did not come to an end, or not to a good one; `bounds` say what that could have changed."""

    sentence: str
    kinds: tuple[FailureKind, ...]
    bounds: tuple[str, ...]


@dataclass(frozen=True)
class Threat:
    """A reason to doubt the answer: `grave` ones before all others."""

    title: str
    text: str
    grave: bool = False


@dataclass(frozen=True)
class Said:
    """One call of a model: what was asked, what it said."""

    model: str
    about: str
    asked: str
    said: str


@dataclass(frozen=True)
class Shown:
    """One trial, whole: texts are as they were, however long and whatever is in them."""

    id: str
    condition: str
    levels: str
    case: str
    repeat: int
    state: str
    input: str
    expected: str
    output: str
    answer: str
    scores: tuple[tuple[str, str], ...]
    failure: str
    trace: str
    facts: str
    calls: tuple[Said, ...] = ()


@dataclass(frozen=True)
class Condition:
    """One condition: its trials, what of them failed, and its means, a score each."""

    label: str
    trials: int
    failed: int
    means: tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class Step:
    """Where a running mean stood after `n` cases, with an interval that holds at every moment at once
    (`always`), or only at each by itself."""

    n: int
    mean: float
    low: float | None
    high: float | None


@dataclass(frozen=True)
class Convergence:
    label: str
    steps: tuple[Step, ...]
    always: bool
    ordered: bool
    """Whether the cases are in the order in which they were run."""


@dataclass(frozen=True)
class Bin:
    """Answers given with about this `confidence`: the share of them that were `correct`."""

    confidence: float
    correct: Point
    n: int


@dataclass(frozen=True)
class HeatMap:
    """A mean (None if there is none) for every case, hardest first, under every condition."""

    cases: tuple[str, ...]
    conditions: tuple[str, ...]
    values: tuple[tuple[float | None, ...], ...]
    left_out: int = 0


@dataclass(frozen=True)
class Report:
    """`answer` is one sentence; `declared` says that it answers hypotheses and nothing else."""

    study: str
    title: str
    run: str
    status: str
    when: str
    level: float
    question: str
    answer: str
    declared: bool
    facts: tuple[tuple[str, str], ...]
    findings: tuple[Finding, ...]
    scores: tuple[Scored, ...]
    spending: Spending
    lost: Lost
    deviations: tuple[str, ...]
    drift: tuple[str, ...]
    methods: tuple[str, ...]
    versions: tuple[tuple[str, str], ...]
    threats: tuple[Threat, ...]
    conditions: tuple[Condition, ...]
    conditions_left: int
    trials: tuple[Shown, ...]
    not_shown: str
    convergence: Convergence | None = None
    calibration: tuple[Bin, ...] = ()
    heat: HeatMap | None = None
    notes: tuple[str, ...] = ()

    @property
    def main(self) -> Scored | None:
        """What the answer is about: the primary outcome, or else the first score."""
        return self.scores[0] if self.scores else None
