"""What follows from a trial's output: the answer that the transform finds in it, and the scores of that.

Each is known by all that it is made from: an answer by the output and the transform, a score by the evaluator
and everything that this is handed. What did not change is not done again.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from hashlib import sha256

from peira.core.events import Result
from peira.core.ids import canonical, compose, digest, digest_bytes
from peira.plan.layout import Place, PlannedCase, score_id

MOST_REMEMBERED = 10_000


class Judging:
    """Which evaluators judge a trial, and under which ids its answer and its scores are kept."""

    def __init__(
        self, common: Sequence[str], takes: Mapping[str, Iterable[str]], transform: str = ""
    ) -> None:
        """Evaluators and the transform by their digests; without a transform the output is the answer."""
        self.transform = transform
        self._common = tuple(dict.fromkeys(common))
        self._takes = {judge: tuple(sorted(taken)) for judge, taken in takes.items()}
        asked = {fact for taken in self._takes.values() for fact in taken}
        self._compares, self._weighs = "expected" in asked, "trial" in asked
        self._expected: dict[int, str] = {}

    def answer(self, result: Result) -> str:
        """The id of the answer in a trial's output."""
        return compose("answer", self.transform, output_digest(result))

    def judges(self, case: PlannedCase) -> tuple[str, ...]:
        """The evaluators of a case: the study's, and its own."""
        return tuple(dict.fromkeys((*self._common, *case.judged_by))) if case.judged_by else self._common

    def scores(self, place: Place, trial: str, result: Result, answer: Result) -> list[tuple[str, str]]:
        """(evaluator's digest, score's id) of each score of a trial with this result and this answer."""
        case = place.case
        facts = {"output": output_digest(answer), "case": case.seen}
        if self._compares:
            facts["expected"] = self._digest_expected(case)
        if self._weighs:
            facts["trial"] = _judged(trial, result)
        return [(judge, score_id(judge, self._takes[judge], facts)) for judge in self.judges(case)]

    def _digest_expected(self, case: PlannedCase) -> str:
        key = id(case)
        if key not in self._expected:
            if len(self._expected) > MOST_REMEMBERED:
                self._expected.clear()
            self._expected[key] = digest_bytes(canonical(case.expected))
        return self._expected[key]


def _judged(trial: str, result: Result) -> str:
    """A trial as it is judged: which one it is, and all that is told of how it went."""
    return compose("judged", trial, output_digest(result), digest([result.took, result.metrics]))


def output_digest(result: Result) -> str:
    """The digest of an output, from where it is kept: outputs are stored as canonical JSON."""
    return result.blob or sha256(bytes(result.output)).hexdigest()
