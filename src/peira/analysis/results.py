"""What a run gave, to look at: trials, scores, failures, tables, exports."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from os import PathLike
from pathlib import Path
from types import MappingProxyType
from typing import Any

from peira.analysis.export import to_frame, write_csv, write_jsonl
from peira.analysis.means import tabulate
from peira.analysis.money import Bill, cost, spent
from peira.analysis.table import Table
from peira.analysis.trials import FAILED, FailureRow, ScoreRow, TrialResult, failures
from peira.core.events import Spent, Status
from peira.core.ids import short


class Results:
    """The results of one run.

    `table`, `failures`, `to_csv` and `to_jsonl` read the trials as a stream. `trials`, `scores`, `frame`,
    `len` and iteration hold them all, from first use on. `notes` must be said beside every number.
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
    ) -> None:
        self._load = load
        self.store = store
        self.run_id = run_id
        self.study = study
        self.status = status
        self.counts: Mapping[str, int] = MappingProxyType(dict(counts))
        self.notes = tuple(notes)
        self.spent_by_model = tuple(spent)

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
        """
        return tabulate(self._stream(), by, score, level, self.notes)

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
