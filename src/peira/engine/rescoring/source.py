"""A study whose outputs are stored: scores that are missing are made in bulk, the rest in the usual way.

A score made here has the same id, events and result as any other: its claim and its end are in one commit,
with those of many others. Whatever is out of the ordinary (a trial without an output, an evaluator that
raises, a process that dies or does not answer) is left to the engine, which executes, retries and records it,
once what is made here is durable.
"""

from __future__ import annotations

import os
import threading
import time
from array import array
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence, Set
from concurrent.futures import Future
from itertools import islice
from operator import attrgetter

import msgspec

from peira.core.contracts import Ended, Evaluator, Offer, Op, Outcome, ScansTasks
from peira.core.log.events import Result, State, TaskFinished, TasksClaimed
from peira.core.registry import registry
from peira.core.text.secrets import exposed_keys
from peira.engine.context import RunContext
from peira.engine.execution import Execution
from peira.engine.journal import payload
from peira.engine.progress import REUSED
from peira.engine.rescoring.messages import ScoredItem, ScoringItem
from peira.engine.rescoring.missing_scores import MissingScores, TrialBatch
from peira.engine.rescoring.pool import ScoringPool, setup_of
from peira.engine.sources.study import StudySource
from peira.engine.stages import EVALUATE, GENERATE, TRANSFORM
from peira.errors import StoreDamaged
from peira.plan.expansion import Plan
from peira.plan.listing import PlanListing

