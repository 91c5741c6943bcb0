"""A study whose outputs are stored: scores that are missing are made in bulk, the rest in the usual way.

A score made here has the same id, events and result as any other: its claim and its end are in one commit,
with those of its batch. Whatever is out of the ordinary (a trial without an output, an evaluator that raises,
a process that dies or does not answer) is left to the engine, which executes, retries and records it.
"""

from __future__ import annotations

import os
import threading
from array import array
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future
from itertools import islice
from typing import NamedTuple

import msgspec

from peira.core.contracts import Ended, Evaluator, Offer, Op, Outcome, ScansTasks, TaskFinder, TaskOutcome
from peira.core.log.events import Result, State, TaskFinished, TasksClaimed
from peira.core.registry import registry
from peira.core.text.secrets import exposed_keys
from peira.engine.context import RunContext
from peira.engine.execution import Execution
from peira.engine.journal import payload
from peira.engine.progress import REUSED
from peira.engine.rescoring.messages import ScoredItem, ScoringItem
from peira.engine.rescoring.pool import ScoringPool, setup_of
from peira.engine.sources.study import StudySource
from peira.engine.stages import EVALUATE, GENERATE, TRANSFORM
from peira.errors import StoreDamaged
from peira.plan.expansion import Plan, transform_digest
from peira.plan.listing import PlanListing
from peira.plan.score_ids import ScoreIds
from peira.plan.trials import Place

FEWEST = 10_000
"""From so many trials on, processes are started for them."""
CHUNK = 1000
"""Trials that are looked up together, and scored in one batch."""
MOST_PENDING = 8
"""Commits that may be on their way."""
TAKES = frozenset({"output", "expected", "case"})
"""What evaluators may take that are executed elsewhere."""


class UnscoredTrial(NamedTuple):
    """A trial with an output: its result, the answer that is scored, and the scores that are missing."""

    place: Place
    trial: str
    result: Result
    answer: Result
    scores: list[tuple[str, str]]
    """The evaluator and the id of every score."""
    missing: Sequence[tuple[str, str]] = ()
    shares: bool = False
    """Whether a score that it lacks is being made for another trial."""


