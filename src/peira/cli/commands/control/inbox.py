"""`peira inbox`: questions to people, listed and answered."""

from __future__ import annotations

import json
import shlex
import sys
import time
from enum import StrEnum
from typing import Annotated, Any

import typer

from peira.app.inbox import AnswerOutcome, answer_text, question, skip
from peira.app.inbox import inbox as open_questions
from peira.app.session import Session
from peira.app.store.view import Opened
from peira.cli import errors
from peira.cli.options import Json, Store
from peira.cli.output import CommandOutput, fitted, grid, moment, program
from peira.core.ids import short
from peira.core.text.words import counted, duration
from peira.engine.inbox import AskedQuestion
from peira.errors import Invalid


class InboxAction(StrEnum):
    """The actions of `peira inbox`."""

    list = "list"
    show = "show"
    answer = "answer"
    skip = "skip"


def inbox(
    action: Annotated[
        InboxAction,
        typer.Argument(metavar="[list|show|answer|skip]", help="What to do; without it, list."),
    ] = InboxAction.list,
    key: Annotated[str, typer.Argument(metavar="[KEY]", help="The question: first digits of its key.")] = "",
    value: Annotated[
        str | None, typer.Argument(metavar="[VALUE]", help="The answer; - reads it from standard input.")
    ] = None,
    run: Annotated[str, typer.Option("--run", metavar="RUN", help="Only questions of this run.")] = "",
    to: Annotated[str, typer.Option("--to", metavar="WHO", help="Only questions to these people.")] = "",
    by: Annotated[str, typer.Option("--by", metavar="NAME", help="Who answers; else the user's name.")] = "",
    took: Annotated[
        float, typer.Option("--took", metavar="SECONDS", help="How long you looked at it, if you know.")
    ] = -1.0,
    store: Store = None,
    as_json: Json = False,
) -> int:
    """List what people are asked, and answer it.

    Works beside a run that is under way, which goes on at once, and without one: then `peira run` goes on.
    The first answer is the only one. The exit code is 0 if the answer was taken, 1 if somebody was first, 2
    if it is not a possible answer. A question that is skipped is answered with the value that it has for this
    (otherwise=), or its trial fails.

    \b
    Examples:
      peira inbox
      peira inbox show 3f2a91
      peira inbox answer 3f2a91 send
      peira inbox answer 3f2a91 '{"score": 3}' --by ann
      peira inbox skip 3f2a91
    """
    out = CommandOutput(as_json)
    with Session.find(store) as session:
        if problems := _problems(action, key, value):
            raise Invalid(problems)
        if action is InboxAction.list:
            found = open_questions(session, Opened(session).run(run).id if run else "", to)
            out.document({"questions": list(map(_document, found))})
            out.text(_listing(found, store))
            return 0
        if action is InboxAction.show:
            asked = question(key, session)
            out.document(_whole_document(asked))
            out.text(_text(asked))
            return 0
        if action is InboxAction.skip:
            return _report(skip(key, session, by=by), "skipped", out)
        text = sys.stdin.read().removesuffix("\n") if value == "-" else value or ""
        return _report(answer_text(key, text, session, by=by, took=took), "answered", out)


def _problems(action: InboxAction, key: str, value: str | None) -> list[str]:
    """What is missing, or given in vain."""
    found = []
    if action is not InboxAction.list and not key:
        found.append(f"inbox {action}: which question? give the first digits of its key")
    if action is InboxAction.list and key:
        found.append(f"inbox list: takes no key; `{program()} inbox show {key}` shows one")
    if action is InboxAction.answer and key and value is None:
        found.append("inbox answer: what is the answer? give it after the key, or - for standard input")
    if action in (InboxAction.show, InboxAction.skip) and value is not None:
        found.append(f"inbox {action}: takes no value, and got {value!r}")
    return found


def _document(asked: AskedQuestion) -> dict[str, Any]:
    """An open question as plain values."""
    it = asked.question
    return {
        "key": asked.key,
        "run": asked.run,
        "trial": it.trial or asked.task,
        "case": it.case,
        "prompt": it.prompt,
        "options": list(it.options) or None,
        "to": it.to,
        "since": asked.row.since,
        "due": asked.row.due or None,
        "show": it.show,
        "schema": it.schema,
        "evaluator": it.evaluator or None,
        "rater": it.rater or None,
        "raters": it.raters or None,
    }


def _whole_document(asked: AskedQuestion) -> dict[str, Any]:
    """A question with how it was closed."""
    row = asked.row
    return {
        **_document(asked),
        "state": row.how or "open",
        "answer": json.loads(bytes(row.answer)) if row.answer else None,
        "by": row.by or None,
        "at": row.at or None,
        "took": row.took if row.took >= 0 else None,
    }


def _listing(found: list[AskedQuestion], store: str | None) -> str:
    """The open questions as a table, with the next command."""
    if not found:
        return "nobody is asked anything"
    rows = [
        [short(one.key), one.question.case, one.question.to or "-", _possible(one), one.question.prompt]
        for one in found
    ]
    where = f" --store {shlex.quote(store)}" if store else ""
    lines = [grid(["key", "case", "to", "answers", "question"], rows), ""]
    lines.append(f"{counted(len(found), 'question')}; {program()} inbox answer KEY VALUE{where}")
    return "\n".join(lines)


def _possible(asked: AskedQuestion) -> str:
    """The possible answers, in a few words."""
    if asked.question.options:
        return " | ".join(one if isinstance(one, str) else json.dumps(one) for one in asked.question.options)
    return "JSON" if asked.question.schema else "text"


def _text(asked: AskedQuestion) -> str:
    """A question as people read it."""
    it, row = asked.question, asked.row
    shown = it.show if isinstance(it.show, str) else json.dumps(it.show, indent=2, ensure_ascii=False)
    facts = {
        "key": asked.key,
        "run": short(asked.run),
        "trial": f"{short(it.trial or asked.task)}, case {it.case}" if it.case else short(asked.task),
        "judges": it.evaluator,
        "rater": f"{it.rater} of {it.raters}" if it.raters else "",
        "to": it.to,
        "since": moment(row.since),
        "until": moment(row.due) if row.due else "",
        "answers": _possible(asked),
        "state": f"{row.how} by {row.by}, {duration(time.time() - row.at)} ago" if row.how else "open",
        "answer": bytes(row.answer).decode() if row.answer else "",
    }
    head = "\n".join(f"{name:<8}{fact}" for name, fact in facts.items() if fact)
    parts = [head, it.prompt, shown if it.show is not None else ""]
    return "\n\n".join(part for part in parts if part)


def _report(outcome: AnswerOutcome, verb: str, out: CommandOutput) -> int:
    """Say what became of an answer; returns the exit code."""
    asked = outcome.question
    out.document({**_whole_document(asked), "taken": outcome.taken})
    if not outcome.taken:
        row = asked.row
        value = f": {bytes(row.answer).decode()}" if row.answer else ""
        said = f"question {short(asked.key)} is {row.how} already, by {row.by or 'its run'}{value}"
        return errors.say([fitted(said)], 1)
    out.text(f"{verb}: {asked.question.prompt}")
    return 0
