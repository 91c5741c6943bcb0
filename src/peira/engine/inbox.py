"""The inbox of a store: its open questions to people, and the ops that ask and close questions.

Questions are rows beside steps and calls; a task that waits names those it waits for. So the open questions
of a store are found through its waiting tasks (`Catalogue.waiting`), whatever else is in it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Protocol

import msgspec

from peira.core.contracts import AskingWork, Attempt, Op, Store
from peira.core.ids import canonical
from peira.core.log.events import (
    NOTHING,
    TERMINAL,
    AnyEvent,
    QuestionAnswered,
    QuestionAsked,
    QuestionClosed,
    Result,
    State,
    TaskFinished,
    TaskWaiting,
)
from peira.core.log.rows import ASKED, CLOSED, QUESTION, Call, QuestionRow, Task, question_row
from peira.core.people.questions import DEADLINE, PersonAnswer, PersonQuestion, answer_problem
from peira.core.text.secrets import value_without_keys
from peira.engine.journal import payload
from peira.errors import Invalid, Unknown

CHUNK = 500
_value = msgspec.json.decode


class InboxStore(Store, Protocol):
    """A store that lists its waiting tasks."""

    def waiting(self) -> list[Task]: ...


class AskedQuestion(msgspec.Struct, frozen=True):
    """A question with its row: the key of its answer, the task and the run that asked it."""

    key: str
    task: str
    run: str
    question: PersonQuestion
    row: QuestionRow

    @property
    def open(self) -> bool:
        """Whether it can be answered: nobody has closed it."""
        return not self.row.how


def closed_answer(call: Call) -> PersonAnswer | None:
    """How a question was closed, from its row; None if it is open or void."""
    if call.state != CLOSED:
        return None
    row = question_row(call)
    if row.how == "void":
        return None
    value = _value(row.answer) if row.answer else None
    return PersonAnswer(row.how, value, row.by, row.at, row.took)


def open_questions(store: InboxStore, now: float) -> list[AskedQuestion]:
    """The open questions of a store, oldest first; those whose deadline has passed are not among them."""
    tasks = store.waiting()
    keys = list(dict.fromkeys(key for task in tasks for key in task.questions))
    found: list[AskedQuestion] = []
    for start in range(0, len(keys), CHUNK):
        calls = store.find("call", keys[start : start + CHUNK])
        open_calls = [call for call in calls.values() if call.state == ASKED]
        runs = store.find("task", list({call.task for call in open_calls}))
        found += [_asked(store, call, runs[call.task].run) for call in open_calls]
    return sorted((one for one in found if not is_due(one.row, now)), key=_place)


def _place(asked: AskedQuestion) -> tuple[bool, float]:
    """Where a question stands in the inbox: by age, and what raters are asked by chance, after the rest.

    The keys depend on the study's seed, so the order is the same whoever looks.
    """
    rated = bool(asked.question.rater)
    return rated, float(int(asked.key[:12], 16)) if rated else asked.row.since


def is_due(row: QuestionRow, now: float) -> bool:
    """Whether the deadline of a question has passed."""
    return bool(row.due) and row.due <= now


def find_question(store: Store, key: str) -> AskedQuestion:
    """The question of this key; Unknown if there is none."""
    call = store.find("call", [key]).get(key)
    if call is None or call.name != QUESTION:
        raise Unknown(f"there is no question {key!r}")
    task = store.find("task", [call.task]).get(call.task)
    return _asked(store, call, task.run if task else "")


def _asked(store: Store, call: Call, run: str) -> AskedQuestion:
    row = question_row(call)
    body = store.get(call.blob) if call.blob else bytes(row.question)
    return AskedQuestion(call.key, call.task, run, msgspec.json.decode(body, type=PersonQuestion), row)


def waiting_op(
    run: str,
    attempt: Attempt,
    questions: Mapping[str, tuple[PersonQuestion, bool]],
    awaits: Sequence[str],
    now: float,
    inline: int,
) -> Op:
    """The op that asks the questions that are new, and makes the task wait: one commit."""
    events: list[AnyEvent] = []
    blobs: tuple[bytes, ...] = ()
    work = attempt.work
    about: dict[str, Any] = {}
    if isinstance(work, AskingWork):
        context = work.question_context()
        about = {"trial": context.trial, "case": context.case, "evaluator": context.evaluator}
    rated = [key for key, (question, _) in questions.items() if question.rater]
    for key, (question, new) in questions.items():
        if new:
            beside = tuple(one for one in rated if one != key) if question.rater else ()
            named = msgspec.structs.replace(question, **about, beside=beside)
            body = canonical(value_without_keys(msgspec.to_builtins(named)))
            value, blob, more = payload(body, inline)
            due = now + question.within if question.within else 0.0
            events.append(QuestionAsked(*attempt.key, key, now, value if value else NOTHING, blob, due))
            blobs += more
    events.append(TaskWaiting(*attempt.key, tuple(questions), tuple(awaits)))
    return Op(run, tuple(events), blobs)


def rated_before(store: Store, asked: AskedQuestion, by: str) -> bool:
    """Whether this person has rated the same for another rater's place."""
    calls = store.find("call", list(asked.question.beside)) if asked.question.beside else {}
    closed = [question_row(call) for call in calls.values() if call.state == CLOSED]
    return any(row.how == "answered" and row.by == by for row in closed)


