"""Evaluators for benchmarks: `answer` and `instructions`.

`answer` applies another evaluator to the answer that a transform extracts; `instructions` checks whether a
reply follows instructions about its form (IFEval).
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from peira.core.contracts import Evaluator
from peira.core.ids import Json
from peira.core.registry import nearest
from peira.core.transforms import NoAnswer, Transform, as_transform
from peira.errors import Invalid
from peira.spec.plugins import as_evaluator

KIND = "answer"
"""The registry name of `answer`."""


@dataclass(frozen=True)
class AnswerEvaluator:
    """Scores the answer that a transform extracts; a missing answer is passed on as such."""

    transform: Transform
    evaluator: Evaluator
    label: str | None = None
    """The name of the score in results, if not "answer"."""

    @property
    def name(self) -> str:
        """The label, or "answer"."""
        return self.label or KIND

    @property
    def asynchronous(self) -> bool:
        """Whether the evaluator is."""
        return self.evaluator.asynchronous

    @property
    def takes(self) -> frozenset[str]:
        """The arguments of the evaluator."""
        return self.evaluator.takes

    @property
    def identity(self) -> Json:
        """The identities of both parts, with a `config` for files if both have one."""
        parts = {"transform": self.transform.identity, "evaluator": self.evaluator.identity}
        written = {role: _written(getattr(self, role)) for role in parts}
        labelled = {"label": self.label} if self.label else {}
        config = {} if None in written.values() else {"config": {**written, **labelled}}
        return {"evaluator": KIND, "parts": parts, **labelled, **config}

    def judge(self, facts: Mapping[str, Any]) -> Any:
        """The evaluator's score of the extracted answer."""
        return self.evaluator.judge({**facts, "output": self.transform.apply(facts["output"])})


def _written(part: Transform | Evaluator) -> Json:
    """The part in the form of a study file; None if it has no such form."""
    config = part.identity.get("config") if isinstance(part.identity, Mapping) else None
    return {"name": part.name, **config} if isinstance(config, Mapping) else None


def answer(transform: Any, evaluator: Any, label: str | None = None) -> AnswerEvaluator:
    """`answer("last_number", "numeric")`: the last number in the output is the expected one.

    So each score of a study can have a transform of its own, and a `label` to be told apart by. In files,
    `{name = "numeric", transform = "last_number"}` is the same, with the evaluator's name as label.
    """
    if label is not None and not str(label).strip():
        raise Invalid(f"answer: label={label!r} is not a name")
    judge = as_evaluator(evaluator)
    if "output" not in judge.takes:
        raise Invalid(f"answer: {judge.name} does not look at the output")
    return AnswerEvaluator(as_transform(transform), judge, label)


Arguments = Mapping[str, Any]
WORD = re.compile(r"\w+")
SENTENCE = re.compile(r"[^.!?\s][^.!?]*[.!?]+|[^.!?\s][^.!?]*$")
HIGHLIGHT = re.compile(r"\*\*[^\n*]+\*\*|\*[^\n*]+\*")
BULLET = re.compile(r"^\s*(?:\*(?!\*)|-)\s*\S", re.MULTILINE)
PLACEHOLDER = re.compile(r"\[[^\[\]]+\]")
TITLE = re.compile(r"<<[^\n<>]+>>")
CHOICES = ("My answer is yes.", "My answer is no.", "My answer is maybe.")


def _relation(count: int, arguments: Arguments, wanted: str, relation: str = "relation") -> bool:
    """Whether a count satisfies "at least" or "less than" the wanted number."""
    number = int(arguments[wanted])
    return count < number if arguments.get(relation, "at least") == "less than" else count >= number


def _keyword_count(text: str, keyword: str) -> int:
    return len(re.findall(re.escape(keyword), text, re.IGNORECASE))


def _lacks(text: str, a: Arguments) -> bool:
    return not any(re.search(rf"\b{re.escape(w)}\b", text, re.IGNORECASE) for w in a["forbidden_words"])


def _letters(text: str, a: Arguments) -> bool:
    return _relation(text.lower().count(a["letter"].lower()), a, "let_frequency", "let_relation")


def _paragraphs(text: str) -> list[str]:
    return [part for part in re.split(r"\s?\*\*\*\s?", text) if part.strip()]


def _nth_paragraph(text: str, a: Arguments) -> bool:
    parts = [part.strip() for part in re.split(r"\n\n", text) if part.strip()]
    if len(parts) != a["num_paragraphs"] or not 1 <= a["nth_paragraph"] <= len(parts):
        return False
    first: str = parts[int(a["nth_paragraph"]) - 1].split()[0].strip(".,?!'\"").lower()
    return first == str(a["first_word"]).lower()


def _capitals(text: str, a: Arguments) -> bool:
    words = [word for word in WORD.findall(text) if word.isupper()]
    return _relation(len(words), a, "capital_frequency", "capital_relation")


def _json(text: str, a: Arguments) -> bool:
    bare = re.sub(r"^```(?:json)?|```$", "", text.strip(), flags=re.IGNORECASE).strip()
    try:
        json.loads(bare)
    except ValueError:
        return False
    return True


def _sections(text: str, a: Arguments) -> bool:
    mark = re.escape(a["section_spliter"])
    return len(re.findall(rf"\s?{mark}\s?\d+\s?", text)) >= int(a["num_sections"])


