"""What a run gave, to look at: trials, scores, failures, tables, exports."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property, partial
from os import PathLike
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal

import peira.analysis as rooms
from peira.analysis.aims import Aims
from peira.analysis.trials import FAILED, FailureRow, ScoreRow, TrialResult, failures
from peira.core.events import Spent, Status
from peira.core.ids import Json, short
from peira.core.looks import Look
from peira.core.registry import registry

if TYPE_CHECKING:
    from peira.analysis.agreement import Agreement
    from peira.analysis.anova import Anova
    from peira.analysis.background import Background
    from peira.analysis.biases import Biases
    from peira.analysis.comparison import Comparison
    from peira.analysis.corrected import Corrected
    from peira.analysis.effect_values import Effects
    from peira.analysis.family import Correction
    from peira.analysis.findings import Findings
    from peira.analysis.labels import Labels
    from peira.analysis.leaderboard import Leaderboard
    from peira.analysis.mixed import Kind
    from peira.analysis.money import Bill
    from peira.analysis.origin import Reopen
    from peira.analysis.quantiles import Quantiles
    from peira.analysis.ratings import Ratings
    from peira.analysis.ratio import Ratios
    from peira.analysis.reliability import Reliability
    from peira.analysis.remembering import Asked, Memory, Tabled
    from peira.analysis.slices import Slices
    from peira.analysis.standings import Standings
    from peira.analysis.strata_value import Strata
    from peira.analysis.surface_value import Surface
    from peira.analysis.table import Table


class Results:
    """The results of one run.

    `table`, `failures`, `to_csv` and `to_jsonl` read the trials as a stream. `trials`, `scores`, `frame`,
    `len` and iteration hold them all, from first use on. `notes` must be said beside every number; `look` is
    what the study's stopping rule saw last.
    """

    def __init__(
        self,
        load: Callable[[], Iterator[TrialResult]],
        *,
        run_id: str,
        study: str,
        status: str,
        counts: Mapping[str, int],
        notes: Sequence[str] = (),
        store: Any = None,
        spent: Sequence[Spent] = (),
        aims: Aims | None = None,
        origin: Reopen | None = None,
        memory: Memory | None = None,
        look: Look | None = None,
        background: Background | None = None,
    ) -> None:
        self._load = load
        self._memory = memory
        self.origin = origin
        self.store = store
        self.run_id = run_id
        self.study = study
        self.status = status
        self.counts: Mapping[str, int] = MappingProxyType(dict(counts))
        self.notes = tuple(notes)
        self.spent_by_model = tuple(spent)
        self.aims = aims
        self.look = look
        self.background = background

    @cached_property
    def trials(self) -> list[TrialResult]:
        return list(self._load())

    @property
    def scores(self) -> list[ScoreRow]:
        return [ScoreRow(trial, score) for trial in self.trials for score in trial.scores.values()]

    @property
    def failures(self) -> list[FailureRow]:
        """Every trial, and every score of a trial with an output, that ended without success."""
        return [row for trial in self._stream() for row in failures(trial)]

    @property
    def no_verdicts(self) -> list[ScoreRow]:
        """Every score that came to no verdict; `score.no_verdict.reason` says why."""
        return [row for row in self.scores if row.score.no_verdict]

    @property
    def ok(self) -> bool:
        """Everything that was asked for succeeded."""
        return self.status == Status.completed and not any(self.counts.get(state) for state in FAILED)

    @property
    def cost(self) -> Bill:
        """What its trials and scores cost when their calls were bought, in whichever run."""
        return rooms.money.cost(self._stream())

    @property
    def spent(self) -> Bill:
        """What was paid in this run, retries and judges included."""
        return rooms.money.spent(self.spent_by_model)

    def table(
        self,
        *by: str,
        score: str | None = None,
        level: float = 0.95,
        interval: str = "",
        across: str = "",
    ) -> Table:
        """Means with intervals, by factors, or by agent, case, slice or cluster; overall without names.

        Failures are in no mean: they stand beside it. `score` picks one score, or one part of it.
        `interval` names another way than the one that fits (bootstrap, t, wilson, exact, clopper-pearson).
        Levels of the factor `across` count as a sample, like cases. What anchors say of drift stands below.
        """
        asked = rooms.remembering.Asked(by, score, level, interval, across)
        make = partial(self._tabled, asked)
        found = self._memory.table(asked, make) if self._memory and "trials" not in self.__dict__ else make()
        return replace(found.table, notes=(*found.table.notes, *self.notes, *found.drift))

    def _tabled(self, asked: Asked) -> Tabled:
        anchors: list[TrialResult] = []
        trials = _aside(self._stream(), anchors)
        table = rooms.means.tabulate(
            trials, asked.by, asked.score, asked.level, interval=asked.interval, across=asked.across
        )
        return rooms.remembering.Tabled(table, tuple(rooms.drift.drift(anchors)) if anchors else ())

    def reduced(self, name: str, passing: float = 1.0) -> Results:
        """The same results with all repeats of a case made into one trial: by mean, majority, best, pass@k,
        pass^k, at_least_k (where a score of `passing` is a pass), or by their consistency."""
        note = f"repeats of a case are one: {name}" + (f", passing at {passing:g}" if passing != 1 else "")
        return Results(
            lambda: rooms.reducing.reduced(self._stream(), name, passing),
            run_id=self.run_id,
            study=self.study,
            status=self.status,
            counts=self.counts,
            notes=(*self.notes, note),
            store=self.store,
            spent=self.spent_by_model,
            aims=self.aims,
            origin=self.origin,
            look=self.look,
            background=self.background,
        )

    def compare(
        self,
        by: str | Results,
        a: Json = None,
        b: Json = None,
        *,
        score: str | None = None,
        slice: str | None = None,
        baseline: Json = None,
        correction: Correction | None = "declared",
        level: float = 0.95,
        margin: float | None = None,
        paired: bool | None = None,
        test: str = "",
        effect: str = "",
        interval: str = "",
    ) -> Comparison:
        """Levels of a factor (or "agent") with each other, or these results with those of another run.

        Paired by case wherever both sides have the case. Two levels `a` and `b`; or all with a `baseline`; or
        every pair, as one family. `margin` asks whether a difference is too small to matter. `test`, `effect`
        and `interval` name others than those that fit the data.
        """
        compare, wish = rooms.compare, rooms.contrasts.Wish(level, margin, correction, paired, test)
        declared = self.aims.correction(by, score) if self.aims and isinstance(by, str) else ""
        wish = replace(wish, effect=effect, interval=interval, declared=declared)
        if isinstance(by, Results):
            labels = (short(self.run_id), short(by.run_id))
            notes = tuple(dict.fromkeys((*self.notes, *by.notes)))
            found = compare.compare_runs(self._stream(), by._stream(), labels, score, slice, wish, notes)
        else:
            found = compare.compare_levels(self._stream(), by, a, b, score, slice, baseline, wish, self.notes)
        return replace(found, notes=(*found.notes, *self._undeclared([found.by], found.score)))

    def effects(
        self, *factors: str, score: str | None = None, level: float = 0.95, order: int = 2
    ) -> Effects:
        """Main effects and interactions (of up to `order` factors) with intervals; unnamed, of all."""
        found = rooms.effects.effects(self._stream(), factors, score, level, order, self.notes)
        names = [one.term for one in found.tests if " x " not in one.term]
        return replace(found, notes=(*found.notes, *self._undeclared(names, found.score)))

    def _undeclared(self, factors: Sequence[str], score: str) -> list[str]:
        """What no hypothesis was declared about is exploratory, and says so."""
        aims = self.aims
        names = [name for name in factors if aims is not None and not aims.declares(name, score)]
        return [f"exploratory: the study declares no hypothesis about {', '.join(names)}"] if names else []

    def anova(
        self, *factors: str, score: str | None = None, type: Literal[2, 3] = 2, order: int = 2
    ) -> Anova:
        """The classical table of sums of squares, of type II or III, with cases as blocks."""
        return rooms.anova.anova(self._stream(), factors, score, type, order, self.notes)

    def mixed(
        self,
        *factors: str,
        score: str | None = None,
        kind: Kind = "linear",
        level: float = 0.95,
        random: Sequence[str] = (),
    ) -> Effects:
        """Effects by a mixed model with cases as a random effect: linear (with the factors in `random` as
        others), or for yes/no scores logistic (of a given case) or marginal (of the average case)."""
        return rooms.mixed.mixed(self._stream(), factors, score, kind, level, self.notes, random)

    def strata(self, *factors: str, score: str | None = None, order: int = 2) -> Strata:
        """Split plots: factors set for whole plots are tested against plots, all others within them."""
        return rooms.strata.strata(self._stream(), factors, score, order, self.notes)

    def surface(
        self, *factors: str, score: str | None = None, level: float = 0.95, lowest: bool = False
    ) -> Surface:
        """The score as a second-order function of factors that are numbers, and where it is best."""
        return rooms.surface.surface(self._stream(), factors, score, level, lowest, self.notes)

    def leaderboard(
        self, *by: str, score: str | None = None, level: float = 0.95, lowest_first: bool = False
    ) -> Leaderboard:
        """Entries (of agent and factors) with intervals on means and ranks, and who cannot be told apart."""
        return rooms.ranking.leaderboard(self._stream(), by, score, level, lowest_first, self.notes)

    def standings(self, *, level: float = 0.95, method: str = "covariance", elo: bool = False) -> Standings:
        """Of a contest (see `contest`): strengths of the sides with intervals, and who won against whom."""
        return rooms.tournament.standings(self._stream(), level, method, elo, self.notes)

    def agreement(
        self, labels: Labels, *, score: str | None = None, cut: float | None = None, level: float = 0.95
    ) -> Agreement:
        """How far a judge says what people say. `labels` is a file (a row for each labelled output), a field
        of the cases' metadata, or labels by the ids of trials; `cut` makes yes/no of a number."""
        return rooms.agreement.agreement(self._rated(labels, score, cut), level)

    def biases(
        self, *, labels: Labels | None = None, score: str | None = None, level: float = 0.95
    ) -> Biases:
        """What sways a judge: the place of an answer in a pair, and its length. Labels tell merit apart."""
        plain = labels is None and rooms.games.is_contest(self.trials)
        return rooms.biases.biases(self.trials, None if plain else self._rated(labels or {}, score), level)

    def corrected(
        self,
        labels: Labels,
        *by: str,
        score: str | None = None,
        cut: float | None = None,
        method: str = "prediction-powered",
        level: float = 0.95,
    ) -> Corrected:
        """Means of a judge's score, by factors, corrected by the outputs that people labelled."""
        rated = self._rated(labels, score, cut)
        return rooms.corrected.corrected(rated, by, method, level, self.notes)

    def _rated(self, labels: Labels, score: str | None, cut: float | None = None) -> Ratings:
        known = rooms.labels.labels_of(self.trials, labels)
        return rooms.ratings.ratings(self.trials, known, score, cut)

    def quantiles(
        self, score: str = "took", *by: str, q: Sequence[float] = (0.5, 0.9, 0.99), level: float = 0.95
    ) -> Quantiles:
        """Quantiles of a number that every trial has (its seconds, a score, a metric) with intervals."""
        return rooms.quantiles.quantiles(self._stream(), score, by, q, level, self.notes)

    def ratio(self, top: str, bottom: str, *by: str, method: str = "fieller", level: float = 0.95) -> Ratios:
        """One total over another, such as `ratio("cost", "match")`: what a success costs; or by "delta"."""
        return rooms.ratio.ratio(self._stream(), top, bottom, by, method, level, self.notes)

    def reliability(self, *by: str, level: float = 0.95) -> Reliability:
        """The share of trials that failed; where none did, how large it may still be (rule of three)."""
        return rooms.reliability.reliability(self._stream(), by, level, self.notes)

    def slices(self, by: str = "slice", *, score: str | None = None, level: float = 0.95) -> Slices:
        """Means of slices, each pulled towards the others as far as its own evidence is weak."""
        return rooms.slices.slices(self._stream(), by, score, level, self.notes)

    def hypotheses(self) -> Findings:
        """What became of the hypotheses that the study declared, each tested as its plan says."""
        found = rooms.hypotheses.decide(self._stream(), self.aims or Aims(), self.notes)
        return rooms.sequential.sequentially(found, self.look)

    def report(self, path: str | PathLike[str], *, level: float = 0.95, trials: int = 200) -> Path:
        """Write the report of this run, and say where. The ending says how: .html is one file that needs no
        other; .md, .tex, .json; .pdf where there is a browser to print it. `trials` are shown whole."""
        file = Path(path)
        ending = file.suffix[1:].lower()
        registry.make("report", ending, results=self, path=file, level=level, trials=trials)
        return file

    def plot(
        self, kind: str, path: str | PathLike[str], *, score: str | None = None, level: float = 0.95
    ) -> Path:
        """Draw one of the report's plots into an .svg or .png file, and say where: forest, interaction,
        half-normal, pareto, calibration, convergence or cases."""
        return Path(registry.make("plot", kind, results=self, path=Path(path), score=score, level=level))

    def frame(self) -> Any:
        """A pandas DataFrame, one row per trial, with the columns that `to_csv` writes."""
        return rooms.export.to_frame(self.trials, self.run_id)

    def to_csv(self, path: str | PathLike[str]) -> None:
        """One row per trial; the columns are described in `peira.analysis.export`."""
        rooms.export.write_csv(self._stream(), self.run_id, Path(path))

    def to_jsonl(self, path: str | PathLike[str]) -> None:
        """One JSON object per trial, with everything that is known of it."""
        rooms.export.write_jsonl(self._stream(), self.run_id, Path(path))

    def export(self, path: str | PathLike[str], format: str | None = None, *, force: bool = False) -> Path:
        """Write the results for other tools; the format is named, or meant by the path.

        Formats: csv, csv-long, excel, jsonl, parquet, sqlite; the folders artifact and hf; mlflow and wandb;
        and those of plug-ins. What is there is replaced, at once and only if it is such an export, or by
        `force`. The same results give the same bytes."""
        return rooms.exporting.export(self, path, format, force)

    def stream(self) -> Iterable[TrialResult]:
        """The trials, one after the other and not held, unless `trials` holds them already."""
        return self._stream()

    def _stream(self) -> Iterable[TrialResult]:
        return self.__dict__["trials"] if "trials" in self.__dict__ else self._load()

    def __len__(self) -> int:
        return len(self.trials)

    def __iter__(self) -> Iterator[TrialResult]:
        return iter(self.trials)

    def __repr__(self) -> str:
        return f"<Results of {self._headline()}>"

    def __str__(self) -> str:
        return f"{self._headline()}\n\n{self.table()}"

    def _headline(self) -> str:
        counts = ", ".join(f"{n} {state}" for state, n in self.counts.items() if n) or "no trials"
        return f"{self.study}, run {short(self.run_id)}, {self.status}: {counts}"


def _aside(trials: Iterable[TrialResult], anchors: list[TrialResult]) -> Iterator[TrialResult]:
    """The trials, in passing; the anchors among them are noted."""
    for trial in trials:
        if trial.anchor:
            anchors.append(trial)
        yield trial
