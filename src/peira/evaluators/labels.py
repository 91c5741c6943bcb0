"""Labels out of a known set: `choice` (one of them) and `multi_label` (any number)."""

from __future__ import annotations

import re
import string
from functools import partial

from peira.core.ids import Json
from peira.core.reading.choices import choice_in
from peira.core.transforms import NoAnswer
from peira.errors import Invalid
from peira.evaluators.comparison import Comparison, text_of

SEPARATORS = re.compile(r"[,;\n]")
AROUND = " \t\r\n\"'`()[]{}<>*_.:!?-"


def choice(letters: str = "ABCDE") -> Comparison:
    """The text names the choice that is expected: a letter, or the number of a choice, counted from 0.

    What it names is read as the transform `choice_letter` reads it; a text that names none is wrong.
    """
    if not letters or len(set(letters)) < len(letters) or not set(letters) <= set(string.ascii_uppercase):
        raise Invalid(f"choice: letters={letters!r} are not different letters in upper case")
    return Comparison("choice", partial(_chosen, letters), (("letters", letters),))


def _chosen(letters: str, output: Json, expected: Json) -> bool:
    meant = _meant(letters, expected)
    if meant is None:
        raise Invalid(f"choice needs one of {', '.join(letters)}; this case expects {expected!r}")
    said = choice_in(text_of(output), letters)
    return not isinstance(said, NoAnswer) and said == meant


def _meant(letters: str, expected: Json) -> str | None:
    if type(expected) is int:
        return letters[expected] if 0 <= expected < len(letters) else None
    letter = text_of(expected).strip(AROUND).upper()
    return letter if len(letter) == 1 and letter in letters else None


def multi_label() -> Comparison:
    """How the labels agree with those expected: f1, precision, recall, and whether they are the same (exact).

    Labels are a list, or a text that separates them by commas, semicolons or lines; case, order and
    repetition do not count. No labels where none are expected agree in full.
    """
    nothing = {"f1": 0.0, "precision": 0.0, "recall": 0.0, "exact": False}
    return Comparison("multi_label", _agreement, no_answer=nothing)


def _agreement(output: Json, expected: Json) -> dict[str, float | bool]:
    said, meant = _labels(output), _labels(expected)
    both = len(said & meant)
    precision = both / len(said) if said else float(not meant)
    recall = both / len(meant) if meant else float(not said)
    f1 = 2 * both / (len(said) + len(meant)) if said or meant else 1.0
    return {"f1": f1, "precision": precision, "recall": recall, "exact": said == meant}


def _labels(value: Json) -> frozenset[str]:
    given = value if isinstance(value, list | tuple) else SEPARATORS.split(text_of(value))
    plain = (" ".join(text_of(one).strip(AROUND).casefold().split()) for one in given)
    return frozenset(label for label in plain if label)