def answering(
    asked: AskedQuestion, value: Any, now: float, by: str, id: str = "", took: float = -1.0
) -> AnyEvent:
    """The event that answers a question; Invalid if the value is no possible answer."""
    if problem := answer_problem(value, asked.question):
        raise Invalid(f"not a possible answer: {problem}")
    return QuestionAnswered(asked.task, asked.key, msgspec.Raw(canonical(value)), now, by, id, took)


def closing(asked: AskedQuestion, how: str, now: float, by: str = "", id: str = "") -> AnyEvent:
    """The event that closes a question without an answer of a person.

    One that is `expired` or `skipped` and has a value for that case is answered with it.
    """
    if how != "void" and asked.question.otherwise:
        value = msgspec.Raw(canonical(asked.question.otherwise[0]))
        return QuestionAnswered(asked.task, asked.key, value, now, by, id)
    return QuestionClosed(asked.task, asked.key, how, now, by, id)


def cancelling_op(store: Store, run: str, row: Task, result: Result, now: float) -> Op:
    """The op that ends a waiting task as cancelled; its open questions are void."""
    calls = store.find("call", list(row.questions))
    mine = [call for call in calls.values() if call.state == ASKED and call.task == row.id]
    void = (QuestionClosed(row.id, call.key, "void", now) for call in mine)
    return Op(run, (TaskFinished(row.id, row.epoch, State.cancelled, result), *void))


def expiring(asked: AskedQuestion) -> AnyEvent:
    """The event that closes a question whose deadline has passed: at that time, whenever it is noticed."""
    return closing(asked, "expired", asked.row.due, DEADLINE)


def open_waits(store: Store, rows: Iterable[Task]) -> dict[str, frozenset[str]]:
    """What each of these waiting tasks still waits for; nothing, if a question of it is another's now."""
    waiting = list(rows)
    keys = list({key for row in waiting for key in row.questions})
    tasks = list({task for row in waiting for task in row.awaits})
    calls = store.find("call", keys) if keys else {}
    awaited = store.find("task", tasks) if tasks else {}
    return {row.id: _open(row, calls, awaited) for row in waiting}


def _open(row: Task, calls: Mapping[str, Call], awaited: Mapping[str, Task]) -> frozenset[str]:
    asked = {key for key in row.questions if key in calls and calls[key].state == ASKED}
    if any(calls[key].task != row.id for key in asked):
        return frozenset()
    tasks = {task for task in row.awaits if task not in awaited or awaited[task].state not in TERMINAL}
    return frozenset(asked | tasks)
