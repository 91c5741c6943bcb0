"""The ids of the answer and the scores derived from the output of a trial.

Each id is a digest of all inputs: an answer's of the output and the transform, a score's of the evaluator and
everything that is passed to it. What did not change is not computed again.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from hashlib import sha256
from itertools import repeat

from peira.core.ids import canonical, compose, composer, digest
from peira.core.log.events import Result
from peira.plan.trials import Place, PlannedCase


class ScoreIds:
    """Which evaluators score a trial, and the ids of its answer and scores."""

    def __init__(
        self, common: Sequence[str], takes: Mapping[str, Iterable[str]], transform: str = ""
    ) -> None:
        """Takes the digests of evaluators and transform; without a transform the output is the answer.

        `takes` are the argument names of each evaluator.
        """
        self.transform = transform
        self._common = tuple(dict.fromkeys(common))
        self._takes = {judge: tuple(sorted(taken)) for judge, taken in takes.items()}
        self._passed = {
            judge: " ".join([f"{fact}=%s" for fact in taken]) for judge, taken in self._takes.items()
        }
        """What is passed to each evaluator, to be filled in with digests of facts."""
        self._composers = {judge: composer("score", judge) for judge in takes}
        taken_by_any = {fact for taken in takes.values() for fact in taken}
        self._compares, self._weighs = "expected" in taken_by_any, "trial" in taken_by_any
        self._reads = "transcript" in taken_by_any
        self._expected: tuple[PlannedCase | None, str] = None, ""

    def answer(self, result: Result) -> str:
        """The id of the answer extracted from a trial's output."""
        return compose("answer", self.transform, output_digest(result))

    def judges(self, case: PlannedCase) -> tuple[str, ...]:
        """The digests of the evaluators of a case: the study's, and its own."""
        return tuple(dict.fromkeys((*self._common, *case.judged_by))) if case.judged_by else self._common

    def scores(self, place: Place, trial: str, result: Result, answer: Result) -> list[tuple[str, str]]:
        """(evaluator digest, score id) of each score of a trial with this result and this answer.

        The id is a digest of the evaluator and of everything passed to it, sorted by name.
        """
        case = place.case
        facts = {"output": output_digest(answer), "case": case.seen}
        if self._compares:
            facts["expected"] = self._expected_digest(case)
        if self._weighs:
            facts["trial"] = _trial_digest(trial, result)
        if self._reads:
            facts["transcript"] = _transcript_digest(trial, result)
        judges = self.judges(case) if case.judged_by else self._common
        takes, passed, compose = self._takes, self._passed, self._composers
        return [
            (judge, compose[judge](passed[judge] % tuple([facts[fact] for fact in takes[judge]])))
            for judge in judges
        ]

    def columns(self, cases: Sequence[PlannedCase], answers: Sequence[Result]) -> dict[str, list[str]]:
        """The ids of the scores of each of the study's evaluators, by its digest; for trials with these cases
        and answers, and evaluators that take nothing but output, expected value and case."""
        facts = {"output": list(map(output_digest, answers)), "case": [case.seen for case in cases]}
        if self._compares:
            facts["expected"] = list(map(self._expected_digest, cases))
        ids = {}
        for judge in self._common:
            columns = [facts[fact] for fact in self._takes[judge]]
            rows = zip(*columns, strict=True) if columns else repeat((), len(cases))
            ids[judge] = list(map(self._composers[judge], map(self._passed[judge].__mod__, rows)))
        return ids

    def _expected_digest(self, case: PlannedCase) -> str:
        """The digest of the expected value of a case; that of the last one is remembered."""
        known, digest = self._expected
        if known is not case:
            digest = sha256(canonical(case.expected)).hexdigest()
            self._expected = case, digest
        return digest


def _trial_digest(trial: str, result: Result) -> str:
    """The digest of a trial as passed to an evaluator: its id, output, duration and metrics."""
    return compose("judged", trial, output_digest(result), digest([result.took, result.metrics]))


def _transcript_digest(trial: str, result: Result) -> str:
    """The digest of a transcript as passed to an evaluator: its trial, and the calls and steps in order."""
    return compose("transcript", trial, digest([list(result.calls), result.trail]))


def output_digest(result: Result) -> str:
    """The digest of an output, which is stored as canonical JSON, inline or as a blob."""
    return result.blob or sha256(result.output).hexdigest()
