"""What a run gave, to look at: trials, scores, failures, tables, exports."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from os import PathLike
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal

import peira.analysis as rooms
from peira.analysis.aims import Aims
from peira.analysis.export import to_frame, write_csv, write_jsonl
from peira.analysis.money import Bill, cost, spent
from peira.analysis.trials import FAILED, FailureRow, ScoreRow, TrialResult, failures
from peira.core.events import Spent, Status
from peira.core.ids import Json, short
from peira.core.looks import Look

if TYPE_CHECKING:
    from peira.analysis.anova import Anova
    from peira.analysis.comparison import Comparison
    from peira.analysis.effect_values import Effects
    from peira.analysis.family import Correction
    from peira.analysis.findings import Findings
    from peira.analysis.leaderboard import Leaderboard
    from peira.analysis.mixed import Kind
    from peira.analysis.slices import Slices
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
        look: Look | None = None,
    ) -> None:
        self._load = load
        self.store = store
        self.run_id = run_id
        self.study = study
        self.status = status
        self.counts: Mapping[str, int] = MappingProxyType(dict(counts))
        self.notes = tuple(notes)
        self.spent_by_model = tuple(spent)
        self.aims = aims
        self.look = look

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
    def ok(self) -> bool:
        """Everything that was asked for succeeded."""
        return self.status == Status.completed and not any(self.counts.get(state) for state in FAILED)

    @property
    def cost(self) -> Bill:
        """What its trials and scores cost when their calls were bought, in whichever run."""
        return cost(self._stream())

    @property
    def spent(self) -> Bill:
        """What was paid in this run, retries and judges included."""
        return spent(self.spent_by_model)

    def table(self, *by: str, score: str | None = None, level: float = 0.95) -> Table:
        """Means with intervals, by factors, or by agent, case, slice or cluster; overall without names.

        Failures are in no mean: they stand beside it. `score` picks one score, or one part of it.
        What the anchors say of drift stands below.
        """
        anchors: list[TrialResult] = []
        table = rooms.means.tabulate(_aside(self._stream(), anchors), by, score, level, self.notes)
        return replace(table, notes=(*table.notes, *rooms.drift.drift(anchors))) if anchors else table

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
        correction: Correction | None = "holm",
        level: float = 0.95,
        margin: float | None = None,
        paired: bool | None = None,
        test: str = "",
    ) -> Comparison:
        """Levels of a factor (or "agent") with each other, or these results with those of another run.

        Paired by case wherever both sides have the case. Two levels `a` and `b`; or all with a `baseline`; or
        every pair, as one family. `margin` asks whether a difference is too small to matter.
        """
        compare, wish = rooms.compare, rooms.contrasts.Wish(level, margin, correction, paired, test)
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
        self, *factors: str, score: str | None = None, kind: Kind = "linear", level: float = 0.95
    ) -> Effects:
        """Effects by a mixed model with cases as a random effect: linear, or logistic for yes/no scores."""
        return rooms.mixed.mixed(self._stream(), factors, score, kind, level, self.notes)

    def leaderboard(
        self, *by: str, score: str | None = None, level: float = 0.95, lowest_first: bool = False
    ) -> Leaderboard:
        """Entries (of agent and factors) with intervals on means and ranks, and who cannot be told apart."""
        return rooms.ranking.leaderboard(self._stream(), by, score, level, lowest_first, self.notes)

    def slices(self, by: str = "slice", *, score: str | None = None, level: float = 0.95) -> Slices:
        """Means of slices, each pulled towards the others as far as its own evidence is weak."""
        return rooms.slices.slices(self._stream(), by, score, level, self.notes)

    def hypotheses(self) -> Findings:
        """What became of the hypotheses that the study declared, each tested as its plan says."""
        found = rooms.hypotheses.decide(self._stream(), self.aims or Aims(), self.notes)
        return rooms.sequential.sequentially(found, self.look)

    def frame(self) -> Any:
        """A pandas DataFrame, one row per trial, with the columns that `to_csv` writes."""
        return to_frame(self.trials, self.run_id)

    def to_csv(self, path: str | PathLike[str]) -> None:
        """One row per trial; the columns are described in `peira.analysis.export`."""
        write_csv(self._stream, self.run_id, Path(path))

    def to_jsonl(self, path: str | PathLike[str]) -> None:
        """One JSON object per trial, with everything that is known of it."""
        write_jsonl(self._stream(), self.run_id, Path(path))

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
