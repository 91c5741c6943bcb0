"""`peira runs`, `status`, `events` and `watch`: list runs, the status of one, its events."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Any

import typer

import peira.app as app
from peira.app.store.runs import UNDER_WAY
from peira.app.store.view import Opened, looking
from peira.cli.options import Json, Most, OfStudy, RunName, Store
from peira.cli.output import CommandOutput, encoded, grid, moment, note
from peira.cli.render import event_line, run_document, status_document, status_of, status_text
from peira.cli.run_summary import money_document
from peira.core.clock import seconds
from peira.core.contracts import RunQuery
from peira.core.ids import short
from peira.core.log.events import Record, Status
from peira.core.log.state import Run
from peira.core.text.words import counted, lasting
from peira.engine.run_log import event_values
from peira.errors import Invalid
from peira.report.progress import display

if TYPE_CHECKING:
    from peira.app.store.follower import Follower

POLL = 0.25
CHUNK = 1000


def runs(
    study: OfStudy = "",
    status: Annotated[
        str,
        typer.Option("--status", metavar="STATUS", help="Only runs that stand so: completed, running, ..."),
    ] = "",
    tag: Annotated[str, typer.Option("--tag", metavar="TAG", help="Only runs with this tag.")] = "",
    since: Annotated[
        str, typer.Option("--since", metavar="TIME", help="Only runs begun since: 2h, 7d, or a date.")
    ] = "",
    size: Annotated[bool, typer.Option("--size", help="Also how much each run and study takes.")] = False,
    limit: Most = 50,
    store: Store = None,
    as_json: Json = False,
) -> None:
    """List the runs in a store, newest first.

    \b
    Examples:
      peira runs
      peira runs --study capitals --status interrupted --since 7d
    """
    out = CommandOutput(as_json)
    query = RunQuery(study=study, status=status_of(status), tag=tag, since=_since(since), limit=limit)
    if limit < 1:
        raise Invalid(f"limit: must be at least 1, not {limit}")
    with looking(store) as opened:
        found = opened.runs(query)
        sizes = {run.id: opened.size(run.id) for run in found} if size else {}
        whole = opened.size() if size else 0
    document: dict[str, Any] = {"runs": [{**run_document(run), **_bytes(run, sizes)} for run in found]}
    out.document({**document, "bytes": whole} if size else document)
    names, bytes_ = ["name"] if any(run.name for run in found) else [], ["MB"] if size else []
    rows = [
        (short(run.id), *(run.name for _ in names), *_row(run), *(_megabytes(sizes[run.id]) for _ in bytes_))
        for run in found
    ]
    header = ["run", *names, "study", "status", "trials", "begun", "took", *bytes_]
    out.text(grid(header, rows) if found else "no runs")
    if size and found:
        out.text(f"\n{grid(['study', 'runs', 'MB'], _studies(found, sizes))}")
        out.text(f"the whole store: {_megabytes(whole)} MB, with results and payloads that runs share")


def _bytes(run: Run, sizes: Mapping[str, int]) -> dict[str, int]:
    """The size of a run, if it was asked for."""
    return {"bytes": sizes[run.id]} if sizes else {}


def _studies(runs: Sequence[Run], sizes: Mapping[str, int]) -> list[tuple[str, str, str]]:
    """The number of runs and the size of each study, largest first."""
    total: Counter[str] = Counter()
    count = Counter(run.study for run in runs)
    for run in runs:
        total[run.study] += sizes[run.id]
    return [(study, f"{count[study]:,}", _megabytes(size)) for study, size in total.most_common()]


def _megabytes(size: int) -> str:
    return f"{size / 1000**2:,.2f}"


def _row(run: Run) -> tuple[str, ...]:
    """The cells of a run, after its id and name."""
    took = lasting(run.finished - run.started) if run.finished and run.started else "-"
    study = f"{run.study}@{run.evaluation}" if run.evaluation else run.study
    return study, run.status.value, f"{run.trials:,}", moment(run.planned), took


def _since(text: str) -> float:
    """A time from a duration or a date."""
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
    out = CommandOutput(as_json)
    with looking(store) as opened:
        follower = app.Follower(opened.session, opened.run(run).id)
        _show_status(follower, opened, store, out)


def _show_status(follower: Follower, opened: Opened, store: str | None, out: CommandOutput) -> None:
    """Show the status of a run."""
    run, size = follower.run, opened.size(follower.run.id)
    account = app.account_of(opened.session, run.id)
    facts = {"progress": status_document(follower), "bytes": size, **money_document(account)}
    out.document({**run_document(run), **facts})
    out.text(status_text(follower, size, account, store))


def events(
    run: RunName = "",
    after: Annotated[int, typer.Option("--after", metavar="N", help="Only events after number N.")] = 0,
    limit: Annotated[
        int | None, typer.Option("--limit", metavar="N", help="At most this many (1000; all with --follow).")
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
    out = CommandOutput(as_json)
    with looking(store) as opened:
        if limit is not None and limit < 1:
            raise Invalid(f"limit: must be at least 1, not {limit}")
        found = opened.run(run)
        most = limit if limit is not None or follow else CHUNK
        out.raw(f'{{"run": {encoded(found.id)}, "events": [')
        last = after
        try:
            for record in _records(opened, found, after, most, follow):
                out.raw(f"{',' if last != after else ''}\n  {encoded(event_values(record), indent=0)}")
                out.text(event_line(record))
                last = record.seq
        finally:
            out.raw("\n]}\n")  # a complete document, however the loop ends
        if not follow and last + 1 < opened.run(found.id).next_seq:
            note(f"there are more: --after {last}")


def _records(opened: Opened, run: Run, after: int, most: int | None, follow: bool) -> Iterator[Record]:
    """The run's events; with `follow`, until no more can come."""
    while most is None or most > 0:
        over = opened.run(run.id).status not in UNDER_WAY
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
    out = CommandOutput(as_json)
    with looking(store) as opened:
        follower = app.Follower(opened.session, opened.run(run).id)
        _follow(follower)
        _show_status(follower, opened, store, out)
        return int(follower.run.status is not Status.completed)


def _follow(follower: Follower) -> None:
    """Show the progress of a run until it ends."""
    note(f"run {short(follower.run.id)}, {counted(follower.run.trials, 'trial')}: {follower.run.status}")
    try:
        with display(follower.run.study, None) as show:
            while not follower.over:
                show(follower.look())
                time.sleep(POLL)
    except KeyboardInterrupt:
        note("no longer watching; the run goes on")
        raise typer.Exit(130) from None
