"""`peira stream`: submit jobs to a stream, and see what becomes of them."""

from __future__ import annotations

import json
import sys
from enum import StrEnum
from typing import Annotated, Any

import msgspec
import typer

from peira.app.session import Session
from peira.app.streams.view import StreamView, streams_of
from peira.cli.options import Json, Store
from peira.cli.output import CommandOutput, grid, program, terminal_width
from peira.core.clock import seconds
from peira.core.ids import short
from peira.core.text.words import counted
from peira.errors import Invalid


class StreamAction(StrEnum):
    """The actions of `peira stream`."""

    list = "list"
    submit = "submit"
    wait = "wait"
    show = "show"
    cancel = "cancel"
    pause = "pause"
    resume = "resume"
    drain = "drain"
    stats = "stats"
    events = "events"
    results = "results"


NOT_ENDED = 3
"""The exit code of `wait` if the time is over."""
OF_JOBS = (StreamAction.wait, StreamAction.show, StreamAction.cancel)


def stream(
    action: Annotated[
        StreamAction,
        typer.Argument(
            metavar="[ACTION]",
            help="What to do, as below; without it, list.",
        ),
    ] = StreamAction.list,
    name: Annotated[str, typer.Argument(metavar="[NAME]", help="The stream; without it, all.")] = "",
    job: Annotated[
        str, typer.Argument(metavar="[JOB]", help="The job: its key, or the first digits of its id.")
    ] = "",
    input: Annotated[
        str | None,
        typer.Option("--input", metavar="JSON", help="The input of a new job; - is standard input."),
    ] = None,
    key: Annotated[
        str | None,
        typer.Option("--key", metavar="KEY", help="The same key is the same job."),
    ] = None,
    priority: Annotated[
        int, typer.Option("--priority", metavar="N", help="Jobs of higher priority begin first (0).")
    ] = 0,
    group: Annotated[str, typer.Option("--group", metavar="NAME", help="Relates the job to others.")] = "",
    expected: Annotated[
        str | None, typer.Option("--expected", metavar="JSON", help="The answer that evaluators expect.")
    ] = None,
    wait: Annotated[
        str | None, typer.Option("--wait", metavar="TIME", help="After submitting, wait for the end: 5s.")
    ] = None,
    timeout: Annotated[
        str | None, typer.Option("--timeout", metavar="TIME", help="How long `wait` waits; 0 only looks.")
    ] = None,
    state: Annotated[str, typer.Option("--state", metavar="STATE", help="Only jobs in this state.")] = "",
    limit: Annotated[int, typer.Option("--limit", metavar="N", min=1, help="How many jobs to list.")] = 1000,
    since: Annotated[
        str | None, typer.Option("--since", metavar="TIME", help="Results of jobs submitted since: 7d.")
    ] = None,
    store: Store = None,
    as_json: Json = False,
) -> int:
    """Submit jobs to a stream, and see what becomes of them.

    From any process, beside the host that serves the stream or without one: what is submitted is durable when
    this returns, and is done once a host is there. The actions are list, submit, wait, show and cancel for
    jobs, and pause, resume, drain, stats, events and results for the stream. `wait` exits with 0 if the job
    succeeded, 1 if it ended otherwise, 3 if it has not ended within the time.

    \b
    Examples:
      peira stream
      peira stream submit support --input '{"customer": 7}' --key t-1
      peira stream wait support t-1 --timeout 5s
      peira stream stats support
      peira stream results support --since 7d
    """
    out = CommandOutput(as_json)
    if problems := _problems(action, name, job, input):
        raise Invalid(problems)
    with Session.find(store) as session:
        if not name:
            found = streams_of(session)
            out.document({"streams": found})
            out.text(_streams(found))
            return 0
        view = StreamView(session, name)
        if action is StreamAction.list:
            jobs = view.jobs(state, limit)
            out.document({"jobs": jobs})
            out.text(_listing(jobs))
        elif action is StreamAction.submit:
            given = {
                "key": key,
                "priority": priority,
                "group": group,
                "expected": _json(expected, "expected"),
            }
            made = view.submit(_json(input, "input"), **given)
            if wait is not None:
                return _wait(view, made.id, wait, out)
            out.document({"job": made.id, "state": made.state})
            out.text(f"job {short(made.id)}: {made.state}")
        elif action in OF_JOBS:
            return _of_job(action, view, view.find(job), timeout, out)
        elif action is StreamAction.stats:
            stats = view.stats()
            out.document(stats)
            out.text(_stats(stats))
        elif action is StreamAction.results:
            table = view.results(since).table()
            out.document(msgspec.Raw(table.to_json().encode()))
            out.text(table.text(terminal_width()))
        elif action is StreamAction.events:
            for document in view.events(view.find(job) if job else ""):
                print(json.dumps(document))
        else:
            {"pause": view.pause, "resume": view.resume, "drain": view.drain}[action.value]()
            out.document({"stream": name, "done": action.value})
            out.text(f"{name}: {action.value}")
    return 0


