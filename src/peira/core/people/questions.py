"""Questions to people: `ask_person`, what a question is, and which answers are possible.

A question is recorded, and its task waits without a worker until somebody has answered; then the attempt is
made again, with everything before the question replayed, and `ask_person` returns the answer.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import msgspec

from peira.core.chat.schemas import schema_of, schema_problems
from peira.core.clock import seconds
from peira.core.context import current_channel
from peira.core.ids import Json, canonical, compose, digest, normalise
from peira.core.registry import nearest
from peira.errors import Invalid, Unanswered

IS_RIGHT = "Is the output right?"
"""What people who judge are asked unless something else is said."""
DEADLINE = "deadline"
"""Who "answers" a question that nobody answered in time, with the value of `otherwise`."""
ABSENT: Any = object()
"""The default of `otherwise`: there is no such value."""


class PersonQuestion(msgspec.Struct, frozen=True, omit_defaults=True):
    """A question to people, as it is recorded.

    `show` is what they are shown with it; an answer is one of `options` or matches `schema`; without both it
    is a text. `to` says who should answer, `within` how many seconds it stays open (0: for ever); `otherwise`
    has at most one value, which is the answer if nobody gives one. `key` is the name that the asking code
    gave it. `trial`, `case` and `evaluator` say what it is about; `rater` of `raters` people is asked, and
    `beside` are the keys of what the others are asked about the same.
    """

    prompt: str
    show: Json = None
    options: tuple[Any, ...] = ()
    to: str = ""
    within: float = 0.0
    otherwise: tuple[Any, ...] = ()
    key: str = ""
    schema: dict[str, Any] | None = None
    trial: str = ""
    case: str = ""
    evaluator: str = ""
    rater: int = 0
    raters: int = 0
    beside: tuple[str, ...] = ()

    def identity(self, scope: str, stage: str, ordinal: int) -> str:
        """The key of its answer: where it was asked, in which words, and its ordinal among equal ones.

        A name given by the asking code stands for words and ordinal.
        """
        possible: list[Json] = [list(self.options), self.schema]
        if self.key:
            return compose("question", scope, stage, "named", digest([self.key, *possible, self.rater]))
        return compose("question", scope, stage, digest(self.words), ordinal)

    @property
    def words(self) -> list[Json]:
        """What makes two questions equal."""
        return [self.prompt, self.show, list(self.options), self.schema, self.rater]


class PersonAnswer(msgspec.Struct, frozen=True, omit_defaults=True):
    """How a question was closed: `answered` with this value, `expired` or `skipped`.

    `by` is who did it, `at` when, `took` how long a person looked at it (-1: unknown).
    """

    how: str
    value: Json = None
    by: str = ""
    at: float = 0.0
    took: float = -1.0


def ask_person(
    prompt: str,
    *,
    show: Json = None,
    options: Sequence[Json] | None = None,
    to: str = "",
    within: float | str | None = None,
    otherwise: Json = ABSENT,
    key: str | None = None,
    schema: Any = None,
) -> Json:
    """Ask people, and return the answer once there is one; in agents and evaluators, plain or async.

    The trial waits without a worker meanwhile, over any number of restarts: the attempt ends here, and is
    made again when somebody has answered (`peira inbox`), with recorded steps and calls replayed. Catch no
    BaseException around it. The answer is one of `options`, matches `schema` (a JSON schema, or a pydantic
    model), or is a text. After `within` (seconds, "2d") the answer is `otherwise`; without it, and if the
    question is skipped, Unanswered is raised. Equal questions of one trial are told apart by their order, or
    by `key`; an answered question is not asked again when the code of the agent has changed.
    """
    question = question_of(
        prompt, show=show, options=options, to=to, within=within, otherwise=otherwise, key=key, schema=schema
    )
    [answer] = current_channel().consult([question])
    return value_of(answer, question)


def value_of(answer: PersonAnswer, question: PersonQuestion) -> Json:
    """The value of an answer; that of `otherwise` if there is none; else raises Unanswered."""
    if answer.how == "answered":
        return answer.value
    if question.otherwise:
        return question.otherwise[0]
    why = "its deadline passed" if answer.how == "expired" else f"{answer.by or 'somebody'} skipped it"
    raise Unanswered(f"nobody answered {question.prompt!r}: {why}")


def question_of(
    prompt: str,
    *,
    show: Json = None,
    options: Sequence[Json] | None = None,
    to: str = "",
    within: float | str | None = None,
    otherwise: Json = ABSENT,
    key: str | None = None,
    schema: Any = None,
    rater: int = 0,
    raters: int = 0,
) -> PersonQuestion:
    """A question from what the user wrote; Invalid with everything that is wrong with it."""
    problems = []
    given: dict[str, Any] = {"prompt": prompt, "to": to, "key": key or ""}
    for name, text in given.items():
        if not isinstance(text, str) or (name == "prompt" and not text.strip()):
            problems.append(f"{name}: must be text, not {text!r}")
    if options is not None and (isinstance(options, str) or not options):
        problems.append(f"options: must be a list of possible answers, not {options!r}")
    if options is not None and schema is not None:
        problems.append("schema: an answer is one of options, or matches a schema, not both")
    if problems:
        raise Invalid(f"ask_person: {problem}" for problem in problems)
    question = PersonQuestion(
        prompt=str(normalise(prompt, "prompt")),
        show=normalise(show, "show"),
        options=tuple(normalise(list(options), "options")) if options is not None else (),
        to=str(normalise(to, "to")),
        within=_positive(seconds(within)) if within is not None else 0.0,
        otherwise=() if otherwise is ABSENT else (normalise(otherwise, "otherwise"),),
        key=str(normalise(key, "key")) if key else "",
        schema=schema_of(schema),
        rater=rater,
        raters=raters,
    )
    if len({canonical(option) for option in question.options}) < len(question.options):
        raise Invalid("ask_person: options: one of them is given twice")
    if question.otherwise and (problem := answer_problem(question.otherwise[0], question)):
        raise Invalid(f"ask_person: otherwise: {problem}")
    return question


def _positive(value: float) -> float:
    if value <= 0:
        raise Invalid(f"ask_person: within: must be more than 0, not {value:g}")
    return value


def answer_problem(value: Json, question: PersonQuestion) -> str:
    """Why a value is no possible answer to a question, in one line; "" if it is one."""
    if question.options:
        if canonical(value) in {canonical(option) for option in question.options}:
            return ""
        known = [_shown(option) for option in question.options]
        hint = nearest(value, known) if isinstance(value, str) else ""
        hint = hint if "did you mean" in hint else ""
        return f"{_shown(value)} is none of {', '.join(known)}{hint}"
    if question.schema is not None:
        return "; ".join(schema_problems(value, question.schema))
    return "" if isinstance(value, str) else f"must be text, not {_shown(value)}"


def _shown(value: Json) -> str:
    """A value as people write it: text as it is, anything else as JSON."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def read_answer(text: str, question: PersonQuestion) -> Json:
    """The answer that a person wrote: as text if that is possible, else as JSON; Invalid if neither is."""
    problem = answer_problem(text, question)
    if not problem:
        return text
    try:
        value = normalise(json.loads(text), "answer")
    except (ValueError, RecursionError):
        raise Invalid(f"not a possible answer: {problem}") from None
    if problem := answer_problem(value, question):
        raise Invalid(f"not a possible answer: {problem}")
    return value
