"""The ids of the answer and the scores derived from the output of a trial.

Each id is a digest of all inputs: an answer's of the output and the transform, a score's of the evaluator and
everything that is passed to it. What did not change is not computed again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from hashlib import sha256
from operator import itemgetter

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
        self._passed = {judge: _passing(sorted(taken)) for judge, taken in takes.items()}
        """What is passed to each evaluator, as a text of digests of facts."""
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
            known, digest = self._expected  # that of the last case is remembered
            if known is not case:
                digest = sha256(canonical(case.expected)).hexdigest()
                self._expected = case, digest
            facts["expected"] = digest
        if self._weighs:
            facts["trial"] = _trial_digest(trial, result)
        if self._reads:
            facts["transcript"] = _transcript_digest(trial, result)
        judges = self.judges(case) if case.judged_by else self._common
        passed, compose = self._passed, self._composers
        return [(judge, compose[judge](passed[judge](facts))) for judge in judges]


def _passing(names: Sequence[str]) -> Callable[[Mapping[str, str]], str]:
    """Makes the text of what is passed: each of these facts by its digest."""
    text = " ".join(f"{name}=%s" for name in names)
    chosen = itemgetter(*names) if names else lambda facts: ()
    return lambda facts: text % chosen(facts)


def _trial_digest(trial: str, result: Result) -> str:
    """The digest of a trial as passed to an evaluator: its id, output, duration and metrics."""
    return compose("judged", trial, output_digest(result), digest([result.took, result.metrics]))


def _transcript_digest(trial: str, result: Result) -> str:
    """The digest of a transcript as passed to an evaluator: its trial, and the calls and steps in order."""
    return compose("transcript", trial, digest([list(result.calls), result.trail]))


def output_digest(result: Result) -> str:
    """The digest of an output, which is stored as canonical JSON, inline or as a blob."""
    return result.blob or sha256(result.output).hexdigest()
