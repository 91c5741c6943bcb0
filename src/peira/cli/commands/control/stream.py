"""`peira stream`: submit jobs to a stream, and see what becomes of them."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import msgspec
import typer

from peira.analysis.results import Results
from peira.app.session import Session
from peira.app.streams.view import StreamView, streams_of
from peira.cli.commands.control.stream_help import PAGES
from peira.cli.help_pages import with_pages
from peira.cli.options import Json, Store
from peira.cli.output import CommandOutput, grid, note, program, terminal_width
from peira.core.clock import seconds
from peira.core.ids import short
from peira.core.log.events import TERMINAL, State
from peira.core.registry import registry
from peira.core.text.words import counted, duration
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
    decisions = "decisions"
    goals = "goals"
    results = "results"
    outcome = "outcome"
    decide = "decide"


NOT_ENDED = 3
"""The exit code of `wait` if the time is over."""
OF_JOBS = (StreamAction.wait, StreamAction.show, StreamAction.cancel, StreamAction.outcome)
DONE = {
    StreamAction.pause: "paused; what runs is finished, and nothing more begins",
    StreamAction.resume: "resumed",
    StreamAction.drain: "drains; what was taken is finished, and what comes now is for the next host",
}
"""What is said when a stream was told to."""


@with_pages(PAGES)
def stream(
    action: Annotated[
        StreamAction,
        typer.Argument(
            metavar="[ACTION]",
            help="What to do, as below; without it, list.",
        ),
    ] = StreamAction.list,
    name: Annotated[
        str, typer.Argument(metavar="[NAME]", help="The stream; list without it lists all.")
    ] = "",
    job: Annotated[
        str,
        typer.Argument(metavar="[JOB]", help="A job: its key, or first digits of its id. An arm: decide."),
    ] = "",
    outcome: Annotated[
        str, typer.Argument(metavar="[OUTCOME]", help="For outcome: its name, as bought.")
    ] = "",
    value: Annotated[
        str | None, typer.Argument(metavar="[VALUE]", help="For outcome: true, false, a number or a text.")
    ] = None,
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
    jobs: Annotated[
        str | None,
        typer.Option("--jobs", metavar="FILE", help="Submit many: a JSON table a line; - is standard input."),
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
    level: Annotated[
        str, typer.Option("--level", metavar="LEVEL", help="Of events: jobs, events, or calls (all).")
    ] = "calls",
    kinds: Annotated[
        list[str] | None,
        typer.Option("--kind", metavar="KIND", help="Of events: only of this kind. Repeatable."),
    ] = None,
    after: Annotated[
        str, typer.Option("--after", metavar="CURSOR", help="Of events: those after this one.")
    ] = "",
    follow: Annotated[bool, typer.Option("--follow", help="Of events: go on as they come.")] = False,
    by: Annotated[
        str, typer.Option("--by", metavar="FACTOR", help="Results: compare the levels of this factor.")
    ] = "",
    score: Annotated[
        str | None, typer.Option("--score", metavar="NAME", help="Results: of this score or outcome.")
    ] = None,
    why: Annotated[str, typer.Option("--why", metavar="TEXT", help="For decide: why this arm.")] = "",
    output: Annotated[
        Path | None,
        typer.Option("-o", "--output", metavar="FILE", help="Results: write the report, as .html or .md."),
    ] = None,
    store: Store = None,
    as_json: Json = False,
) -> int:
    """Submit jobs to a stream, and see what becomes of them.

    From any process, beside the host that serves the stream or without one: what is submitted is durable when
    this returns, and is done once a host is there. The actions are list, submit, wait, show, cancel and
    outcome for jobs, and pause, resume, drain, stats, events, decisions, goals, results and decide for the
    stream. The host itself is ended where it runs, with Ctrl-C or SIGTERM.
    Each action has a page of its own: peira stream submit --help.

    \b
    Examples:
      peira stream
      peira stream submit support --input '{"customer": 7}' --key t-1
      peira stream wait support t-1 --timeout 5s
      peira stream stats support
      peira stream outcome support t-1 bought true
      peira stream results support --since 7d --by model
      peira stream decide support small --why "cheaper, and as good"
    """
    out = CommandOutput(as_json)
    problems = _problems(action, name, job, input, jobs, outcome, value)
    problems += _time_problems(wait=wait, timeout=timeout, since=since)
    if problems:
        raise Invalid(problems)
    with Session.find(store) as session:
        if not name:
            found = streams_of(session)
            out.document({"streams": found})
            out.text(_streams(found))
            return 0
        view = StreamView(session, name)
        if action is StreamAction.list:
            found = view.jobs(state, limit)
            out.document({"jobs": found})
            out.text(_listing(found))
        elif action is StreamAction.submit and jobs is not None:
            many = view.submit_many(_lines(jobs))
            out.document({"jobs": [one.id for one in many]})
            out.text(f"{counted(len(many), 'job')} submitted")
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
            _note_missing_host(view, made.state)
        elif action is StreamAction.outcome:
            target = view.find(job)
            view.outcome(target, outcome, _value(value or ""))
            out.document({"job": target, "outcomes": view.document(target)["outcomes"]})
            out.text(f"job {short(target)}: {outcome} = {_plain(_value(value or ''))}")
        elif action is StreamAction.decide:
            view.decide(job, why)
            out.document({"stream": name, "done": "decide", "experiment": view.stats()["experiment"]})
            out.text(f"{name}: all jobs get {job} from now on")
        elif action in OF_JOBS:
            return _of_job(action, view, view.find(job), timeout, out)
        elif action is StreamAction.stats:
            stats = view.stats()
            out.document(stats)
            out.text(_stats(stats))
        elif action is StreamAction.results:
            _results(view.results(since), by, score, output, out)
        elif action is StreamAction.events:
            for document in view.events(job, after=after, kinds=kinds or (), level=level, follow=follow):
                print(json.dumps(document), flush=follow)
        elif action is StreamAction.decisions:
            decided = view.decisions(job)
            out.document({"decisions": decided})
            out.text(_decisions(decided))
        elif action is StreamAction.goals:
            goals = view.goals()
            out.document({"goals": goals})
            out.text(_goals(goals))
        else:
            {"pause": view.pause, "resume": view.resume, "drain": view.drain}[action.value]()
            out.document({"stream": name, "done": action.value})
            out.text(f"{name}: {DONE[action]}")
    return 0


def _problems(
    action: StreamAction,
    name: str,
    job: str,
    input: str | None,
    jobs: str | None,
    outcome: str,
    value: str | None,
) -> list[str]:
    """What is missing, or given in vain."""
    found = []
    if action is not StreamAction.list and not name:
        found.append(f"stream {action}: which stream? give its name")
    if action in OF_JOBS and name and not job:
        found.append(f"stream {action}: which job? give its key, or the first digits of its id")
    if action is StreamAction.outcome and job and not (outcome and value is not None):
        found.append("stream outcome: what became of it? give a name and a value, as bought true")
    if action is StreamAction.decide and name and not job:
        found.append("stream decide: which arm? give its label, as `stats` shows it")
    if action is not StreamAction.outcome and outcome:
        found.append(f"{outcome!r}: is for outcome, not for {action}")
    if input is not None and jobs is not None:
        found.append("--jobs: has the inputs; leave out --input")
    return found


def _lines(path: str) -> list[dict[str, Any]]:
    """The tables in the lines of a file; standard input for -."""
    try:
        text = sys.stdin.read() if path == "-" else Path(path).read_text()
    except OSError as error:
        raise Invalid(f"--jobs: {path}: {error.strerror}") from None
    found, problems = [], []
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip():
            continue
        try:
            table = json.loads(line)
        except ValueError as error:
            problems.append(f"--jobs: line {number} is not JSON ({error})")
            continue
        if isinstance(table, dict):
            found.append(table)
        else:
            problems.append(f"--jobs: line {number} is not a table with `input`")
    if problems:
        raise Invalid(problems)
    return found


def _goals(goals: list[dict[str, Any]]) -> str:
    if not goals:
        return "no goals"
    rows = [[one["goal"], one["verdict"], _interval(one), f"{one['n']:,}"] for one in goals]
    return grid(["goal", "verdict", "mean [valid at every look]", "jobs"], rows)


def _interval(one: dict[str, Any]) -> str:
    if one["mean"] is None:
        return "-"
    low, high = ("?" if end is None else f"{end:.2f}" for end in (one["low"], one["high"]))
    return f"{one['mean']:.2f} [{low}, {high}]"


def _decisions(decided: list[dict[str, Any]]) -> str:
    if not decided:
        return "no decisions"
    names = ("job", "what", "chosen", "why")
    rows = [[short(one["job"]), one["what"], _plain(one["chosen"]), one["why"] or "-"] for one in decided]
    return grid(list(names), rows)


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
        state = view.state(job)
        out.document({"job": job, "state": state, "cancelled": done})
        before = "had ended before: " if State(state) in TERMINAL else "is not cancelled yet: "
        out.text(f"job {short(job)}: {'' if done else before}{state}")
        return 0 if done else 1
    document = view.document(job)
    out.document(document)
    shown = {name: value for name, value in document.items() if value not in (None, "")}
    out.text("\n".join(f"{name:10} {_plain(value)}" for name, value in shown.items()))
    return 0


def _time_problems(**times: str | None) -> Iterator[str]:
    """What is wrong with the values of options that are times."""
    for option, text in times.items():
        try:
            seconds(text or 0)
        except Invalid as error:
            yield from (f"--{option}: {line}" for line in error.problems)


def _note_missing_host(view: StreamView, state: str) -> None:
    """Say that a job which has not ended will not while nobody serves its stream."""
    if State(state) not in TERMINAL and not view.is_served():
        note(f"no host serves {view.name} now: its jobs are done once one does ({program()} serve FILE)")


def _wait(view: StreamView, job: str, timeout: str | None, out: CommandOutput) -> int:
    if timeout is None or seconds(timeout):
        _note_missing_host(view, view.state(job))
    ended = view.wait(job, None if timeout is None else seconds(timeout))
    document = view.document(job)
    out.document(document)
    succeeded = document["state"] == "succeeded"
    end = _plain(document["output"]) if succeeded else document["why"] or ""
    out.text(f"job {short(job)}: {document['state']}" + (f": {end}" if ended and end else ""))
    if not ended:
        return NOT_ENDED
    return 0 if document["state"] == "succeeded" else 1


def _value(text: str) -> Any:
    """The value of an outcome: true, false or a number, else the text itself."""
    try:
        found = json.loads(text)
    except ValueError:
        return text
    return found if isinstance(found, (bool, int, float, str)) else text


def _results(results: Results, by: str, score: str | None, output: Path | None, out: CommandOutput) -> None:
    """Show the table, the comparison of levels if one is asked for, and write the report if it is named."""
    if not any(results.counts.values()):
        out.document(msgspec.Raw(results.table().to_json().encode()))
        out.text("no job has ended yet, of those that were submitted since then")
        return
    if output is not None:
        registry.make("report", output.suffix[1:].lower(), results=results, path=output)
        note(f"written to {output}")
    table = results.table(*([by] if by else []), score=score)
    if not by:
        out.document(msgspec.Raw(table.to_json().encode()))
        out.text(table.text(terminal_width()))
        return
    compared = results.compare(by, score=score)
    documents = {"table": table, "comparison": compared}
    out.document({name: msgspec.Raw(one.to_json().encode()) for name, one in documents.items()})
    out.text("\n\n".join(one.text(terminal_width()) for one in documents.values()))


def _plain(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)


def _streams(found: list[dict[str, Any]]) -> str:
    if not found:
        return f"there are no streams in this store yet; {program()} serve FILE.py serves those of a file"
    rows = [
        [
            one["stream"],
            one["standing"],
            " ".join(f"{state} {n}" for state, n in one["states"].items()) or "-",
            str(one["free"]),
        ]
        for one in found
    ]
    return grid(["stream", "host", "jobs", "free"], rows)


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
    places = f"{stats['free']} of {stats['parallel']} places free"
    lines = [f"{stats['stream']}: {stats['standing']}; {states}; {places}"]
    if stats["oldest"] is not None:
        lines.append(f"the oldest queued job waits for {duration(stats['oldest'])}")
    if stats["ended"]:
        failed, waiting, running = stats["failed"], stats["waiting"], stats["running"]
        lines.append(
            f"last {duration(stats['covered'])}: {counted(stats['ended'], 'job')} ended, "
            f"{stats['per_minute']:g} a minute; {failed['share']:.1%} failed "
            f"[{failed['low']:.1%}, {failed['high']:.1%}]"
        )
        lines.append(_times("waiting", waiting) + "; " + _times("running", running) + _cost(stats["cost"]))
    if shadows := stats.get("shadows"):
        lines.append(_shadows(shadows))
    if experiment := stats.get("experiment"):
        arms = ", ".join(f"{label} {share:.0%}" for label, share in experiment["shares"].items())
        lines.append(f"traffic: {arms}; {experiment['why']}")
    return "\n".join(lines)


def _shadows(shadows: dict[str, Any]) -> str:
    limits = ", ".join(
        f"${most:g}" if name == "money" else f"{most:,} {name}" for name, most in shadows["budget"].items()
    )
    ended = f"{counted(shadows['ended'], 'shadow')} ended, {shadows['failed']:,} of them without an output"
    return f"{ended}{_cost(shadows['cost'])}; budget of their own: {limits or 'no limit'}"


def _times(what: str, found: dict[str, float | None]) -> str:
    if found["p50"] is None or found["p95"] is None:
        return f"{what} -"
    return f"{what} p50 {found['p50']:.3g} s, p95 {found['p95']:.3g} s"


def _cost(cost: float | None) -> str:
    return "" if not cost else f"; ${cost:.4g}"
