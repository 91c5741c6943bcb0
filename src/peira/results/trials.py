"""The trials of a run with their scores and failures, as immutable values."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, overload

import msgspec

import peira.results as results
from peira.core.contracts import Store
from peira.core.ids import Json, canonical, seed_of
from peira.core.log.events import IMPORTED, TERMINAL, Artifact, Failure, State
from peira.core.text.secrets import value_without_keys, without_keys
from peira.core.transforms import NoAnswer
from peira.core.verdicts import NoVerdict, is_reason, no_verdict
from peira.evaluators.scores import LARGEST
from peira.spec.case import is_input_digest

if TYPE_CHECKING:
    from peira.results.history import LogEntry, RunHistory, TrialHistory

FAILED = TERMINAL - {State.succeeded}
"""Terminal states other than success; a state that is neither here nor succeeded is not terminal."""

INPUT_SHOWN = 40
"""The most characters of an input in the label of a case."""

_WORDS = {
    State.queued: "not begun",
    State.in_doubt: "in doubt",
    State.waiting: "waiting",
    State.cancelling: "running",
}


def end_word(state: State) -> str:
    """What a trial in this state is called: succeeded, failed, exhausted, cancelled, in doubt, not begun."""
    return _WORDS.get(state, state.value)


def end_counts(states: Iterable[State]) -> dict[str, int]:
    """How many trials are in each state but success, by the words of `end_word`, failures first."""
    found = Counter(end_word(state) for state in states if state is not State.succeeded)
    first = [word for word in ("failed", "exhausted", "in doubt", "cancelled") if word in found]
    return {word: found[word] for word in dict.fromkeys([*first, *sorted(found)])}


PLAIN = frozenset({bool, int, float})
"""The types of most scores."""

NOTHING: Mapping[str, Any] = MappingProxyType({})
"""An immutable empty mapping."""


class Score(msgspec.Struct, frozen=True):
    """The score of one output by one evaluator; `value` is a bool, number, text or a dict of these.

    An outcome that was `reported` of a stream's job later is no evaluator's: it counts whether or not the job
    succeeded.
    """

    name: str
    state: State
    value: Json = None
    failure: Failure | None = None
    took: float = 0.0
    metrics: Mapping[str, float] = NOTHING
    reported: bool = False

    @property
    def no_verdict(self) -> NoVerdict | None:
        """The reason, if the evaluator reached no verdict: it then has no value, and did not fail."""
        return no_verdict(self.value) if self.state == State.succeeded else None


class FoundAnswer(msgspec.Struct, frozen=True):
    """The result of the transform for an output: an answer, or a NoAnswer."""

    state: State
    value: Json | NoAnswer = None
    failure: Failure | None = None


class TrialHistories:
    """The histories of trials; `reading` opens the store for reading.

    Equal to any other, and short in print: what it says of a trial follows from the trial's id and run.
    """

    def __init__(self, reading: Callable[[], AbstractContextManager[Store]]) -> None:
        self._reading = reading
        self._logs: dict[str, RunHistory] = {}

    def of(self, trial: str, run: str) -> TrialHistory:
        """The history of a trial in the run that executed it; reads that run's log at first use."""
        if run not in self._logs:
            with self._reading() as store:
                self._logs[run] = results.history.RunHistory(store, run)
        return self._logs[run].of(trial)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, TrialHistories)

    def __hash__(self) -> int:
        return hash(TrialHistories)

    def __repr__(self) -> str:
        return "..."


class JobDraw(msgspec.Struct, frozen=True):
    """How the condition of a stream's job was drawn: for which experiment, and with which probabilities."""

    experiment: str
    arm: int
    shares: tuple[float, ...]

    @property
    def share(self) -> float:
        """The probability of the arm that it got."""
        return self.shares[self.arm]