FEWEST = 10_000
"""From so many trials on, processes are started for them."""
CHUNK = 1000
"""Trials that are looked up together, and scored in one batch."""
COMMITS, MOST_TOGETHER = 50, 20_000
"""Scores are committed in so many parts, each of a batch at least, and at most of so many scores. Ids are
random, so a commit changes most pages of a large index, however few ids it has."""
LONGEST = 0.5
"""Seconds since the last commit after which whatever there is is committed: scores may be slow to make."""
MOST_PENDING = 2
"""Commits that may be on their way: one that is made, and the next."""
LOST = ScoredItem(None)
"""What became of a score whose process is gone."""
TAKES = frozenset({"output", "expected", "case"})
"""What evaluators may take that are executed elsewhere."""


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
        self._names = {digest: evaluator.name for digest, evaluator in plan.evaluators.items()}
        self._transforms = plan.transform is not None
        self._left: deque[int] = deque()
        self._over = False
        self._committed = 0.0
        self._together = min(max(CHUNK, len(plan) // COMMITS), MOST_TOGETHER)
        self._ends: list[TaskFinished] = []
        self._blobs: dict[str, bytes] = {}
        """Ends that are not committed yet, and the large scores among them, by their digests."""
        self._commits: deque[Future[list[Outcome]]] = deque()
        self._unusual: array[int] = array("Q")
        """Trials with outputs that the engine gets when all that is made here is durable: their scores may be
        the same as those of others."""
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
            self._commit()
            while self._commits:
                self._check(self._commits.popleft())
            self._leave(self._unusual)
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
        setup, store = setup_of(list(self._plan.evaluators.values())), self._context.store
        if setup is None or not isinstance(store, ScansTasks):
            self._leave(self._plan.layout.in_run_order())
            return
        pool = ScoringPool[TrialBatch](setup, self._context.label, self._items)
        try:
            pool.start(os.cpu_count() or 1)  # which takes as long as reading 100,000 tasks
            if (tasks := store.scan_tasks(len(self._plan))) is None:
                self._leave(self._plan.layout.in_run_order())
                return
            pool.ready()
            for batch, scores in pool.scored(self._batches(MissingScores(self._plan, tasks))):
                self._record(batch, [LOST] * len(batch.missing) if scores is None else scores)
        finally:
            pool.close()

    def _batches(self, missing: MissingScores) -> Iterator[TrialBatch]:
        """The trials with missing scores; all others are counted, or left to the engine."""
        assert self._execution is not None
        state, places = self._execution.state, self._plan.layout.places()
        while not (state.stop or state.fault) and (chunk := list(islice(places, CHUNK))):
            batch, without_output, unusual = missing.of(chunk)
            self._unusual.extend(unusual)
            if without_output:
                self._leave(without_output)
            if batch.missing:
                yield batch
            else:
                self._count(batch, frozenset())

    def _items(self, batch: TrialBatch) -> list[ScoringItem]:
        """The missing scores of a batch, in its order."""
        places, answers, transforms = batch.places, batch.answers, self._transforms
        items = []
        for row, evaluator, _ in batch.missing:
            case, answer = places[row].case, answers[row]
            number, takes_case, takes_expected = self._asked[evaluator]
            output = self._context.store.get(answer.blob) if answer.blob else bytes(answer.output)
            seen = (case.input, case.id, case.slice, case.cluster, case.metadata) if takes_case else None
            expected = case.expected if takes_expected else None
            items.append(ScoringItem(number, output, transforms, expected, seen))
        return items

    def _record(self, batch: TrialBatch, scores: Sequence[ScoredItem]) -> None:
        """Record the scores of a batch; trials of which one is missing are left to the engine."""
        limit = self._context.policy.output_limit
        lost = {
            one.row
            for one, scored in zip(batch.missing, scores, strict=True)
            if scored.score is None or len(scored.score) > limit
        }
        self._ends += [
            TaskFinished(id, 1, State.succeeded, self._result(scored))
            for (row, _, id), scored in zip(batch.missing, scores, strict=True)
            if row not in lost
        ]
        if len(self._ends) >= self._together or time.monotonic() - self._committed > LONGEST:
            self._commit()
        if lost:
            self._failed = True
            self._unusual.extend([batch.places[row].number for row in lost])
        self._count(batch, lost)

    def _commit(self) -> None:
        """Commit what was recorded, a batch in an op: each claims its scores, and ends them. In the order of
        their ids, in which each page of their index is changed once."""
        if not self._ends:
            return
        ends, blobs = sorted(self._ends, key=attrgetter("task")), self._blobs
        self._ends, self._blobs, self._committed = [], {}, time.monotonic()
        ops = []
        for start in range(0, len(ends), CHUNK):
            some = ends[start : start + CHUNK]
            ids = tuple([end.task for end in some])
            claimed = TasksClaimed(EVALUATE, EVALUATE, self._context.owner, ids, ())
            large = {end.result.blob for end in some if end.result.blob} if blobs else ()
            ops.append(Op(self._context.run, (claimed, *some), tuple([blobs[digest] for digest in large])))
        self._commits.append(self._context.journal.send(ops))
        if len(self._commits) > MOST_PENDING:
            self._check(self._commits.popleft())

    def _result(self, scored: ScoredItem) -> Result:
        """The result of a score as it is recorded; what is too large for its event is kept for the commit."""
        body = scored.score or b""
        inline, blob, more = payload(body, self._context.inline)
        if more:
            [self._blobs[blob]] = more
        result = Result(round(scored.took, 6), inline, blob)
        if marks := exposed_keys(body):
            return msgspec.structs.replace(result, exposed=marks)
        return result

    def _check(self, commit: Future[list[Outcome]]) -> None:
        """Wait for a commit, all of whose ops must have been accepted."""
        if refused := [outcome for outcome in commit.result() if outcome is not None]:
            raise StoreDamaged(f"scores of this run were claimed elsewhere: {refused[0]}")

    def _count(self, batch: TrialBatch, lost: Set[int]) -> None:
        """Count and list trials that have all their scores now, which is all but the lost ones. Those that
        share a score are counted at the end."""
        assert self._execution is not None
        sharing = batch.sharing - lost
        made = sum(one.row not in lost for one in batch.missing) if lost else len(batch.missing)
        for_sharing = sum(one.row in sharing for one in batch.missing) if sharing else 0
        self._sharing.extend([batch.places[row].number for row in sharing])
        self._made_for_sharing += for_sharing
        self._tally(len(batch.places) - len(lost) - len(sharing), made - for_sharing)
        if self._listing is not None:
            listed = batch.without(lost)
            scores = [(self._names[evaluator], ids) for evaluator, ids in listed.scores.items()]
            with self._execution.state.lock:  # others list trials that are left to the engine
                self._listing.note_all(listed.places, listed.trials, listed.results, scores)

    def _tally(self, trials: int, made: int) -> None:
        """Count so many trials with all their scores, of which so many were made now."""
        assert self._execution is not None
        with self._execution.state.lock:
            add = self._execution.tally.add
            add(GENERATE, REUSED, trials)
            add(TRANSFORM, REUSED, trials if self._transforms else 0)
            add(EVALUATE, State.succeeded, made)
            add(EVALUATE, REUSED, trials * len(self._plan.common) - made)

    def _leave(self, numbers: Iterable[int]) -> None:
        self._left.extend(numbers)
        self._grown()


def can_rescore(plan: Plan, context: RunContext, stages: Sequence[str]) -> bool:
    """Whether stored outputs of a plan may be scored in bulk: there are many, and evaluators are plain."""
    plain = all(map(_is_plain, plan.evaluators.values()))
    watched = registry.listening or registry.surrounding
    apart = context.outputs_apart or context.shared
    bulk = len(plan) >= FEWEST and isinstance(context.store, ScansTasks)
    return bool(plan.evaluators) and EVALUATE in stages and bulk and plain and not (watched or apart)


def _is_plain(evaluator: Evaluator) -> bool:
    return not evaluator.asynchronous and TAKES.issuperset(evaluator.takes)
