"""The public functions `run`, `generate`, `transform`, `evaluate`, `submit` and `open`.

Their implementation is imported when they are called, so that importing `run` in a study file is cheap.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import peira
import peira.app as app
from peira.spec.modules import refuse_while_loading


def run(
    study: app.StudyLike,
    *,
    store: app.SessionLike = None,
    parallel: int | None = None,
    runner: str | None = None,
    policy: peira.Policy | Mapping[str, Any] | None = None,
    where: str = "",
    limit: int | None = None,
    fresh: bool = False,
    resources: Mapping[str, Any] | None = None,
    progress: app.ProgressOption = None,
    log: str | Path | None = None,
    earlier: peira.Results | str | None = None,
    batch: bool = False,
    whole: bool = False,
    name: str = "",
    tags: Sequence[str] = (),
    wait: float | None = 0.0,
    wait_for_people: bool = False,
) -> peira.Results:
    """Run a study through all its stages and return its results.

    Resumes automatically: results in the store are reused. `runner` is "local" (threads, or an event loop for
    `async def`), "process", or a name that a plug-in registers. `where` and `limit` select a part of the
    trials; `fresh` runs everything anew, beside what is stored. `resources` are passed to agents and are not
    part of identities. The first Ctrl-C lets running trials finish, the second cancels them; then
    KeyboardInterrupt is raised, with everything recorded.

    In `async def` code `await run_async(...)`: this function blocks the event loop until the run is over.

    `progress` shows how far it is, by default as fits the terminal; a function is given it instead, a few
    times a second, on a thread of its own. `log` is a file to which each event is appended as a line of JSON.
    With an `earlier` run (its results or its id), `where` may refer to its findings for the same case and
    levels: the mean `score.NAME`, and the counts `earlier.trials` and `earlier.failed`. With `batch`, calls
    are submitted as batches: answered later, at half the price. `whole` runs the whole plan, whatever the
    stopping rule says. The run can be found again by its `name`, which no other run of the store may have,
    and listed by its `tags`. A store that is in use is waited for up to `wait` seconds (None: as long as it
    takes); then StoreInUse is raised.
    A run whose remaining trials all wait for people (`ask_person`) ends with the status "waiting for people";
    with `wait_for_people` it stays, and goes on with their answers.
    """
    refuse_while_loading()
    options = app.RunOptions(
        store,
        parallel,
        runner,
        policy,
        where,
        limit,
        fresh,
        resources or {},
        progress,
        wait=wait,
        log=log,
        earlier=earlier,
        batch=batch,
        whole=whole,
        name=name,
        tags=tags,
        wait_for_people=wait_for_people,
    )
    return app.executed_results(study, options)


async def run_async(study: app.StudyLike, **options: Any) -> peira.Results:
    """`run` for `async def` code: awaits the results and does not block the event loop.

    Takes the arguments of `run`. If the task that awaits it is cancelled, the run is: it can be resumed.
    """
    import asyncio  # slow, and running by now

    refuse_while_loading()
    handle = await asyncio.to_thread(app.Handle, study, app.RunOptions(**options))
    return await handle


def generate(study: app.StudyLike, **options: Any) -> peira.Results:
    """Only generate outputs: `run` without evaluation. Takes the arguments of `run`."""
    refuse_while_loading()
    return app.executed_results(study, app.RunOptions(stages=app.OUTPUTS, **options))


def transform(study: app.StudyLike | peira.Results, transform: Any = None, **options: Any) -> peira.Results:
    """Only extract answers from stored outputs; never calls the agent. Takes the arguments of `run`.

    `transform` replaces the study's own.
    """
    refuse_while_loading()
    return app.rescored_results(study, None, transform, app.RunOptions(stages=app.ANSWERS, **options))


def evaluate(
    study: app.StudyLike | peira.Results,
    evaluators: Sequence[Any] | None = None,
    *,
    transform: Any = None,
    name: str = "",
    **options: Any,
) -> peira.Results:
    """Only extract answers from stored outputs and score them; never calls the agent.

    Takes the arguments of `run`. `evaluators` and `transform` replace the study's own. Under a `name` the
    evaluation can be opened again: `open(store).results("3f2a91@strict")`.
    """
    refuse_while_loading()
    run_options = app.RunOptions(stages=app.SCORES, evaluation=name, **options)
    return app.rescored_results(study, evaluators, transform, run_options)


def submit(study: app.StudyLike, **options: Any) -> app.Handle:
    """Start a run in the background and return at once. Takes the arguments of `run`, and `wait`."""
    refuse_while_loading()
    return app.Handle(study, app.RunOptions(**options))


def open(store: app.SessionLike = None) -> app.Opened:
    """Open stored work for reading: `.runs()`, `.results(run)`, `.events(run, after=)`, `.calls(run=)`."""
    refuse_while_loading()
    return app.Opened(store)
