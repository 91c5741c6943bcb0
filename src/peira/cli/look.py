"""The commands that look at stored work: which runs there are, where one stands, what happened in it."""

from __future__ import annotations

import time
from collections.abc import Iterator
from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Any

import typer

import peira.api as api
from peira.api.look import Opened
from peira.cli.bill import money_document
from peira.cli.options import Json, RunName, Store
from peira.cli.output import Output, encoded, grid, moment, note
from peira.cli.told import described, run_document, standing, status_of, told
from peira.core.clock import seconds
from peira.core.contracts import RunQuery
from peira.core.events import Record, Status
from peira.core.ids import short
from peira.core.state import Run
from peira.core.words import counted, lasting
from peira.engine.log import recorded
from peira.errors import Invalid
from peira.report.live import display

if TYPE_CHECKING:
    from peira.api.follow import Follower

POLL = 0.25
CHUNK = 1000


def runs(
    study: Annotated[str, typer.Option("--study", metavar="NAME", help="Only runs of this study.")] = "",
    status: Annotated[
        str,
        typer.Option("--status", metavar="STATUS", help="Only runs that stand so: completed, running, ..."),
    ] = "",
    tag: Annotated[str, typer.Option("--tag", metavar="TAG", help="Only runs with this tag.")] = "",
    since: Annotated[
        str, typer.Option("--since", metavar="TIME", help="Only runs begun since: 2h, 7d, or a date.")
    ] = "",
    limit: Annotated[int, typer.Option("--limit", metavar="N", help="At most so many (50).")] = 50,
    store: Store = None,
    as_json: Json = False,
) -> None:
    """List the runs in a store, newest first.

    \b
    Examples:
      peira runs
      peira runs --study capitals --status interrupted --since 7d
    """
    out = Output(as_json)
    query = RunQuery(study=study, status=status_of(status), tag=tag, since=_since(since), limit=limit)
    if limit < 1:
        raise Invalid(f"limit: must be at least 1, not {limit}")
    found = Opened(store).runs(query)
    out.document({"runs": [run_document(run) for run in found]})
    out.text(
        grid(["run", "study", "status", "trials", "begun", "took"], map(_row, found)) if found else "no runs"
    )


def _row(run: Run) -> tuple[str, ...]:
    took = lasting(run.finished - run.started) if run.finished and run.started else "-"
    study = f"{run.study}@{run.evaluation}" if run.evaluation else run.study
    return short(run.id), study, run.status.value, f"{run.trials:,}", moment(run.planned), took


def _since(text: str) -> float:
    if not text:
        return 0.0
    try:
        return datetime.fromisoformat(text).timestamp()
    except ValueError:
        pass
    try:
        return time.time() - seconds(text)
    except Invalid:
        raise Invalid(f"since: {text!r} is neither a duration (2h, 7d) nor a date (2026-08-31)") from None


def status(run: RunName = "", store: Store = None, as_json: Json = False) -> None:
    """Say where a run stands.

    A run whose process was killed is interrupted, whatever it last wrote.

    \b
    Examples:
      peira status
      peira status 3f2a91
    """
    out, opened = Output(as_json), Opened(store)
    follower = api.Follower(store, opened.run(run).id)
    size = opened.size(follower.run.id)
    out.document(_document(follower, size, store))
    out.text(described(follower, size, store))


def _document(follower: Follower, size: int, store: str | None) -> dict[str, Any]:
    run, progress = follower.run, standing(follower)
    account = money_document(api.account_of(store, run.id))
    return {**run_document(run), "progress": progress, "bytes": size, **account}


def events(
    run: RunName = "",
    after: Annotated[int, typer.Option("--after", metavar="N", help="Only events after number N.")] = 0,
    limit: Annotated[
        int | None, typer.Option("--limit", metavar="N", help="At most so many (1000; all with --follow).")
    ] = None,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Go on until the run ends.")] = False,
    store: Store = None,
    as_json: Json = False,
) -> None:
    """List what happened in a run, in order.

    \b
    Examples:
      peira events --after 120
      peira events 3f2a91 --follow
    """
    out, opened = Output(as_json), Opened(store)
    if limit is not None and limit < 1:
        raise Invalid(f"limit: must be at least 1, not {limit}")
    found = opened.run(run)
    most = limit if limit is not None or follow else CHUNK
    out.raw(f'{{"run": {encoded(found.id)}, "events": [')
    last = after
    try:
        for record in _records(opened, found, after, most, follow):
            out.raw(f"{',' if last != after else ''}\n  {encoded(recorded(record), indent=0)}")
            out.text(told(record))
            last = record.seq
    finally:
        out.raw("\n]}\n")  # one document, however it is left
    if not follow and last + 1 < opened.run(found.id).next_seq:
        note(f"there are more: --after {last}")


def _records(opened: Opened, run: Run, after: int, most: int | None, follow: bool) -> Iterator[Record]:
    """The run's events; with `follow`, until no more can come."""
    while most is None or most > 0:
        over = opened.run(run.id).status not in (Status.planned, Status.running)
        chunk = opened.events(run.id, after, min(most or CHUNK, CHUNK))
        yield from chunk
        after = chunk[-1].seq if chunk else after
        most = None if most is None else most - len(chunk)
        if not chunk and (over or not follow):
            return
        if not chunk:
            time.sleep(POLL)


def watch(run: RunName = "", store: Store = None, as_json: Json = False) -> int:
    """Follow a run live, from any terminal, until it ends.

    Only looks: leaving with Ctrl-C does not touch the run. The exit code is 0 if the run completed without
    failures, and 1 if it did not.

    \b
    Examples:
      peira watch
      peira watch 3f2a91
    """
    out, opened = Output(as_json), Opened(store)
    follower = api.Follower(store, opened.run(run).id)
    _follow(follower)
    size = opened.size(follower.run.id)
    out.document(_document(follower, size, store))
    out.text(described(follower, size, store))
    return int(follower.run.status is not Status.completed)


def _follow(follower: Follower) -> None:
    note(f"run {short(follower.run.id)}, {counted(follower.run.trials, 'trial')}: {follower.run.status}")
    try:
        with display(follower.run.study, None) as show:
            while not follower.over:
                show(follower.look())
                time.sleep(POLL)
    except KeyboardInterrupt:
        note("no longer watching; the run goes on")
        raise typer.Exit(130) from None
