"""The inbox: open questions to people, answered one after another by keyboard."""

from __future__ import annotations

from typing import Any

import msgspec

from peira.analysis.judges.raters import rater_agreement
from peira.app.inbox import inbox as open_questions
from peira.engine.inbox import AskedQuestion, rated_before
from peira.errors import Unknown
from peira.evaluators.people import WINS
from peira.web.pages.page import Page, PageRequest
from peira.web.rest.documents import QuestionDocument, QuestionList
from peira.web.rest.routes import read_query
from peira.web.site import Site

MOST = 100
"""Open questions that the page lists beside the one that is shown."""
MOST_RATED = 20_000
"""Trials of a run whose raters are compared on the page."""


class InboxQuery(msgspec.Struct, frozen=True):
    """Which questions: of a run (its id), or to these people; `key` is the one to show first.

    `me` is who answers: what this person has rated already is left out.
    """

    run: str = ""
    to: str = ""
    key: str = ""
    me: str = ""


async def questions(site: Site, query: InboxQuery) -> QuestionList:
    """The open questions, oldest first."""
    found, _ = await _open(site, query)
    return QuestionList([question_document(one) for one in found])


async def _open(site: Site, query: InboxQuery) -> tuple[list[AskedQuestion], int]:
    """The open questions that this person may answer, and the number of those that they may not."""

    def read() -> tuple[list[AskedQuestion], int]:
        run = site.reader.run(query.run).id if query.run else ""
        found = open_questions(site.reader.session, run, query.to)
        if not query.me:
            return found, 0
        store = site.reader.store
        mine = [one for one in found if not rated_before(store, one, query.me)]
        return mine, len(found) - len(mine)

    return await site.reader.short(read) if site.reader.open() else ([], 0)


def question_document(asked: AskedQuestion) -> QuestionDocument:
    """An open question as the interface shows it."""
    it = asked.question
    return QuestionDocument(
        key=asked.key,
        run=asked.run,
        trial=it.trial or asked.task,
        case=it.case,
        prompt=it.prompt,
        options=list(it.options) or None,
        to=it.to,
        since=asked.row.since,
        due=asked.row.due or None,
        show=it.show,
        schema=it.schema,
        evaluator=it.evaluator or None,
        rater=it.rater or None,
        raters=it.raters or None,
    )


async def inbox(asked: PageRequest) -> Page:
    """The oldest open question, ready to be answered, and those after it."""
    query = read_query(asked.request, InboxQuery)
    mine, rated = await _open(asked.site, query)
    found = QuestionList([question_document(one) for one in mine])
    chosen = [one for one in found.questions if query.key and one.key.startswith(query.key)]
    first = next(iter(chosen or found.questions), None)
    pair, parts = _shown(first)
    more = {
        "first": first,
        "pair": pair,
        "parts_shown": parts,
        "rated": rated,
        "rest": [one for one in found.questions if first is None or one.key != first.key][:MOST],
        "query": msgspec.structs.asdict(query) | {"key": ""},
        "people": sorted({one.to for one in found.questions if one.to}),
    }
    about = "What agents and evaluators ask people. Each answer is recorded once, and its trial goes on."
    return Page("inbox.html.j2", "Inbox", about, found, more, tab="inbox")


def _shown(question: QuestionDocument | None) -> tuple[tuple[Any, Any] | None, dict[str, Any]]:
    """What is shown with a question: the two answers to choose from, if there are, and everything else."""
    shown: Any = None if question is None else question.show
    if question is None or shown is None:
        return None, {}
    if not isinstance(shown, dict):
        return None, {"": shown}
    if question.options == list(WINS) and {"first", "second"} <= set(shown):
        rest = {name: value for name, value in shown.items() if name not in ("first", "second")}
        return (shown["first"], shown["second"]), rest
    return None, dict(shown)


class AgreementQuery(msgspec.Struct, frozen=True):
    """Whose agreement: the raters of this score in this run."""

    run: str
    score: str


async def agreement(asked: PageRequest) -> Page:
    """How far raters agree about what they all rated."""
    query, reader = read_query(asked.request, AgreementQuery), asked.site.reader

    def read() -> dict[str, Any] | None:
        run = reader.run(query.run)
        if run.trials > MOST_RATED:
            return None
        try:
            found = rater_agreement(list(reader.results(run.id)), query.score)
        except Unknown:
            return None
        return found.document() if found.rated else None

    about = "How far raters agree about what they all rated."
    return Page("agreement.html.j2", "Agreement", about, await reader.long(read), tab="inbox")