def _two_answers(text: str, a: Arguments) -> bool:
    parts = [part.strip() for part in text.split("******")]
    said = [part for part in parts if part]
    inner_empty = any(not part for part in parts[1:-1])
    return not inner_empty and len(said) == 2 and said[0] != said[1]


def _repeats(text: str, a: Arguments) -> bool:
    return text.strip().lower().startswith(a["prompt_to_repeat"].strip().lower())


def _ends(text: str, a: Arguments) -> bool:
    return text.strip().strip('"').lower().endswith(a["end_phrase"].strip().lower())


def _postscript(text: str, a: Arguments) -> bool:
    marker = a["postscript_marker"].lower()
    pattern = {"p.p.s": r"p\.\s?p\.\s?s", "p.s.": r"p\.\s?s\."}.get(marker, re.escape(marker))
    return re.search(rf"^\s*{pattern}.*", text.lower(), re.MULTILINE) is not None


CHECKS: dict[str, Callable[[str, Arguments], bool]] = {
    "keywords:existence": lambda t, a: all(_keyword_count(t, word) for word in a["keywords"]),
    "keywords:frequency": lambda t, a: _relation(_keyword_count(t, a["keyword"]), a, "frequency"),
    "keywords:forbidden_words": _lacks,
    "keywords:letter_frequency": _letters,
    "length_constraints:number_words": lambda t, a: _relation(len(WORD.findall(t)), a, "num_words"),
    "length_constraints:number_sentences": lambda t, a: _relation(
        len(SENTENCE.findall(t)), a, "num_sentences"
    ),
    "length_constraints:number_paragraphs": lambda t, a: len(_paragraphs(t)) == a["num_paragraphs"],
    "length_constraints:nth_paragraph_first_word": _nth_paragraph,
    "detectable_content:number_placeholders": lambda t, a: (
        len(PLACEHOLDER.findall(t)) >= a["num_placeholders"]
    ),
    "detectable_content:postscript": _postscript,
    "detectable_format:number_bullet_lists": lambda t, a: len(BULLET.findall(t)) == a["num_bullets"],
    "detectable_format:constrained_response": lambda t, a: any(choice in t for choice in CHOICES),
    "detectable_format:number_highlighted_sections": lambda t, a: (
        len(HIGHLIGHT.findall(t)) >= a["num_highlights"]
    ),
    "detectable_format:multiple_sections": _sections,
    "detectable_format:json_format": _json,
    "detectable_format:title": lambda t, a: TITLE.search(t) is not None,
    "combination:two_responses": _two_answers,
    "combination:repeat_prompt": _repeats,
    "startend:end_checker": _ends,
    "startend:quotation": lambda t, a: len(t.strip()) > 1 and t.strip()[0] == '"' == t.strip()[-1],
    "change_case:capital_word_frequency": _capitals,
    "change_case:english_capital": lambda t, a: t.isupper(),
    "change_case:english_lowercase": lambda t, a: t.islower(),
    "punctuation:no_comma": lambda t, a: "," not in t,
}
"""The check of each instruction of IFEval, by its id."""


@dataclass(frozen=True)
class Instructions:
    """Whether an output follows its instructions.

    Scores `followed` (all of them), `share` (of those that can be checked) and `unchecked` (how many cannot).
    Raises for a case none of whose instructions can be checked.
    """

    name = "instructions"
    asynchronous: ClassVar[bool] = False
    takes: ClassVar[frozenset[str]] = frozenset({"output", "expected"})

    @property
    def identity(self) -> Json:
        """Name and version."""
        return {"evaluator": self.name, "config": {}, "version": 1}

    def judge(self, facts: Mapping[str, Any]) -> dict[str, bool | float]:
        """The scores of an output; raises `Invalid` if no instruction can be checked."""
        output, asked = facts["output"], _asked(facts["expected"])
        known = [one for one in asked if one["id"] in CHECKS]
        if not known:
            unknown = ", ".join(f"{one['id']}{nearest(one['id'], CHECKS)}" for one in asked)
            raise Invalid(f"instructions cannot check any of: {unknown}")
        text = "" if isinstance(output, NoAnswer) else str(output)
        kept = [bool(text.strip()) and _kept(text, one) for one in known]
        unchecked = len(asked) - len(known)
        return {"followed": all(kept), "share": sum(kept) / len(kept), "unchecked": unchecked}


def _asked(expected: Json) -> list[dict[str, Any]]:
    """The instructions of a case as a list of tables; raises `Invalid` for any other form."""
    given = expected
    if isinstance(given, str):
        try:
            given = json.loads(given)
        except ValueError:
            given = None
    if isinstance(given, dict) and given.keys() == {"ids", "arguments"}:
        pairs = zip(given["ids"], given["arguments"], strict=True)
        given = [{"id": name, **{k: v for k, v in said.items() if v is not None}} for name, said in pairs]
    if not isinstance(given, list) or not all(isinstance(one, dict) and "id" in one for one in given):
        raise Invalid(
            f"instructions needs a list of tables, each with its id; this case expects {expected!r}"
        )
    return given


def _kept(text: str, one: Mapping[str, Any]) -> bool:
    """Whether the text follows one instruction."""
    try:
        return CHECKS[one["id"]](text, one)
    except KeyError as missing:
        raise Invalid(f"instructions: {one['id']} needs {missing}") from None


def instructions() -> Instructions:
    """Whether the output follows the instructions in the expected value of the case."""
    return Instructions()
