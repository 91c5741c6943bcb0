"""Which scores a trial has: known once its output is."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from hashlib import sha256

from peira.core.events import Result
from peira.core.ids import canonical, digest_bytes
from peira.plan.layout import Place, PlannedCase, score_id

MOST_REMEMBERED = 10_000


class Judging:
    """Which evaluators judge a trial, and under which ids their scores are kept."""

    def __init__(self, common: Sequence[str], takes: Mapping[str, Iterable[str]]) -> None:
        self._common = tuple(dict.fromkeys(common))
        self._takes = {judge: tuple(sorted(taken)) for judge, taken in takes.items()}
        self._compares = any("expected" in taken for taken in self._takes.values())
        self._expected: dict[int, str] = {}

    def scores(self, place: Place, trial: str, output: str) -> list[tuple[str, str]]:
        """(evaluator's digest, score's id) of each score of a trial with this output."""
        case, judges = place.case, self._common
        if case.judged_by:
            judges = tuple(dict.fromkeys((*judges, *case.judged_by)))
        facts = {"output": output, "case": case.seen, "trial": trial}
        if self._compares:
            facts["expected"] = self._digest_expected(case)
        return [(judge, score_id(judge, self._takes[judge], facts)) for judge in judges]

    def _digest_expected(self, case: PlannedCase) -> str:
        key = id(case)
        if key not in self._expected:
            if len(self._expected) > MOST_REMEMBERED:
                self._expected.clear()
            self._expected[key] = digest_bytes(canonical(case.expected))
        return self._expected[key]


def output_digest(result: Result) -> str:
    """The digest of an output, from where it is kept: outputs are stored as canonical JSON."""
    return result.blob or sha256(bytes(result.output)).hexdigest()
