"""`pairwise`: a model says which of two answers is better, asked in both orders.

LLM judges have a position bias: many prefer the answer they read first. So each pair is shown in both orders;
only a verdict that both orders agree on is a win, and a disagreement is a tie that is marked as inconsistent.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from peira.core.ids import Json
from peira.core.transforms import NoAnswer
from peira.core.verdicts import REASON, VALUE, NoVerdict
from peira.errors import Invalid
from peira.evaluators.comparison import Score, text_of
from peira.evaluators.judges.prompts import PromptedModel, asking, kept, label_of
from peira.evaluators.judges.rubric import closed

VERSION = 1
EXPECTED = "expected"
BETTER = "Which does better what the question asks: right, complete, and to the point."
KNOWN = ("question", "first", "second", "criteria", "ties")
PROMPT = """\
Two answers were given to this question.

{{ question }}

The first answer:

{{ first }}

The second answer:

{{ second }}

Which of them is better? {{ criteria }}
The order in which they stand here is chance, and means nothing.
Give the reason first, in a sentence or two, and then your verdict: "first" or "second"
{%- if ties %}, or "tie" if neither is better{% endif %}."""

WINS = {"first": 1.0, "tie": 0.5, "second": 0.0}


@dataclass(frozen=True)
class Choice:
    """How far the one was preferred to the other (1, 0.5 for a tie, 0), and the reason."""

    won: float
    reason: str


@dataclass(frozen=True)
class Preference:
    """A model that compares two answers."""

    asking: PromptedModel
    criteria: str
    ties: bool

    async def between(self, question: Json, one: Json, two: Json, swapped: bool) -> Choice | NoVerdict:
        """Whether it prefers `one` to `two`; `two` is shown first if `swapped`."""
        first, second = (two, one) if swapped else (one, two)
        texts = {"question": text_of(question), "first": text_of(first), "second": text_of(second)}
        said: list[Json] = ["first", "second", *(["tie"] if self.ties else [])]
        schema = closed({REASON: {"type": "string"}, "better": {"type": "string", "enum": said}})
        reply = await self.asking.reply(texts, {"criteria": self.criteria, "ties": self.ties}, schema)
        if isinstance(reply, NoVerdict):
            return reply
        won = WINS[reply["better"]]
        return Choice(1 - won if swapped else won, reply[REASON])


def preference(
    who: str,
    model: Any,
    criteria: Any = None,
    ties: bool = True,
    prompt: str | None = None,
    system: str | None = None,
    repairs: int = 2,
    parameters: Mapping[str, Any] | None = None,
) -> Preference:
    """Create a `Preference`; raises `Invalid` with every problem."""
    asked = asking(who, model, PROMPT if prompt is None else prompt, system, repairs, parameters, KNOWN)
    text = BETTER if criteria is None else criteria
    if not isinstance(text, str) or not text.strip():
        raise Invalid(f"{who}: criteria={criteria!r} is not a text that says what makes an answer better")
    return Preference(asked, text, bool(ties))


@dataclass(frozen=True, repr=False)
class Pairwise:
    """Whether an output is better than a given answer.

    The score is {"value": 1, 0.5 or 0, "verdict": win, tie or loss, "consistent", "first" and "second": the
    same number by the position of the output, "longer": whether it is the longer one, and the reasons}. A
    missing answer loses without a model call.
    """

    prefers: Preference
    against: str
    label: str | None
    config: Mapping[str, Json]
    asynchronous: ClassVar[bool] = True

    @property
    def name(self) -> str:
        """The label, or "pairwise"."""
        return self.label or "pairwise"

    @property
    def models(self) -> tuple[str, ...]:
        """The model, once for each of the two orders."""
        return (self.prefers.asking.model,) * 2

    @property
    def takes(self) -> frozenset[str]:
        """The arguments it is called with."""
        return frozenset({"output", "case", *([EXPECTED] if self.against == EXPECTED else [])})

    @property
    def identity(self) -> Json:
        """Model, prompts, criteria, options and version."""
        prefers = self.prefers
        return {
            "evaluator": "pairwise",
            "asking": prefers.asking.identity,
            "criteria": prefers.criteria,
            "config": dict(self.config),
            "version": VERSION,
        }

    async def judge(self, facts: Mapping[str, Any]) -> Score | NoVerdict:
        """The score of an output, or `NoVerdict` if no reply fits the schema."""
        case, output, rival = facts["case"], facts["output"], self._rival(facts)
        if isinstance(output, NoAnswer):
            return _score(Choice(0.0, str(output)), Choice(0.0, str(output)), False)
        orders = [self.prefers.between(case.input, output, rival, swapped) for swapped in (False, True)]
        first, second = await asyncio.gather(*orders)
        if isinstance(first, NoVerdict):
            return first
        longer = len(text_of(output)) > len(text_of(rival))
        return second if isinstance(second, NoVerdict) else _score(first, second, longer)

    def _rival(self, facts: Mapping[str, Any]) -> Json:
        """The answer to compare with; raises `Invalid` if the case has none."""
        own = self.against == EXPECTED
        found = facts[EXPECTED] if own else facts["case"].metadata.get(self.against)
        if found is None:
            where = EXPECTED if own else f"metadata.{self.against}"
            raise Invalid(f"{self.name} needs an answer to compare with; this case has none in {where}")
        return found

    def __repr__(self) -> str:
        return f"pairwise({', '.join(f'{key}={value!r}' for key, value in self.config.items())})"


def _score(first: Choice, second: Choice, longer: bool) -> dict[str, Any]:
    """The combined score of the two orders: their common verdict, else a tie."""
    value = first.won if first.won == second.won else 0.5
    return {
        VALUE: value,
        "verdict": {1.0: "win", 0.5: "tie", 0.0: "loss"}[value],
        "consistent": first.won == second.won,
        "first": first.won,
        "second": second.won,
        "longer": longer,
        f"first.{REASON}": first.reason,
        f"second.{REASON}": second.reason,
    }


def pairwise(
    model: str,
    criteria: str | None = None,
    *,
    against: str = EXPECTED,
    ties: bool = True,
    prompt: str | None = None,
    system: str | None = None,
    repairs: int = 2,
    parameters: Mapping[str, Any] | None = None,
    label: str | None = None,
) -> Pairwise:
    """A model that says whether an output is better than a given answer, asked in both orders.

    The given answer is the expected value, or the metadata field that `against` names. `criteria` says what
    makes an answer better; without `ties` the judge must choose, and only inconsistent verdicts are ties.
    `prompt` is a template of question, first, second, criteria and ties.
    """
    label_of("pairwise", against, "against")
    prefers = preference("pairwise", model, criteria, ties, prompt, system, repairs, parameters)
    config = {
        "model": model,
        "criteria": criteria,
        "against": None if against == EXPECTED else against,
        "prompt": prompt,
        "system": system,
        "repairs": None if repairs == 2 else repairs,
        "parameters": dict(prefers.asking.parameters),
        "label": label_of("pairwise", label),
    }
    options = {**kept(config), **({} if ties else {"ties": False})}
    return Pairwise(prefers, against, label, options)
