"""The games of a contest: each two outputs before a judge, shown both ways round."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from peira.analysis.groups import key_of
from peira.analysis.trials import TrialResult
from peira.core.events import State
from peira.core.ids import Json, canonical

CONTEST = "contest"
"""Where a case's metadata says which sides it is about."""

ORDERS = ("given", "swapped")


@dataclass(frozen=True)
class Game:
    """Two sides before a judge, both ways round: what the first side got when it stood first and second.

    None where there is no verdict. `longer` is how much longer the first side's output is, in characters."""

    sides: tuple[Json, Json]
    unit: tuple[str, str]
    first: float | None
    second: float | None
    longer: int = 0

    @property
    def decided(self) -> bool:
        return self.first is not None and self.second is not None

    @property
    def consistent(self) -> bool:
        return self.first == self.second

    @property
    def won(self) -> float:
        """What both orders say; a tie if they do not say the same."""
        return self.first if self.first is not None and self.consistent else 0.5


def is_contest(trials: Iterable[TrialResult]) -> bool:
    """Whether these are trials of a contest; the first of them tells."""
    first = next(iter(trials), None)
    return first is not None and CONTEST in first.metadata


def games(trials: Iterable[TrialResult]) -> Iterator[Game]:
    """The games of a contest: of each pair, each judge and each repeat, in the study's order."""
    gathered: dict[str | bytes, dict[str, TrialResult]] = {}
    for trial in trials:
        if trial.anchor or CONTEST not in trial.metadata:
            continue
        judge = {name: value for name, value in trial.condition.items() if name != "order"}
        key = key_of([trial.case_id, judge, trial.repeat])
        gathered.setdefault(key, {})[str(trial.condition["order"])] = trial
    for orders in gathered.values():
        some = next(iter(orders.values()))
        one, two = some.metadata[CONTEST]["sides"]
        said = [_won(orders.get(order)) for order in ORDERS]
        longer = size(some.input["one"]) - size(some.input["two"])
        yield Game((one, two), some.unit, said[0], said[1], longer)


def _won(trial: TrialResult | None) -> float | None:
    if trial is None or trial.state is not State.succeeded:
        return None
    return trial.output.get("won")  # type: ignore[no-any-return]


def size(output: Json) -> int:
    """Characters of an output."""
    return len(output if isinstance(output, str) else canonical(output).decode())
