"""The inbox: open questions to people, answered one after another by keyboard."""

from __future__ import annotations

from typing import Any

import msgspec

from peira.app.inbox import inbox as open_questions
from peira.engine.inbox import AskedQuestion
from peira.web.documents import QuestionDocument, QuestionList
from peira.web.pages.page import Page, PageRequest
from peira.web.routes import read_query
from peira.web.site import Site

MOST = 100
"""Open questions that the page lists beside the one that is shown."""


class InboxQuery(msgspec.Struct, frozen=True):
    """Which questions: of a run (its id), or to these people; `key` is the one to show first."""

    run: str = ""
    to: str = ""
    key: str = ""


async def questions(site: Site, query: InboxQuery) -> QuestionList:
    """The open questions, oldest first."""

    def read() -> list[AskedQuestion]:
        run = site.reader.run(query.run).id if query.run else ""
        return open_questions(site.reader.session, run, query.to)

    found = await site.reader.short(read) if site.reader.open() else []
    return QuestionList([question_document(one) for one in found])


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
    found = await questions(asked.site, query)
    chosen = [one for one in found.questions if query.key and one.key.startswith(query.key)]
    first = next(iter(chosen or found.questions), None)
    shown: Any = first.show if first is not None else None
    more = {
        "first": first,
        "shown": shown,
        "rest": [one for one in found.questions if first is None or one.key != first.key][:MOST],
        "query": msgspec.structs.asdict(query),
        "people": sorted({one.to for one in found.questions if one.to}),
    }
    about = "What agents and evaluators ask people. Each answer is recorded once, and its trial goes on."
    return Page("inbox.html.j2", "Inbox", about, found, more, tab="inbox")
