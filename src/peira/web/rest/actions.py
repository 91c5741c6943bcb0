"""What people can do from a page or a program: start, cancel, go on, score again, discard an answer.

Each is done by the same code as the command of that name, and leaves the same events, which say who did it.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
from aiohttp import web

import peira.app as app
from peira.app import inbox
from peira.app.control import cancel as cancel_run
from peira.app.control import deliver
from peira.app.inbox import AnswerOutcome
from peira.app.session import Session
from peira.app.store.runs import UNDER_WAY
from peira.core.log.events import Status
from peira.core.people.questions import read_answer
from peira.engine.control import ADJUST, CANCEL, PAUSE, RESUME, Command
from peira.errors import Invalid
from peira.spec.project import parallel_problem
from peira.web import studies
from peira.web.rest.routes import ApiRoute
from peira.web.site import Site, site_of
from peira.web.studies import StartedRun, StudyPreview, who
from peira.web.trial_record import place_of


class StudyChoice(msgspec.Struct, frozen=True):
    """A study of the project, by its path."""

    study: str


class StartRequest(msgspec.Struct, frozen=True):
    """Which study to run, and how: trials at once, at most so many trials, everything anew."""

    study: str
    parallel: int | None = None
    limit: int | None = None
    fresh: bool = False
    name: str = ""


class EmptyBody(msgspec.Struct, frozen=True):
    """A request that says everything by its path."""


class ScoreRequest(msgspec.Struct, frozen=True):
    """Evaluators to score with, separated by commas, and the name of the evaluation."""

    evaluators: str
    name: str = ""


class AdjustRequest(msgspec.Struct, frozen=True):
    """How many trials at once."""

    parallel: int


class AnswerRequest(msgspec.Struct, frozen=True):
    """An answer: a `value`, the number of an `option`, or a `text` as a person types it.

    `by` is who answers, `took` how many seconds they looked at the question (-1: unknown).
    """

    value: Any | msgspec.UnsetType = msgspec.UNSET
    option: int | None = None
    text: str = ""
    by: str = ""
    took: float = -1.0


class SkipRequest(msgspec.Struct, frozen=True):
    """Who skips a question."""

    by: str = ""


class ActionResult(msgspec.Struct, frozen=True):
    """What was done, in a sentence."""

    said: str
    done: bool = True


def _folder(site: Site) -> Path:
    """The folder of the project."""
    return site.reader.session.project.folder


def separate_session(site: Site) -> Session:
    """A session of its own: what is written is not written on the connection that pages read."""
    shared = site.reader.session
    return Session(shared.project, shared.store)


def _store(site: Site) -> str:
    return str(site.reader.session.store)


async def plan(request: web.Request, body: StudyChoice) -> StudyPreview:
    """Say what a study of the project would do: plan, estimate, design. Runs nothing."""
    site = site_of(request)
    return await site.reader.act(studies.preview, _folder(site), body.study, _store(site))


async def start(request: web.Request, body: StartRequest) -> StartedRun:
    """Run a study of the project, in a process of its own."""
    site = site_of(request)
    study = studies.chosen_study(_folder(site), body.study)
    options = ["--parallel", str(body.parallel)] if body.parallel is not None else []
    options += ["--limit", str(body.limit)] if body.limit is not None else []
    options += ["--fresh"] if body.fresh else []
    options += ["--name", body.name] if body.name else []
    return await site.reader.act(studies.start, _folder(site), study, _store(site), options)


async def again(request: web.Request, body: EmptyBody) -> StartedRun:
    """Go on with a run: what is missing is done, and what failed is tried again."""
    site = site_of(request)
    run = await site.reader.short(site.reader.run, request.match_info["run"])
    return await site.reader.act(studies.start, _folder(site), run.id, _store(site), ["--retry-failed"])


async def cancel(request: web.Request, body: EmptyBody) -> ActionResult:
    """Stop a run now, wherever it is running."""
    site = site_of(request)
    run = await site.reader.short(site.reader.run, request.match_info["run"])
    found = await site.reader.act(cancel_run, run.id, separate_session(site), by=who())
    said = f"run {run.id[:12]} is cancelled" if found.done else f"run {run.id[:12]} had ended before"
    return ActionResult(said, found.done)


async def score(request: web.Request, body: ScoreRequest) -> ActionResult:
    """Score the outputs of a run again, with other evaluators."""
    site = site_of(request)
    names = [name.strip() for name in body.evaluators.split(",") if name.strip()]
    if not names:
        raise Invalid("evaluators: name at least one, like includes")
    run = await site.reader.short(site.reader.run, request.match_info["run"])
    args = (_folder(site), run.id, _store(site), names, body.name)
    await site.reader.act(studies.score, *args)
    named = f" as {body.name}" if body.name else ""
    return ActionResult(f"the outputs of run {run.id[:12]} are scored by {', '.join(names)}{named}")


def _command(command: str, said: str) -> Any:
    """The handler that sends a command about a run to the process that executes it."""

    async def send(request: web.Request, body: EmptyBody) -> ActionResult:
        return await _deliver(request, command, said)

    send.__doc__ = {
        PAUSE: "Pause a run: what is running may finish, and nothing more begins.",
        RESUME: "Let a paused run go on.",
    }[command]
    return send


async def _deliver(
    request: web.Request, command: str, said: str, tasks: tuple[str, ...] = (), **body: Any
) -> ActionResult:
    """Have a command about a run executed; refused if no process executes the run."""
    site = site_of(request)
    run = await site.reader.short(site.reader.run, request.match_info["run"])
    if run.status not in (*UNDER_WAY, Status.waiting):
        raise Invalid(f"run {run.id[:12]} has ended: {run.status}")
    sent = Command(command, run.id, who(), tasks=tasks, body=body)
    await site.reader.act(deliver, separate_session(site), sent)
    return ActionResult(f"{said} {run.id[:12]}")


async def adjust(request: web.Request, body: AdjustRequest) -> ActionResult:
    """Change how many trials a run executes at once."""
    if problem := parallel_problem(body.parallel):
        raise Invalid(problem)
    said = f"{body.parallel} trials at once from now on, in run"
    return await _deliver(request, ADJUST, said, parallel=body.parallel)


async def cancel_trial(request: web.Request, body: EmptyBody) -> ActionResult:
    """Cancel one trial of a run under way, in whatever state it is."""
    site = site_of(request)
    run = await site.reader.short(site.reader.run, request.match_info["run"])
    planned = await site.reader.short(site.reader.planned, run.id)
    number = await site.reader.short(place_of, planned, request.match_info["trial"])
    id = planned.layout.trial_id(planned.layout.place(number))
    return await _deliver(request, CANCEL, f"trial {id[:12]} is cancelled, in run", (id,))


async def answer(request: web.Request, body: AnswerRequest) -> ActionResult:
    """Answer a question: with a value, with one of its options (by number, from 0), or with a text."""
    site, key = site_of(request), request.match_info["key"]
    session, by = separate_session(site), body.by or who()

    def close() -> AnswerOutcome:
        asked = inbox.question(key, session)
        value = body.value
        if body.option is not None:
            if not 0 <= body.option < len(asked.question.options):
                raise Invalid(f"option: there are {len(asked.question.options)}, from 0")
            value = asked.question.options[body.option]
        elif value is msgspec.UNSET:
            value = read_answer(body.text, asked.question)
        return inbox.answer(asked.key, value, session, by=by, took=body.took)

    return _closed(await site.reader.act(close), "answered")


async def skip(request: web.Request, body: SkipRequest) -> ActionResult:
    """Leave a question without an answer."""
    site = site_of(request)
    args = (request.match_info["key"], separate_session(site))
    return _closed(await site.reader.act(inbox.skip, *args, by=body.by or who()), "skipped")


def _closed(outcome: AnswerOutcome, verb: str) -> ActionResult:
    row = outcome.question.row
    if not outcome.taken:
        return ActionResult(f"{row.by or 'its run'} was first: the question is {row.how} already", False)
    return ActionResult(f"{verb}: {outcome.question.question.prompt[:80]}")


def _settle(how: str, said: str) -> Any:
    async def settle(request: web.Request, body: EmptyBody) -> ActionResult:
        site, key = site_of(request), request.match_info["key"]
        found = await site.reader.act(app.settle, how, (key,), by=who(), store=separate_session(site))
        return ActionResult(f"{said}; the next run asks it again", bool(found.calls))

    settle.__doc__ = {
        "discard": "Discard a bad answer: the next run asks it again, and does what used it again.",
        "resend": "Let a call in doubt be sent again by the next run.",
    }[how]
    return settle


ROUTES = [
    ApiRoute("POST", "/plan", "plan_study", plan, StudyPreview, body=StudyChoice),
    ApiRoute("POST", "/runs", "start_run", start, StartedRun, body=StartRequest, status=201),
    ApiRoute("POST", "/runs/{run}/again", "run_again", again, StartedRun, body=EmptyBody, status=201),
    ApiRoute("POST", "/runs/{run}/cancel", "cancel_run", cancel, ActionResult, body=EmptyBody),
    ApiRoute(
        "POST", "/runs/{run}/pause", "pause_run", _command(PAUSE, "paused: run"), ActionResult, body=EmptyBody
    ),
    ApiRoute(
        "POST",
        "/runs/{run}/resume",
        "resume_run",
        _command(RESUME, "resumed: run"),
        ActionResult,
        body=EmptyBody,
    ),
    ApiRoute("POST", "/runs/{run}/parallel", "adjust_run", adjust, ActionResult, body=AdjustRequest),
    ApiRoute(
        "POST",
        "/runs/{run}/trials/{trial}/cancel",
        "cancel_trial",
        cancel_trial,
        ActionResult,
        body=EmptyBody,
    ),
    ApiRoute("POST", "/inbox/{key}/answer", "answer_question", answer, ActionResult, body=AnswerRequest),
    ApiRoute("POST", "/inbox/{key}/skip", "skip_question", skip, ActionResult, body=SkipRequest),
    ApiRoute("POST", "/runs/{run}/score", "score_run", score, ActionResult, body=ScoreRequest),
    ApiRoute(
        "POST",
        "/calls/{key}/discard",
        "discard_answer",
        _settle("discard", "the answer is discarded"),
        ActionResult,
        body=EmptyBody,
    ),
    ApiRoute(
        "POST",
        "/calls/{key}/resend",
        "resend_call",
        _settle("resend", "the call may be sent again"),
        ActionResult,
        body=EmptyBody,
    ),
]
"""Everything that changes something."""