class TrialResult(msgspec.Struct, frozen=True, kw_only=True):
    """One trial with its scores; conditions use the labels of levels, where they have one.

    `reused` says that another run executed it; `reused_from` names the trial whose result was taken over when
    a factor was added at its baseline. `found` is the result of the study's transform, None without one. An
    `anchor` is a repetition of the study's first trial to detect drift and is in no mean. `block` and `plot`
    are those of the design. `took` is in seconds, None if unknown (of an imported output). `executed_by` is
    the run that executed it, whose log `histories` reads when times or observations are asked for.
    `queued` are the seconds in which its calls waited in peira itself; `took` is without them. Of a stream's
    job, `draw` says how its condition was drawn, and `submitted` when it came.
    """

    id: str
    agent: str
    case_id: str
    state: State
    condition: Mapping[str, Json] = NOTHING
    cluster: str | None = None
    slice: str | None = None
    repeat: int = 0
    output: Json = None
    exposed: bool = False
    """Whether a key stands in the output, which is shown without it."""
    failure: Failure | None = None
    scores: Mapping[str, Score] = NOTHING
    metrics: Mapping[str, float] = NOTHING
    artifacts: tuple[Artifact, ...] = ()
    about: Mapping[str, str] = NOTHING
    took: float | None = 0.0
    queued: float = 0.0
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
    found: FoundAnswer | None = None
    executed_by: str = ""
    histories: TrialHistories | None = None
    draw: JobDraw | None = None
    submitted: float | None = None

    @property
    def seed(self) -> int | None:
        """The seed of its random generators; None for an imported output."""
        return None if self.imported else seed_of(self.reused_from or self.id)

    @property
    def started(self) -> float | None:
        """When its last attempt started, in seconds since 1970; None if unknown."""
        return history.started if (history := self._history) else None

    @property
    def ended(self) -> float | None:
        """When it ended, in seconds since 1970; None if it did not, or if that is unknown."""
        return history.ended if (history := self._history) else None

    @property
    def observations(self) -> tuple[LogEntry, ...]:
        """What its agent logged, in order, in all attempts."""
        return history.observations if (history := self._history) else ()

    @property
    def recorded(self) -> TrialHistory | None:
        """Its history in the run that recorded its result; None if it has none, or that is unknown."""
        known = self.histories is not None and self.executed_by
        return self.histories.of(self.id, self.executed_by) if known and self.histories else None

    @property
    def _history(self) -> TrialHistory | None:
        """Its history; an imported output was recorded here, but not made here."""
        return None if self.imported else self.recorded

    @property
    def answer(self) -> Json | NoAnswer:
        """What is scored: the transform's answer, or without a transform the output."""
        return self.output if self.found is None else self.found.value

    @property
    def no_answer(self) -> str:
        """Why the output has no answer; empty if it has one, or there is no transform result."""
        return self.answer.reason if isinstance(self.answer, NoAnswer) else ""

    @property
    def cost(self) -> float | None:
        """US dollars: of its calls when they were bought, or as its agent reported; None if unknown."""
        known = self.metrics.get("cost")
        unknown = self.imported or bool(self.metrics.get("calls"))
        return known if known is not None else None if unknown else 0.0

    @property
    def imported(self) -> bool:
        """Whether the output was made elsewhere and imported: what is not recorded of it is unknown."""
        return IMPORTED in self.about

    @property
    def spent(self) -> float | None:
        """US dollars for it in this run; 0 if the trial was reused."""
        if self.reused:
            return 0.0
        return self.metrics.get("spent") if self.metrics.get("calls") else self.cost

    @property
    def case_label(self) -> str:
        """Its case as people are shown it: its id, and the input's beginning if the id is a digest of it."""
        if not is_input_digest(self.case_id, self.input):
            return self.case_id
        text = self.input if isinstance(self.input, str) else canonical(self.input).decode()
        line = " ".join(text.split())
        return (
            f"{self.case_id} {line[: INPUT_SHOWN - 1]}…"
            if len(line) > INPUT_SHOWN
            else f"{self.case_id} {line}"
        )

    @property
    def unit(self) -> tuple[str, str]:
        """The independent unit of evidence: the cluster, or else the case."""
        return ("case", self.case_id) if self.cluster is None else ("cluster", self.cluster)


class StoredTrials(Sequence[TrialResult]):
    """All trials of a run as a list, read from the store when the first of them is asked for.

    How many there are is known before.
    """

    def __init__(self, load: Callable[[], Iterable[TrialResult]], count: int | None = None) -> None:
        """`load` reads the trials; `count` is their number, None if it is known only then."""
        self._load, self._count = load, count
        self._read: list[TrialResult] | None = None

    @property
    def are_read(self) -> bool:
        """Whether they are in memory."""
        return self._read is not None

    def _all(self) -> list[TrialResult]:
        if self._read is None:
            self._read = list(self._load())
        return self._read

    def __len__(self) -> int:
        return self._count if self._read is None and self._count is not None else len(self._all())

    @overload
    def __getitem__(self, at: int) -> TrialResult: ...
    @overload
    def __getitem__(self, at: slice) -> list[TrialResult]: ...
    def __getitem__(self, at: int | slice) -> TrialResult | list[TrialResult]:
        return self._all()[at]

    def __iter__(self) -> Iterator[TrialResult]:
        return iter(self._all())

    def __eq__(self, other: object) -> bool:
        return self._all() == list(other) if isinstance(other, StoredTrials | list) else NotImplemented

    __hash__ = None  # type: ignore[assignment]

    def __add__(self, other: Iterable[TrialResult]) -> list[TrialResult]:
        return [*self._all(), *other]

    def __radd__(self, other: Iterable[TrialResult]) -> list[TrialResult]:
        return [*other, *self._all()]

    def __repr__(self) -> str:
        return repr(self._all())


