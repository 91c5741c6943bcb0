"""`person`: people grade an output, or choose between it and another answer.

Each rater is asked a question of their own (see `core.people`), and is not shown what others said. The score
waits until all have answered or skipped.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from peira.core.clock import seconds
from peira.core.context import current_channel
from peira.core.ids import Json, digest, normalise, seed_of
from peira.core.people.questions import IS_RIGHT, PersonAnswer, PersonQuestion, question_of
from peira.core.registry import nearest
from peira.core.text.numbers import is_number
from peira.core.transforms import NoAnswer
from peira.core.verdicts import RAW, VALUE, NoVerdict
from peira.errors import Invalid

VERSION = 1
EXPECTED = "expected"
SHOWN = ("input", "output", EXPECTED, "metadata")
"""What raters may be shown."""
WINS = {"first": 1.0, "tie": 0.5, "second": 0.0}
SPLIT = "split"
"""The verdict of raters who gave no answer more often than the others."""


@dataclass(frozen=True, repr=False)
class Person:
    """People who judge an output.

    With a scale of numbers the score is {"value": their mean from 0 to 1, "raw": on the scale, "rater1.raw"
    and so on, "seconds.raw": how long they looked, where that is known}; with other options {"verdict": what
    most said, or "split", "rater1.raw" ...}. `against` another answer it is {"value": 1, 0.5 or 0, "verdict":
    win, tie or loss, ...}. NoVerdict if nobody answered.
    """

    prompt: str
    options: tuple[Json, ...]
    raters: int
    show: tuple[str, ...]
    to: str
    within: float | None
    against: str
    label: str | None
    config: Mapping[str, Json]
    asynchronous: ClassVar[bool] = False

    @property
    def name(self) -> str:
        """The label, or "person"."""
        return self.label or "person"

    @property
    def takes(self) -> frozenset[str]:
        """The arguments it is called with."""
        needs = {"input": "case", "metadata": "case", EXPECTED: EXPECTED, "output": "output"}
        taken = {needs[name] for name in self.show} | {"output"}
        if self.against:
            taken.add(EXPECTED if self.against == EXPECTED else "case")
        return frozenset(taken)

    @property
    def identity(self) -> Json:
        """What people are asked; not until when, nor who."""
        asked = {key: value for key, value in self.config.items() if key not in ("to", "within", "label")}
        return {"evaluator": "person", "config": asked, "version": VERSION}

    def judge(self, facts: Mapping[str, Any]) -> dict[str, Any] | NoVerdict:
        """The score; waits until every rater has answered or skipped."""
        output = facts["output"]
        if isinstance(output, NoAnswer):
            return NoVerdict(str(output))
        questions = [self._question(facts, rater) for rater in range(1, self.raters + 1)]
        answers = current_channel().consult(questions)
        said = [(rater, answer) for rater, answer in enumerate(answers, start=1) if answer.how == "answered"]
        if not said:
            return NoVerdict("nobody answered")
        if self.against:
            values = {rater: self._won(facts, rater, answer) for rater, answer in said}
            return self._compared(values, answers)
        return self._graded({rater: answer.value for rater, answer in said}, answers)

    def _question(self, facts: Mapping[str, Any], rater: int) -> PersonQuestion:
        """What one rater is asked."""
        shown: dict[str, Any] = {name: self._fact(name, facts) for name in self.show}
        options = self.options
        if self.against:
            shown.pop("output", None)
            pair = [facts["output"], self._rival(facts)]
            first, second = reversed(pair) if self._swapped(facts, rater) else pair
            shown |= {"first": first, "second": second}
            options = tuple(WINS)
        return question_of(
            self.prompt,
            show=shown,
            options=options,
            to=self.to,
            within=self.within,
            rater=rater,
            raters=self.raters,
        )

    def _fact(self, name: str, facts: Mapping[str, Any]) -> Json:
        if name == "input":
            return normalise(facts["case"].input)
        return normalise(dict(facts["case"].metadata) if name == "metadata" else facts[name])

    def _rival(self, facts: Mapping[str, Any]) -> Json:
        """The answer to compare with; raises `Invalid` if the case has none."""
        own = self.against == EXPECTED
        found: Json = facts[EXPECTED] if own else facts["case"].metadata.get(self.against)
        if found is None:
            where = EXPECTED if own else f"metadata.{self.against}"
            raise Invalid(f"{self.name} needs an answer to compare with; this case has none in {where}")
        return found

    def _swapped(self, facts: Mapping[str, Any], rater: int) -> bool:
        """Whether this rater sees the other answer first: by chance, and always the same."""
        return bool(seed_of(digest([facts["output"], self._rival(facts), rater])) & 1)

    def _won(self, facts: Mapping[str, Any], rater: int, answer: PersonAnswer) -> float:
        """How far a rater preferred the output: 1, 0.5 for a tie, 0."""
        won = WINS[str(answer.value)]
        return 1 - won if self._swapped(facts, rater) else won

    def _compared(self, won: Mapping[int, float], answers: Sequence[PersonAnswer]) -> dict[str, Any]:
        mean = sum(won.values()) / len(won)
        verdict = "win" if mean > 0.5 else "loss" if mean < 0.5 else "tie"
        return {VALUE: mean, "verdict": verdict, **_each(won), **_seconds(answers)}

    def _graded(self, said: Mapping[int, Json], answers: Sequence[PersonAnswer]) -> dict[str, Any]:
        numbers = [value for value in said.values() if is_number(value)]
        scale = [option for option in self.options if is_number(option)]
        if len(scale) < len(self.options):
            most = Counter(map(str, said.values())).most_common(2)
            tie = len(most) == 2 and most[0][1] == most[1][1]
            return {"verdict": SPLIT if tie else most[0][0], **_each(said), **_seconds(answers)}
        mean = float(sum(numbers)) / len(numbers)
        least, most_ = float(min(scale)), float(max(scale))
        value = (mean - least) / (most_ - least)
        return {VALUE: value, RAW: mean, **_each(said), **_seconds(answers)}

    def __repr__(self) -> str:
        return f"person({', '.join(f'{key}={value!r}' for key, value in self.config.items())})"


def _each(said: Mapping[int, Any]) -> dict[str, Any]:
    """What each rater said."""
    return {f"rater{rater}.{RAW}": value for rater, value in said.items()}


def _seconds(answers: Sequence[PersonAnswer]) -> dict[str, float]:
    """How long raters looked at it on average, if all is known."""
    took = [answer.took for answer in answers if answer.how == "answered"]
    return {f"seconds.{RAW}": sum(took) / len(took)} if took and min(took) >= 0 else {}


def person(
    prompt: str = IS_RIGHT,
    *,
    scale: Sequence[float] | None = None,
    options: Sequence[Json] | None = None,
    raters: int = 1,
    show: Sequence[str] = ("input", "output"),
    to: str = "",
    within: float | str | None = None,
    against: str | None = None,
    label: str | None = None,
) -> Person:
    """People who grade an output, blind to each other; they answer with `peira inbox` or on the web page.

    The answer is a number of `scale`, or one of `options`; without both yes or no (1 or 0). `raters` people
    are asked, each once: one person's second answer is refused. They see what `show` names, of input, output,
    expected and metadata, in an order that the seed determines. `against` (expected, or a field of metadata)
    asks which of two answers is better, the output or that one, in an order by chance. After `within` it does
    without the answers that are missing. `label` is the name of the score.
    """
    given: dict[str, Any] = {
        "prompt": prompt,
        "scale": None if scale is None else list(scale),
        "options": None if options is None else list(options),
        "raters": raters,
        "show": [show] if isinstance(show, str) else list(show),
        "to": to or None,
        "within": within,
        "against": against,
        "label": label,
    }
    if problems := list(_problems(given)):
        raise Invalid(f"person: {problem}" for problem in problems)
    names, possible = tuple(given["show"]), tuple(normalise(list(scale or options or (0, 1))))
    usual = {"raters": 1, "show": ["input", "output"]}
    said = {key: value for key, value in given.items() if value is not None and value != usual.get(key)}
    due = None if within is None else seconds(within)
    return Person(prompt, possible, raters, names, to, due, against or "", label, dict(normalise(said)))


def _problems(given: Mapping[str, Any]) -> Iterator[str]:
    """Everything that is wrong with these options, one line each."""
    scale, options, against = given["scale"], given["options"], given["against"]
    if not isinstance(given["prompt"], str) or not given["prompt"].strip():
        yield f"prompt={given['prompt']!r} is not a question"
    if scale is not None and options is not None:
        yield "scale and options: give one of them"
    if against is not None and (scale is not None or options is not None):
        yield "against: the answers are first, second and tie; leave out scale and options"
    if scale is not None and (not all(map(is_number, scale)) or len(set(scale)) < 2):
        yield f"scale={scale!r} is not a list of two or more numbers"
    if not isinstance(given["raters"], int) or given["raters"] < 1:
        yield f"raters={given['raters']!r} is not a number of people"
    for name in given["show"]:
        if name not in SHOWN:
            yield f"show: there is no {name!r}{nearest(name, SHOWN)}"
    if given["label"] is not None and (not isinstance(given["label"], str) or not given["label"].strip()):
        yield f"label={given['label']!r} is not a name"
