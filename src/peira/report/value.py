"""A report as one frozen value: everything it says about a run, independent of the output format.

Writers add and compute nothing, so that HTML, Markdown, LaTeX and JSON say the same.
"""

from __future__ import annotations

from dataclasses import dataclass

from peira.analysis.compare.hypotheses import Finding
from peira.analysis.compare.sensitivity import Sensitivity
from peira.analysis.effects.factor_effects import Effects
from peira.analysis.ranking.leaderboard import Leaderboard
from peira.analysis.table.slices import Slices
from peira.analysis.table.value import Table
from peira.core.chat.transcript import Transcript


@dataclass(frozen=True)
class PlotPoint:
    """An estimate with its interval, for a plot and its table; bounds of None are unknown.

    `declared` says that a hypothesis was declared about it before the run; everything else is exploratory.
    """

    label: str
    mean: float | None
    low: float | None
    high: float | None
    p: float | None = None
    declared: bool = False
    zero: bool = True
    """Whether it is a difference, for which 0 means no effect."""
    method: str = ""
    """The method of the interval, which ends in a remark if the interval may be too narrow."""


@dataclass(frozen=True)
class Interaction:
    """The means of all combinations of two factors' levels, one row per level of the first."""

    first: str
    second: str
    rows: tuple[str, ...]
    columns: tuple[str, ...]
    cells: tuple[tuple[PlotPoint | None, ...], ...]


@dataclass(frozen=True)
class Priced:
    """The quality and the price (US dollars or seconds per trial) of one leaderboard entry."""

    label: str
    quality: PlotPoint
    price: PlotPoint
    on_front: float | None


@dataclass(frozen=True)
class Scored:
    """Everything the report says about one score.

    `sentences` are its conclusions, `points` the data of the forest plot.
    """

    name: str
    primary: bool
    lower_is_better: bool
    unit: str
    sentences: tuple[str, ...]
    points: tuple[PlotPoint, ...]
    effects: Effects | None
    table: Table | None
    interactions: tuple[Interaction, ...] = ()
    board: Leaderboard | None = None
    ranking: str = ""
    """The sentence of the leaderboard, in which levels carry the names of their factors."""
    priced: tuple[Priced, ...] = ()
    priced_in: str = ""
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Spending:
    """Cost and time: sentences, and a table by model."""

    lines: tuple[str, ...]
    header: tuple[str, ...] = ()
    rows: tuple[tuple[str, ...], ...] = ()


@dataclass(frozen=True)
class FailureKind:
    """Failures of one kind: how many, where, and an example message."""

    stage: str
    kind: str
    count: int
    message: str
    where: str
    cause: str = ""


@dataclass(frozen=True)
class Failures:
    """What failed or did not finish; `bounds` are worst-case bounds of the means.

    `curves` say for each difference how different the lost trials would have to be to overturn it.
    """

    sentence: str
    kinds: tuple[FailureKind, ...]
    bounds: tuple[str, ...]
    curves: tuple[Sensitivity, ...] = ()


@dataclass(frozen=True)
class Threat:
    """A threat to validity; grave ones come first."""

    title: str
    text: str
    grave: bool = False


@dataclass(frozen=True)
class CallText:
    """One model call: the request and the reply as text."""

    model: str
    about: str
    asked: str
    said: str


@dataclass(frozen=True)
class TrialExample:
    """One trial shown in full; its texts are neither escaped nor shortened."""

    id: str
    condition: str
    levels: str
    case: str
    repeat: int
    state: str
    verdict: str
    """Whether it is right: correct or wrong; its state, if no score says so."""
    input: str
    expected: str
    output: str
    answer: str
    scores: tuple[tuple[str, str], ...]
    failure: str
    trace: str
    facts: str
    calls: tuple[CallText, ...] = ()
    transcript: Transcript | None = None
    """What happened in it, in order; None if there is nothing to show beside input and output."""


@dataclass(frozen=True)
class ReportedCondition:
    """One condition: its number of trials and failures, and its mean for each score."""

    label: str
    trials: int
    failed: int
    means: tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class ConvergenceStep:
    """The running mean after `n` cases, with its interval.

    The interval is a confidence sequence if `Convergence.always`, else pointwise.
    """

    n: int
    mean: float
    low: float | None
    high: float | None


@dataclass(frozen=True)
class Convergence:
    """The running mean, or difference, over the cases of a run."""

    label: str
    steps: tuple[ConvergenceStep, ...]
    always: bool
    ordered: bool
    """Whether the cases are in the order in which they were run."""


@dataclass(frozen=True)
class Bin:
    """A calibration bin: answers with about this `confidence`, and the share that was `correct`."""

    confidence: float
    correct: PlotPoint
    n: int


@dataclass(frozen=True)
class HeatMap:
    """The mean of every case (hardest first) under every condition, None if there is none."""

    cases: tuple[str, ...]
    conditions: tuple[str, ...]
    values: tuple[tuple[float | None, ...], ...]
    left_out: int = 0


@dataclass(frozen=True)
class ConditionSpread:
    """The `n` values of one condition as quantiles, from the smallest to the largest."""

    label: str
    n: int
    quantiles: tuple[float, ...]


@dataclass(frozen=True)
class Distribution:
    """How a score, costs or seconds are distributed under each condition.

    `of` names what is counted: cases (by the mean of their repeats) or trials.
    """

    measure: str
    of: str
    conditions: tuple[ConditionSpread, ...]
    left_out: int = 0


@dataclass(frozen=True)
class Report:
    """The whole report.

    `answer` is one sentence, `declared` says that it is about declared hypotheses.
    """

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
    lost: Failures
    deviations: tuple[str, ...]
    drift: tuple[str, ...]
    methods: tuple[str, ...]
    versions: tuple[tuple[str, str], ...]
    threats: tuple[Threat, ...]
    conditions: tuple[ReportedCondition, ...]
    conditions_left: int
    trials: tuple[TrialExample, ...]
    not_shown: str
    convergence: Convergence | None = None
    calibration: tuple[Bin, ...] = ()
    heat: HeatMap | None = None
    distributions: tuple[Distribution, ...] = ()
    """Of the main score, of costs and of seconds, as far as they are known and vary."""
    slices: Slices | None = None
    """The means of the slices of cases, by the main score; None if cases have none."""
    notes: tuple[str, ...] = ()

    @property
    def main(self) -> Scored | None:
        """The score that the answer is about: the primary outcome, or else the first score."""
        return self.scores[0] if self.scores else None