class RescoringSource:
    """The tasks of a study, of which those in bulk never come to the scheduler."""

    unit = GENERATE

    def __init__(
        self, plan: Plan, study: StudySource, context: RunContext, listing: PlanListing | None
    ) -> None:
        """`study` makes the offers of trials that are left to the engine."""
        self._plan, self._study, self._context, self._listing = plan, study, context, listing
        self._asked = {
            digest: (number, "case" in evaluator.takes, "expected" in evaluator.takes)
            for number, (digest, evaluator) in enumerate(plan.evaluators.items())
        }
        """The number of each evaluator, and whether it takes the case and the expected value."""
        takes = {digest: evaluator.takes for digest, evaluator in plan.evaluators.items()}
        self._judging = ScoreIds(plan.common, takes, transform_digest(plan.transform))
        self._transforms = bool(self._judging.transform)
        self._left: deque[int] = deque()
        self._over = False
        self._made: set[bytes] = set()
        """The scores that were missing and are being made: equal outputs of equal cases share one."""
        self._commits: deque[Future[list[Outcome]]] = deque()
        self._sharing: array[int] = array("Q")
        """The trials that lack a score which is made for another; and whether such a score was not made."""
        self._failed = False
        self._made_for_sharing = 0
        self._grown: Callable[[], None] = lambda: None
        self._thread: threading.Thread | None = None
        self._execution: Execution | None = None

    # Source

    @property
    def size(self) -> int | None:
        """The number of trials."""
        return self._study.size

    @property
    def closed(self) -> bool:
        """Whether all trials were scored here or offered."""
        return self._over and not self._left

    def performs(self, kind: str) -> bool:
        """As `StudySource.performs`."""
        return self._study.performs(kind)

    def more(self, n: int) -> list[Offer]:
        """The next trials that are left to the engine."""
        return [self._study.offer(self._left.popleft()) for _ in range(min(n, len(self._left)))]

    def follow(self, offer: Offer, ended: Ended) -> list[Offer]:
        """As `StudySource.follow`."""
        return self._study.follow(offer, ended)

    def watch(self, grown: Callable[[], None]) -> None:
        """As `OpenSource.watch`."""
        self._grown = grown

    # In bulk

    def begin(self, execution: Execution) -> None:
        """Begin to score, on a thread of its own."""
        self._execution = execution
        self._thread = threading.Thread(target=self._score, name="peira-rescoring", daemon=True)
        self._thread.start()

    def join(self) -> None:
        """As `BackgroundSource.join`."""
        if self._thread is not None:
            self._thread.join()

    def _score(self) -> None:
        assert self._execution is not None
        try:
            self._score_all()
            while self._commits:
                self._check(self._commits.popleft())
            if self._failed:  # the engine finds what became of the scores that they share
                self._leave(self._sharing)
            else:
                self._tally(len(self._sharing), self._made_for_sharing)
        except BaseException as problem:  # as the engine's own threads do: the run ends with it
            self._execution.fail(problem)
        finally:
            self._over = True
            self._grown()

    def _score_all(self) -> None:
        """Score what can be, and leave the rest to the engine."""
        evaluators = list(self._plan.evaluators.values())
        setup, store = setup_of(evaluators), self._context.store
        finder = store.scan_tasks(len(self._plan)) if isinstance(store, ScansTasks) else None
        if setup is None or finder is None:
            self._leave(self._plan.layout.in_run_order())
            return
        pool = ScoringPool[list[UnscoredTrial]](setup, self._context.label, self._items)
        try:
            pool.start(os.cpu_count() or 1)
            for batch, scores in pool.scored(self._batches(finder)):
                if scores is None:
                    self._failed = True
                    self._leave(one.place.number for one in batch)
                else:
                    self._record(batch, scores)
        finally:
            pool.close()

    def _batches(self, finder: TaskFinder) -> Iterator[list[UnscoredTrial]]:
        """The trials with missing scores; all others are counted, or left to the engine."""
        assert self._execution is not None
        state, places = self._execution.state, self._plan.layout.places()
        while not (state.stop or state.fault) and (chunk := list(islice(places, CHUNK))):
            found, done = self._unscored(chunk, finder), []
            batch = []
            for place, one in zip(chunk, found, strict=True):
                if one is None:
                    self._left.append(place.number)
                elif one.missing:
                    batch.append(one)
                else:
                    done.append(one)
            self._count(done, 0)
            if batch:
                yield batch
            if self._left:
                self._grown()

    def _unscored(self, places: Sequence[Place], finder: TaskFinder) -> list[UnscoredTrial | None]:
        """What is stored of these trials; None for those that are left to the engine."""
        ids = list(map(self._plan.layout.trial_id, places))
        tasks = finder.outcomes(ids)
        answers = tasks
        if self._judging.transform:
            wanted = [self._judging.answer(task.result) if _done(task) else "0" * 64 for task in tasks]  # type: ignore[union-attr]
            answers = finder.outcomes(wanted)
        found: list[UnscoredTrial | None] = []
        for place, id, task, answer in zip(places, ids, tasks, answers, strict=True):
            if task is None or answer is None or not (_done(task) and _done(answer)) or place.case.judged_by:
                found.append(None)
                continue
            scores = self._judging.scores(place, id, task.result, answer.result)
            found.append(UnscoredTrial(place, id, task.result, answer.result, scores))
        known = iter(finder.outcomes([score for one in found if one for _, score in one.scores]))
        return [one and self._with_missing(one, [next(known) for _ in one.scores]) for one in found]

    def _with_missing(self, one: UnscoredTrial, known: Sequence[TaskOutcome | None]) -> UnscoredTrial | None:
        """The trial with those scores that are made for it; None if one has not succeeded."""
        if any(score is not None and not _done(score) for score in known):
            return None
        missing, shares, made = [], False, self._made
        for pair, row in zip(one.scores, known, strict=True):
            if row is not None:
                continue
            if (key := bytes.fromhex(pair[1][:32])) in made:
                shares = True
            else:
                made.add(key)
                missing.append(pair)
        return UnscoredTrial(one.place, one.trial, one.result, one.answer, one.scores, missing, shares)

    def _items(self, batch: list[UnscoredTrial]) -> list[ScoringItem]:
        """The missing scores of a batch, in its order."""
        return [self._item(one, judge) for one in batch for judge, _ in one.missing]

    def _item(self, one: UnscoredTrial, judge: str) -> ScoringItem:
        case, answer = one.place.case, one.answer
        number, takes_case, takes_expected = self._asked[judge]
        output = self._context.store.get(answer.blob) if answer.blob else bytes(answer.output)
        seen = (case.input, case.id, case.slice, case.cluster, case.metadata) if takes_case else None
        expected = case.expected if takes_expected else None
        return ScoringItem(number, output, self._transforms, expected, seen)

    def _record(self, batch: list[UnscoredTrial], scores: list[ScoredItem]) -> None:
        """Commit the scores of a batch; trials of which one is missing are left to the engine."""
        ends: list[TaskFinished] = []
        blobs: list[bytes] = []
        done, scored, limit = [], iter(scores), self._context.policy.output_limit
        for one in batch:
            found = [next(scored) for _ in one.missing]
            made = [score for score in found if score.score is not None and len(score.score) <= limit]
            if len(made) == len(found):
                for (_, id), score in zip(one.missing, made, strict=True):
                    ends.append(TaskFinished(id, 1, State.succeeded, self._result(score, blobs)))
                done.append(one)
            else:
                self._failed = True
                self._left.append(one.place.number)
        if ends:
            ids = tuple(end.task for end in ends)
            claimed = TasksClaimed(EVALUATE, EVALUATE, self._context.owner, ids, ())
            op = Op(self._context.run, (claimed, *ends), tuple(blobs))
            self._commits.append(self._context.journal.send([op]))
            if len(self._commits) > MOST_PENDING:
                self._check(self._commits.popleft())
        self._count(done, sum(len(one.missing) for one in done if not one.shares))

    def _result(self, scored: ScoredItem, blobs: list[bytes]) -> Result:
        """The result of a score as it is recorded; what is too large for its event is added to `blobs`."""
        body = scored.score or b""
        inline, blob, more = payload(body, self._context.inline)
        blobs += more
        result = Result(round(scored.took, 6), inline, blob)
        if marks := exposed_keys(body):
            return msgspec.structs.replace(result, exposed=marks)
        return result

    def _check(self, commit: Future[list[Outcome]]) -> None:
        """Wait for a commit, all of whose ops must have been accepted."""
        if refused := [outcome for outcome in commit.result() if outcome is not None]:
            raise StoreDamaged(f"scores of this run were claimed elsewhere: {refused[0]}")

    def _count(self, done: Sequence[UnscoredTrial], made: int) -> None:
        """Count trials that are scored, and list them; those that share a score are counted at the end."""
        assert self._execution is not None
        shared = [one.place.number for one in done if one.shares]
        self._sharing.extend(shared)
        self._made_for_sharing += sum(len(one.missing) for one in done if one.shares)
        self._tally(len(done) - len(shared), made)
        if self._listing is not None:
            names = {digest: one.name for digest, one in self._plan.evaluators.items()}
            with self._execution.state.lock:  # others list trials that are left to the engine
                for one in done:
                    listed = [(names[judge], score) for judge, score in one.scores]
                    self._listing.note(one.place, one.trial, one.result, listed)

    def _tally(self, trials: int, made: int) -> None:
        """Count so many trials with all their scores, of which so many were made now."""
        assert self._execution is not None
        with self._execution.state.lock:
            add = self._execution.tally.add
            add(GENERATE, REUSED, trials)
            add(TRANSFORM, REUSED, trials if self._judging.transform else 0)
            add(EVALUATE, State.succeeded, made)
            add(EVALUATE, REUSED, trials * len(self._plan.common) - made)

    def _leave(self, numbers: Iterable[int]) -> None:
        self._left.extend(numbers)
        self._grown()


def _done(task: TaskOutcome | None) -> bool:
    return task is not None and task.state is State.succeeded


def can_rescore(plan: Plan, context: RunContext, stages: Sequence[str]) -> bool:
    """Whether stored outputs of a plan may be scored in bulk: there are many, and evaluators are plain."""
    plain = all(map(_is_plain, plan.evaluators.values()))
    watched = registry.listening or registry.surrounding
    apart = context.outputs_apart or context.shared
    bulk = len(plan) >= FEWEST and isinstance(context.store, ScansTasks)
    return bool(plan.evaluators) and EVALUATE in stages and bulk and plain and not (watched or apart)


def _is_plain(evaluator: Evaluator) -> bool:
    return not evaluator.asynchronous and TAKES.issuperset(evaluator.takes)
