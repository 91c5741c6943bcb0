"""`judge`: a model grades an output by a rubric, with or without a reference."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from peira.core.context import SeenCase
from peira.core.ids import Json
from peira.core.transforms import NoAnswer
from peira.core.verdicts import RAW, REASON, VALUE, NoVerdict
from peira.errors import Invalid
from peira.evaluators.comparison import Score, text_of
from peira.evaluators.judges.prompts import PromptedModel, asking, kept, label_of
from peira.evaluators.judges.rubric import ONLY, Criterion, closed, criteria_of, grades_of, written

VERSION = 1
"""Incremented when replies are interpreted differently, so that scores are computed again."""

SCALE = 5
GOOD = "How well the answer does what the question asks: right, complete, and to the point."
RIGHT = "Whether the answer says the same as the reference, in whatever words."
KNOWN = ("question", "answer", "reference", "criteria", "case")
PROMPT = """\
Judge the answer to this question.

{{ question }}

{% if reference -%}
This reference is right. Other words for the same are as good.

{{ reference }}

{% endif -%}
The answer to be judged:

{{ answer }}

Criteria, each with its grades:
{% for one in criteria %}
- {{ one.name }}: {{ one.description }}
  Grades: {{ one.grades }}
{%- endfor %}

For each, give the reason first, in a sentence or two, and then the grade that follows from it."""


@dataclass(frozen=True, repr=False)
class Judge:
    """A model that grades an output; its model, prompts, criteria and options are its identity.

    The score is {"value": from 0 to 1, "raw": the grade, "reason"}; with several criteria "value" is their
    weighted mean, next to NAME, NAME.raw and NAME.reason of each. A missing answer gets the worst grades
    without a model call.
    """

    asking: PromptedModel
    criteria: tuple[Criterion, ...]
    """The criteria of all cases; empty if every case has its own."""
    reference: bool
    """Whether the expected value is shown to the judge."""
    rubric: str | None
    """The metadata field with a case's own criteria."""
    label: str | None
    config: Mapping[str, Json]
    """The options in the form of a study file."""
    asynchronous: ClassVar[bool] = True

    @property
    def name(self) -> str:
        """The label, or "judge"."""
        return self.label or "judge"

    @property
    def models(self) -> tuple[str, ...]:
        """The model it calls."""
        return (self.asking.model,)

    @property
    def takes(self) -> frozenset[str]:
        """The arguments it is called with."""
        return frozenset({"output", "case", *(["expected"] if self.reference else [])})

    @property
    def identity(self) -> Json:
        """Model, prompts, criteria, options and version."""
        return {
            "evaluator": "judge",
            "asking": self.asking.identity,
            "criteria": [one.written() for one in self.criteria],
            "config": dict(self.config),
            "version": VERSION,
        }

    async def judge(self, facts: Mapping[str, Any]) -> Score | NoVerdict:
        """The score of an output, or `NoVerdict` if no reply fits the schema."""
        case, output = facts["case"], facts["output"]
        criteria = self._criteria(case)
        if isinstance(output, NoAnswer):
            return _score(criteria, {one.name: {ONLY: one.worst, REASON: str(output)} for one in criteria})
        texts = {"question": text_of(case.input), "answer": text_of(output), "reference": self._right(facts)}
        seen = {"input": case.input, "id": case.id, "slice": case.slice, "metadata": case.metadata}
        more: dict[str, Json] = {"criteria": [one.shown() for one in criteria], "case": seen}
        reply = await self.asking.reply(texts, more, _schema(criteria))
        if isinstance(reply, NoVerdict):
            return reply
        return _score(criteria, reply if len(criteria) > 1 else {criteria[0].name: reply})

    def _criteria(self, case: SeenCase) -> tuple[Criterion, ...]:
        """The criteria of the case, if it has its own, else those of the judge."""
        own = case.metadata.get(self.rubric) if self.rubric else None
        if own is None and not self.criteria:
            raise Invalid(f"{self.name}: this case has no {self.rubric!r} in its metadata to be judged by")
        if own is None:
            return self.criteria
        return criteria_of(own, self.config.get("scale", SCALE), f"{self.name}: metadata.{self.rubric}")

    def _right(self, facts: Mapping[str, Any]) -> str:
        """The reference text; "" if it is not shown."""
        if not self.reference:
            return ""
        if facts["expected"] is None:
            raise Invalid(f"{self.name} needs an expected value; this case has none")
        return text_of(facts["expected"])

    def __repr__(self) -> str:
        return f"judge({', '.join(f'{key}={value!r}' for key, value in self.config.items())})"


def judge(
    model: str,
    criteria: str | Sequence[Any] | Mapping[str, Any] | None = None,
    *,
    scale: Any = SCALE,
    reference: bool = False,
    rubric: str | None = None,
    prompt: str | None = None,
    system: str | None = None,
    repairs: int = 2,
    parameters: Mapping[str, Any] | None = None,
    label: str | None = None,
) -> Judge:
    """A model that grades outputs: `judge("openai:gpt-5-mini", "Is it polite?", scale="yes/no")`.

    `criteria` is one text, or several by name, each a description or a table of description, scale and
    weight. `reference` includes the expected value in the prompt. `rubric` names a metadata field with the
    case's own criteria. `prompt` is a template of question, answer, reference, criteria and case;
    `parameters` are passed to the model. A reply that does not fit the schema is requested again `repairs`
    times, and is then no verdict.
    """
    asked = asking("judge", model, PROMPT if prompt is None else prompt, system, repairs, parameters, KNOWN)
    default = None if rubric is not None else RIGHT if reference else GOOD
    meant = default if criteria is None else criteria
    found = () if meant is None else criteria_of(meant, scale, "judge: criteria")
    config = {
        "model": model,
        "criteria": None if criteria is None else [one.written() for one in found],
        "scale": None if scale == SCALE else written(grades_of(scale, "judge")),
        "reference": bool(reference),
        "rubric": label_of("judge", rubric, "rubric"),
        "prompt": prompt,
        "system": system,
        "repairs": None if repairs == 2 else repairs,
        "parameters": dict(asked.parameters),
        "label": label_of("judge", label),
    }
    return Judge(asked, found, bool(reference), rubric, label, kept(config))


def _schema(criteria: Sequence[Criterion]) -> Json:
    """The JSON schema of a reply for these criteria."""
    if len(criteria) == 1:
        return criteria[0].schema
    return closed({one.name: one.schema for one in criteria})


def _score(criteria: Sequence[Criterion], replies: Mapping[str, Json]) -> dict[str, Any]:
    """The score of a reply that fits its schema."""
    grades = {one.name: replies[one.name][ONLY] for one in criteria}
    worths = {one.name: one.worth(grades[one.name]) for one in criteria}
    whole = sum(one.weight * worths[one.name] for one in criteria) / sum(one.weight for one in criteria)
    score: dict[str, Any] = {VALUE: min(1.0, whole)}
    if len(criteria) == 1:
        [name] = grades
        return {**score, RAW: grades[name], REASON: replies[name][REASON]}
    for name in grades:
        score |= {
            name: worths[name],
            f"{name}.{RAW}": grades[name],
            f"{name}.{REASON}": replies[name][REASON],
        }
    return score
