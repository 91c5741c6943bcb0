"""The inbox of a store: open questions to people, listed and answered from any process."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

from peira.app.control import deliver
from peira.app.session import Session, SessionLike
from peira.core.ids import resolve
from peira.core.log.rows import QUESTION, Call
from peira.core.people.questions import answer_problem, read_answer
from peira.engine.control import ANSWER, SKIP, Command, requester
from peira.engine.inbox import AskedQuestion, find_question, open_questions, rated_before
from peira.errors import Invalid, Unknown

LONG = 64
"""The number of digits of a whole key."""


@dataclass(frozen=True)
class AnswerOutcome:
    """The outcome of an answer: the question, and whether it was `taken` (else it was closed before)."""

    taken: bool
    question: AskedQuestion


def inbox(store: SessionLike = None, run: str = "", to: str = "") -> list[AskedQuestion]:
    """The open questions of a store, oldest first: all, those of a run (its id), or to these people."""
    with Session.find(store).reading() as opened:
        found = open_questions(opened, time.time())
    return [one for one in found if run in ("", one.run) and to in ("", one.question.to)]


def question(key: str, store: SessionLike = None) -> AskedQuestion:
    """A question, open or closed, by its key or the first digits of that; Unknown if there is none."""
    with Session.find(store).reading() as opened:
        if len(key) == LONG:
            return find_question(opened, key)
        keys = [one.key for one in open_questions(opened, time.time())]
        if not any(one.startswith(key) for one in keys):  # it may be closed: then all rows are looked at
            rows = (row for row in opened.rows() if isinstance(row, Call))
            keys = [row.key for row in rows if row.name == QUESTION]
        if not keys:
            raise Unknown(f"no question {key!r}: no person has been asked anything")
        return find_question(opened, resolve(key, keys, "question"))


def answer(
    key: str, value: Any, store: SessionLike = None, *, by: str = "", took: float = -1.0
) -> AnswerOutcome:
    """Answer a question; durable when this returns, and its trial goes on. The first answer is the only one.

    `took` is how long the person looked at it, in seconds. Raises Invalid if it is no possible answer.
    """
    session = Session.find(store)
    asked = question(key, session)
    if problem := answer_problem(value, asked.question):
        raise Invalid(f"not a possible answer: {problem}")
    return _close(session, asked, ANSWER, by, {"value": value, "took": took})


def answer_text(
    key: str, text: str, store: SessionLike = None, *, by: str = "", took: float = -1.0
) -> AnswerOutcome:
    """Answer a question with what a person typed: text where that is possible, or JSON."""
    session = Session.find(store)
    asked = question(key, session)
    return answer(asked.key, read_answer(text, asked.question), session, by=by, took=took)


def skip(key: str, store: SessionLike = None, *, by: str = "") -> AnswerOutcome:
    """Leave a question without an answer: it is closed with the value that it has for this, or none."""
    session = Session.find(store)
    return _close(session, question(key, session), SKIP, by, {})


def _close(
    session: Session, asked: AskedQuestion, command: str, by: str, body: dict[str, Any]
) -> AnswerOutcome:
    if not asked.open:
        return AnswerOutcome(False, asked)
    who = by or requester()
    with session.reading() as opened:
        if rated_before(opened, asked, who):
            raise Invalid(f"{who} has rated this already: it is for another person (--by says who answers)")
    sent = Command(command, "", who, body={"key": asked.key, **body})
    deliver(session, sent)
    closed = question(asked.key, session)
    if closed.open:
        raise Invalid(f"the answer of {who} was refused: it is not possible any more")
    return AnswerOutcome(closed.row.id == sent.id, closed)