def _problems(action: StreamAction, name: str, job: str, input: str | None) -> list[str]:
    """What is missing, or given in vain."""
    found = []
    if action is not StreamAction.list and not name:
        found.append(f"stream {action}: which stream? give its name")
    if action in OF_JOBS and name and not job:
        found.append(f"stream {action}: which job? give its key, or the first digits of its id")
    if action is not StreamAction.submit and input is not None:
        found.append("--input: is for submit")
    return found


def _json(text: str | None, what: str) -> Any:
    """The value of a JSON text; standard input for -."""
    if text is None:
        return None
    try:
        return json.loads(sys.stdin.read() if text == "-" else text)
    except ValueError as error:
        raise Invalid(f"--{what}: is not JSON ({error}); write a text as '\"hello\"'") from None


def _of_job(action: StreamAction, view: StreamView, job: str, timeout: str | None, out: CommandOutput) -> int:
    if action is StreamAction.wait:
        return _wait(view, job, timeout, out)
    if action is StreamAction.cancel:
        done = view.cancel(job)
        out.document({"job": job, "state": view.state(job), "cancelled": done})
        out.text(f"job {short(job)}: {view.state(job)}")
        return 0 if done else 1
    document = view.document(job)
    out.document(document)
    out.text("\n".join(f"{name:10} {_plain(value)}" for name, value in document.items() if value is not None))
    return 0


def _wait(view: StreamView, job: str, timeout: str | None, out: CommandOutput) -> int:
    ended = view.wait(job, None if timeout is None else seconds(timeout))
    document = view.document(job)
    out.document(document)
    out.text(f"job {short(job)}: {document['state']}" + (f": {_plain(document['output'])}" if ended else ""))
    if not ended:
        return NOT_ENDED
    return 0 if document["state"] == "succeeded" else 1


def _plain(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)


def _streams(found: list[dict[str, Any]]) -> str:
    if not found:
        return f"there are no streams in this store yet; {program()} serve FILE.py serves those of a file"
    rows = [
        [
            one["stream"],
            " ".join(f"{state} {n}" for state, n in one["states"].items()) or "-",
            str(one["free"]),
        ]
        for one in found
    ]
    return grid(["stream", "jobs", "free"], rows)


def _listing(jobs: list[dict[str, Any]]) -> str:
    if not jobs:
        return "no jobs"
    rows = [
        [
            short(str(one["job"])),
            str(one["key"]),
            str(one["state"]),
            str(one["session"]) or "-",
            str(one["group"]) or "-",
        ]
        for one in jobs
    ]
    return f"{grid(['job', 'key', 'state', 'session', 'group'], rows)}\n\n{counted(len(jobs), 'job')}"


def _stats(stats: dict[str, Any]) -> str:
    states = ", ".join(f"{n} {state}" for state, n in stats["states"].items()) or "no jobs"
    return f"{stats['stream']}: {states}; {stats['free']} of {stats['parallel']} places free"
