"""Whether an output refuses to answer: `refusal`."""

from __future__ import annotations

from peira.core.ids import Json
from peira.core.reading.refusals import refuses
from peira.evaluators.comparison import Comparison, text_of


def refusal() -> Comparison:
    """True where the text refuses, by its wording: a list of English phrases, and no more than that.

    It misses refusals that are worded otherwise. For a number to rely on, have some of them judged by people.
    """
    return Comparison("refusal", _refuses, needs_expected=False, no_answer=None)


def _refuses(output: Json, _expected: Json) -> bool:
    return refuses(text_of(output))
