"""The wiring: the only place that opens stores, and where rooms that do not know each other meet."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from peira.analysis.results import Results
from peira.api.look import Opened
from peira.api.rescoring import judged_by
from peira.api.running import Handle, Wishes, execute
from peira.api.stores import StoreLike
from peira.api.studies import StudyLike
from peira.core.events import Status
from peira.engine.work import EVALUATE, GENERATE, TRANSFORM
from peira.spec.limits import Policy
from peira.spec.modules import refuse_while_loading


def run(
    study: StudyLike,
    *,
    store: StoreLike = None,
    parallel: int | None = None,
    runner: str | None = None,
    policy: Policy | Mapping[str, Any] | None = None,
    where: str = "",
    limit: int | None = None,
    fresh: bool = False,
    resources: Mapping[str, Any] | None = None,
    progress: bool | None = None,
    log: str | Path | None = None,
    earlier: Results | str | None = None,
    batch: bool = False,
    whole: bool = False,
) -> Results:
    """Run a study through all its stages, and return its results.

    Resumes by itself: what is in the store is not done again. `runner` is "local" (threads, or an event
    loop for `async def`) or "process". `where` and `limit` run a part; `fresh` asks everything anew,
    beside what there is. `resources` are handed to agents and are no part of identity. A first Ctrl-C
    lets running trials finish, a second cancels them; either way KeyboardInterrupt follows, all recorded.
    `log` is a file to which each event is appended as it happens, as a line of JSON. With an `earlier` run
    (its results, or its id), `where` may name what that found for the same case and the same levels: the mean
    `score.NAME`, and the counts `earlier.trials` and `earlier.failed`. With `batch`, calls are handed in as
    batches: answered later, for half the price. `whole` runs the whole plan, whatever its stopping rule says.
    """
    wishes = Wishes(
        store,
        parallel,
        runner,
        policy,
        where,
        limit,
        fresh,
        resources or {},
        progress,
        log=log,
        earlier=earlier,
        batch=batch,
        whole=whole,
    )
    return _run(study, wishes)


def generate(study: StudyLike, **wishes: Any) -> Results:
    """Only the outputs: `run` without evaluation. Takes what `run` takes."""
    return _run(study, Wishes(stages=(GENERATE,), **wishes))


def transform(study: StudyLike | Results, transform: Any = None, **wishes: Any) -> Results:
    """Only the answers in the outputs that there are; never calls the agent. Takes what `run` takes.

    With a `transform`, answers are looked for by that one instead of the study's own.
    """
    return _again(study, None, transform, Wishes(stages=(TRANSFORM,), **wishes))


def evaluate(
    study: StudyLike | Results,
    evaluators: Sequence[Any] | None = None,
    *,
    transform: Any = None,
    name: str = "",
    **wishes: Any,
) -> Results:
    """Only the answers in outputs that there are, and their scores; never calls the agent. Takes what `run`
    takes.

    With `evaluators` or a `transform`, a study or stored results are judged by those instead of the study's
    own. Under a `name` that evaluation can be looked at again: `open(store).results("3f2a91@strict")`.
    """
    stages = (TRANSFORM, EVALUATE)
    return _again(study, evaluators, transform, Wishes(stages=stages, evaluation=name, **wishes))


def _again(
    study: StudyLike | Results, evaluators: Sequence[Any] | None, transform: Any, wishes: Wishes
) -> Results:
    refuse_while_loading()
    if isinstance(study, Results):
        wishes = replace(wishes, store=study.store if wishes.store is None else wishes.store)
        study = study.run_id
    if evaluators is None and transform is None:
        return _run(study, wishes)
    return _run(judged_by(study, evaluators, transform, wishes.store), wishes)


def _run(study: StudyLike, wishes: Wishes) -> Results:
    refuse_while_loading()
    outcome = execute(study, wishes)
    if outcome.finished.status is Status.interrupted:
        raise KeyboardInterrupt("the run was interrupted; run it again to go on where it stopped")
    return outcome.results


def submit(study: StudyLike, **wishes: Any) -> Handle:
    """Start a run in the background and return at once. Takes what `run` takes, and `wait`."""
    refuse_while_loading()
    return Handle(study, Wishes(**wishes))


def open(store: StoreLike = None) -> Opened:
    """Look at stored work: `.runs()`, `.results(run)`, `.events(run, after=)`, `.calls(run=)`."""
    refuse_while_loading()
    return Opened(store)


__all__ = [
    "Handle",
    "Opened",
    "StudyLike",
    "evaluate",
    "execute",
    "generate",
    "open",
    "run",
    "submit",
    "transform",
]
