"""How near a text is to what is expected, letter by letter: `fuzzy` and `edit_similarity`.

Both give 0 to 1. A list that is expected holds several references, of which the nearest counts.
"""

from __future__ import annotations

from functools import partial

from peira.core.ids import Json
from peira.core.registry import nearest
from peira.errors import Invalid
from peira.evaluators.comparison import Comparison
from peira.evaluators.libraries import load, needs
from peira.evaluators.references import texts

METHODS = ("ratio", "token_sort_ratio", "token_set_ratio")


def fuzzy(method: str = "ratio") -> Comparison:
    """RapidFuzz's ratio of common letters, divided by 100.

    "token_sort_ratio" ignores the order of words, "token_set_ratio" also their number.
    """
    if method not in METHODS:
        raise Invalid(f"fuzzy: method={method!r}{nearest(str(method), METHODS)}")
    return Comparison(
        "fuzzy",
        partial(_fuzzy, method),
        (("method", method),),
        no_answer=0.0,
        libraries=needs("fuzzy", "rapidfuzz"),
    )


def _fuzzy(method: str, output: Json, expected: Json) -> float:
    ratio = getattr(load("rapidfuzz.fuzz"), method)
    said, references = texts("fuzzy", output, expected)
    return max(float(ratio(said, one)) / 100 for one in references)


def edit_similarity() -> Comparison:
    """1 less the Levenshtein distance (letters put in, left out, replaced) per letter of the longer text."""
    known = needs("edit_similarity", "rapidfuzz")
    return Comparison("edit_similarity", _edits, no_answer=0.0, libraries=known)


def _edits(output: Json, expected: Json) -> float:
    levenshtein = load("rapidfuzz.distance.Levenshtein")
    said, references = texts("edit_similarity", output, expected)
    return max(float(levenshtein.normalized_similarity(said, one)) for one in references)