class ScoreRow(msgspec.Struct, frozen=True):
    """A score with its trial."""

    trial: TrialResult
    score: Score


class FailureRow(msgspec.Struct, frozen=True):
    """A failure of a trial (stage "generate"), its transform ("transform") or a score ("evaluate")."""

    trial: TrialResult
    stage: str
    state: State
    failure: Failure | None
    score: str = ""

    @property
    def cause(self) -> str:
        """The name of its cause, one of `peira list causes`."""
        from peira.results.causes import cause_of  # only failures need it

        return cause_of(self.failure, self.stage, self.state)


def failures(trial: TrialResult) -> Iterator[FailureRow]:
    """The trial's own failure or, if it succeeded, those of its transform or its scores."""
    if trial.state in FAILED:
        yield FailureRow(trial, "generate", trial.state, trial.failure)
    elif trial.found is not None and trial.found.state in FAILED:
        yield FailureRow(trial, "transform", trial.found.state, trial.found.failure)
    elif trial.state == State.succeeded:
        for score in trial.scores.values():
            if score.state in FAILED:
                yield FailureRow(trial, "evaluate", score.state, score.failure, score.name)


def named(score: Score) -> dict[str, Json]:
    """A score's values by name: "name" for a plain value, "name.key" for a dict.

    Empty without verdict.
    """
    if score.state != State.succeeded or score.no_verdict:
        return {}
    if isinstance(score.value, Mapping):
        return {f"{score.name}.{key}": value for key, value in score.value.items()}
    return {score.name: score.value}


def parts(score: Score) -> dict[str, float | str]:
    """A score's values for analysis: bools become 0 and 1, texts stay, reasons are left out.

    Numbers beyond the range that evaluators may return are left out as well.
    """
    value = score.value
    if score.state == State.succeeded and type(value) in PLAIN:
        number = float(value)
        return {score.name: number} if abs(number) < LARGEST else {}
    values = {
        name: value for name, value in named(score).items() if name == score.name or not is_reason(name)
    }
    found = {name: value if isinstance(value, str) else float(value) for name, value in values.items()}
    return {name: value for name, value in found.items() if isinstance(value, str) or abs(value) < LARGEST}


def numbers(score: Score) -> dict[str, float]:
    """The numeric parts of a score; texts are categories and have no mean."""
    return {name: value for name, value in parts(score).items() if not isinstance(value, str)}


def is_correct(trial: TrialResult, score: str = "") -> bool | None:
    """Whether a trial is right: by the score (or part of one) of this name, else by its first yes/no score.

    None if it did not succeed, or if no score says yes or no: 1 and 0 do, as true and false.
    """
    if trial.state is not State.succeeded:
        return None
    values = {name: value for one in trial.scores.values() for name, value in numbers(one).items()}
    chosen = [values[score]] if score in values else list(values.values())
    return next((value == 1.0 for value in chosen if value in (0.0, 1.0)), None)


def shown_trial(trial: TrialResult) -> TrialResult:
    """A trial as it may be shown: what models, agents and judges said in it, without keys."""
    scores = {name: _shown_score(score) for name, score in trial.scores.items()}
    return msgspec.structs.replace(
        trial,
        output=value_without_keys(trial.output),
        found=_shown_answer(trial.found),
        failure=_shown_failure(trial.failure),
        scores=scores,
        about={name: without_keys(text) for name, text in trial.about.items()},
    )


def _shown_score(score: Score) -> Score:
    value, why = value_without_keys(score.value), _shown_failure(score.failure)
    return msgspec.structs.replace(score, value=value, failure=why)


def _shown_answer(found: FoundAnswer | None) -> FoundAnswer | None:
    if found is None or isinstance(found.value, NoAnswer):
        return found
    return msgspec.structs.replace(
        found, value=value_without_keys(found.value), failure=_shown_failure(found.failure)
    )


def _shown_failure(why: Failure | None) -> Failure | None:
    if why is None:
        return None
    return Failure(why.type, without_keys(why.message), without_keys(why.trace))
