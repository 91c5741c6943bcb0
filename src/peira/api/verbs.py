"""What people ask for: said here, and done by rooms that are opened when it is asked for.

A study's file often names `run`, and is loaded where nothing is run: by the command line, and in each worker
process. There it costs nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import peira.api as rooms
from peira.spec.modules import refuse_while_loading

if TYPE_CHECKING:
    from peira.analysis.results import Results
    from peira.api.look import Opened
    from peira.api.running import Handle
    from peira.api.stores import StoreLike
    from peira.api.studies import StudyLike
    from peira.spec.limits import Policy


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
    refuse_while_loading()
    wishes = rooms.Wishes(
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
    return rooms.acted(study, wishes)


def generate(study: StudyLike, **wishes: Any) -> Results:
    """Only the outputs: `run` without evaluation. Takes what `run` takes."""
    refuse_while_loading()
    return rooms.acted(study, rooms.Wishes(stages=rooms.OUTPUTS, **wishes))


def transform(study: StudyLike | Results, transform: Any = None, **wishes: Any) -> Results:
    """Only the answers in the outputs that there are; never calls the agent. Takes what `run` takes.

    With a `transform`, answers are looked for by that one instead of the study's own.
    """
    refuse_while_loading()
    return rooms.again(study, None, transform, rooms.Wishes(stages=rooms.ANSWERS, **wishes))


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
    refuse_while_loading()
    wished = rooms.Wishes(stages=rooms.SCORES, evaluation=name, **wishes)
    return rooms.again(study, evaluators, transform, wished)


def submit(study: StudyLike, **wishes: Any) -> Handle:
    """Start a run in the background and return at once. Takes what `run` takes, and `wait`."""
    refuse_while_loading()
    return rooms.Handle(study, rooms.Wishes(**wishes))


def open(store: StoreLike = None) -> Opened:
    """Look at stored work: `.runs()`, `.results(run)`, `.events(run, after=)`, `.calls(run=)`."""
    refuse_while_loading()
    return rooms.Opened(store)
