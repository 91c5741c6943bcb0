"""What came of each trial, as values: everything that analysis reads, and nothing that it must fetch."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Any

import msgspec

from peira.core.events import TERMINAL, Artifact, Failure, State
from peira.core.ids import Json
from peira.core.transforms import NoAnswer
from peira.core.verdicts import NoVerdict, is_reason, no_verdict
from peira.evaluators.scores import LARGEST

FAILED = TERMINAL - {State.succeeded}
"""Ended without success. What is neither here nor succeeded has not ended."""

NOTHING: Mapping[str, Any] = MappingProxyType({})


class Score(msgspec.Struct, frozen=True):
    """What one evaluator said of one output; `value` is a bool, number, text or dict of those."""

    name: str
    state: State
    value: Json = None
    failure: Failure | None = None
    took: float = 0.0
    metrics: Mapping[str, float] = NOTHING

    @property
    def no_verdict(self) -> NoVerdict | None:
        """What it came to, if that is no verdict: then it has no value, and did not fail."""
        return no_verdict(self.value) if self.state == State.succeeded else None


class Found(msgspec.Struct, frozen=True):
    """What the transform found in an output: an answer, or a NoAnswer."""

    state: State
    value: Json | NoAnswer = None
    failure: Failure | None = None


class TrialResult(msgspec.Struct, frozen=True, kw_only=True):
    """One trial with its scores; its condition names levels by their labels, where they have one.

    `reused` says that this run did not execute it; `reused_from` names the trial whose result was taken over
    when a factor was added at its baseline. `found` is what the study's transform found in the output, None
    if it has none. An `anchor` is the study's first trial again, run to see whether something drifts: it is
    in no mean. `block` and `plot` name those of the design that it was run in."""

    id: str
    agent: str
    case_id: str
    state: State
    condition: Mapping[str, Json] = NOTHING
    cluster: str | None = None
    slice: str | None = None
    repeat: int = 0
    output: Json = None
    failure: Failure | None = None
    scores: Mapping[str, Score] = NOTHING
    metrics: Mapping[str, float] = NOTHING
    artifacts: tuple[Artifact, ...] = ()
    about: Mapping[str, str] = NOTHING
    took: float = 0.0
    attempts: int = 0
    reused: bool = False
    reused_from: str = ""
    metadata: Mapping[str, Json] = NOTHING
    input: Json = None
    expected: Json = None
    calls: tuple[str, ...] = ()
    anchor: bool = False
    block: str = ""
    plot: str = ""
    found: Found | None = None

    @property
    def answer(self) -> Json | NoAnswer:
        """What is judged: what the transform found, or else the output itself."""
        return self.output if self.found is None else self.found.value

    @property
    def no_answer(self) -> str:
        """Why there is no answer in the output; "" if there is one, or nobody has looked."""
        return self.answer.reason if isinstance(self.answer, NoAnswer) else ""

    @property
    def cost(self) -> float | None:
        """US dollars for its calls when they were bought; None if a price is unknown."""
        return self.metrics.get("cost") if self.metrics.get("calls") else 0.0

    @property
    def spent(self) -> float | None:
        """US dollars for its calls in this run: nothing, if it was recorded before."""
        return 0.0 if self.reused or not self.metrics.get("calls") else self.metrics.get("spent")

    @property
    def unit(self) -> tuple[str, str]:
        """The independent unit of evidence the trial belongs to: its cluster, or else its case."""
        return ("case", self.case_id) if self.cluster is None else ("cluster", self.cluster)


class ScoreRow(msgspec.Struct, frozen=True):
    """A score beside the trial it judges."""

    trial: TrialResult
    score: Score


class FailureRow(msgspec.Struct, frozen=True):
    """Something that ended without success: a trial (stage "generate"), the search for its answer
    ("transform") or one of its scores ("evaluate")."""

    trial: TrialResult
    stage: str
    state: State
    failure: Failure | None
    score: str = ""


def failures(trial: TrialResult) -> Iterator[FailureRow]:
    """The trial's own failure; or, if it has an output, those of its answer or its scores."""
    if trial.state in FAILED:
        yield FailureRow(trial, "generate", trial.state, trial.failure)
    elif trial.found is not None and trial.found.state in FAILED:
        yield FailureRow(trial, "transform", trial.found.state, trial.found.failure)
    elif trial.state == State.succeeded:
        for score in trial.scores.values():
            if score.state in FAILED:
                yield FailureRow(trial, "evaluate", score.state, score.failure, score.name)


def named(score: Score) -> dict[str, Json]:
    """A score's values by name: "name" of a plain one, "name.key" of a dict; none without a verdict."""
    if score.state != State.succeeded or score.no_verdict:
        return {}
    if isinstance(score.value, Mapping):
        return {f"{score.name}.{key}": value for key, value in score.value.items()}
    return {score.name: score.value}


def parts(score: Score) -> dict[str, float | str]:
    """A score's values by name, as they are counted: bools are 0 and 1, texts stay; reasons do not count, and
    neither does a number that no evaluator may give."""
    told = {name: value for name, value in named(score).items() if name == score.name or not is_reason(name)}
    found = {name: value if isinstance(value, str) else float(value) for name, value in told.items()}
    return {name: value for name, value in found.items() if isinstance(value, str) or abs(value) < LARGEST}


def numbers(score: Score) -> dict[str, float]:
    """The parts of a score that have a mean; texts are categories, whose shares are counted."""
    return {name: value for name, value in parts(score).items() if not isinstance(value, str)}
