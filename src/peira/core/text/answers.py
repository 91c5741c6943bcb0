"""Parsing an answer: which of several lettered choices a text names, and whether it is a refusal."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache
from typing import NamedTuple

from peira.core.transforms import NoAnswer

WRAPPING = " \t\r\n\"'`()[]{}<>*_~.,;:!?$"
STRAIGHT = str.maketrans("\u201c\u201d\u2018\u2019", "\"\"''")

# "A" and "I" are also words. Before another word they count as letters only if it is one of FOLLOWING:
# "A because ..."
WORDS = frozenset("aAiI")
FOLLOWING = {"because", "since", "as", "is", "was", "and", "but", "so", "which", "for", "due", "given"}
WORD_AFTER = re.compile(r"[ \t]{1,9}([^\W\d_]{1,12})")


class Patterns(NamedTuple):
    """Regular expressions from the most to the least explicit way of naming a choice.

    Each has a group `letter`, and a group `bare` that matches if nothing marks the letter as a choice, so
    that it may be a word.
    """

    stated: re.Pattern[str]
    marked: re.Pattern[str]
    first: re.Pattern[str]
    last: re.Pattern[str]


def choice_in(text: str, letters: str = "ABCDE") -> str | NoAnswer:
    """The letter of the choice a text names, in upper case; NoAnswer if there is none, or several.

    The last explicit statement ("the answer is B") wins; otherwise the letters found in the same way must
    agree.
    """
    text = text.translate(STRAIGHT)
    whole = text.strip(WRAPPING).upper()
    if len(whole) == 1 and whole in letters:
        return whole
    if not whole:
        return NoAnswer("empty")
    patterns = _patterns(letters)
    if stated := list(_letters(patterns.stated, text)):
        return stated[-1]
    for pattern in patterns[1:]:
        if found := set(_letters(pattern, text)):
            return found.pop() if len(found) == 1 else NoAnswer("several letters")
    return NoAnswer("no letter")


def _letters(pattern: re.Pattern[str], text: str) -> Iterator[str]:
    """The letters that a pattern finds, without those that are words."""
    for found in pattern.finditer(text):
        if not (found["letter"] in WORDS and found["bare"] is not None and _is_word(text, found.end())):
            yield found["letter"].upper()


def _is_word(text: str, end: int) -> bool:
    """Whether a single letter is followed by a word that shows that it is a word itself."""
    after = WORD_AFTER.match(text, end)
    return after is not None and after[1] not in FOLLOWING


@lru_cache(maxsize=64)
def _patterns(letters: str) -> Patterns:
    """The patterns for these letters, cached; all repetition is bounded, so that no text is slow."""
    upper, either = re.escape(letters), re.escape(letters + letters.lower())
    latex = r"\\ (?: boxed | text | textbf | mathrm | mathbf ) \s? \{"
    stated = rf"""
        (?i: \b (?: answer | solution ) s? [\s*_"']{{0,6}} (?: (?: choice | option | letter ) [\s*_]{{0,6}} )?
             (?: (?: is | was | (?: would | must | should | will | could ) \s be ) \b | [:=] | -{{1,2}}> )
             (?: [\s:*_]{{0,6}} (?: likely | probably | clearly | choice | option | letter ) \b )? )
        [\s"'`(\[{{*_$:]{{0,9}} (?: {latex} [\s(*]{{0,3}} ){{0,2}}
        (?P<letter> [{either}] ) (?! [\w'] ) (?P<bare> (?! [)\]}}*_"`.:] ) )?
    """
    marked = rf"""
        (?: ^ [ \t]{{0,8}} (?: [-*>] [ \t]{{1,4}} )? [*_(\[]{{0,4}} (?= [{upper}] [*_]{{0,2}} [)\].:] )
          | (?<! \w ) [(\[] (?= [{upper}] [)\]] )
          | \* \* (?= [{upper}] [).:]? \* \* )
          | {latex} (?= [{upper}] \}} )
          | \b (?i: option | choice ) \s (?= [{upper}] (?! [\w'] ) ) )
        (?P<letter> [{upper}] ) (?P<bare> (?!) )?
    """
    first = rf"\A \s* (?P<letter> [{upper}] ) (?! [\w'] ) (?P<bare> )"
    last = rf"""
        (?<! [\w'] ) (?<! \b or\s ) (?<! nor\s | and\s | not\s | n't\s )
        (?P<letter> [{upper}] ) (?P<bare> ) (?= [\s.!*"']{{0,9}} \Z )
    """
    flags = re.VERBOSE | re.MULTILINE
    return Patterns(*(re.compile(pattern, flags) for pattern in (stated, marked, first, last)))


OPENING = 500
"""How many characters of a text are searched for a refusal: later ones are about something else."""

_CANNOT = "(?:can't|cannot|can not|could not|couldn't|won't|will not|(?:am |'m )(?:not able to|unable to))"
_ACT = (
    "(?:help|assist|aid|provide|comply|fulfil|fulfill|answer|support|create|write|generate|engage|discuss|share|"
    "give|participate|continue|proceed|respond|offer|tell|complete|produce|recommend|advise|do that|do this)"
)
REFUSAL = re.compile(
    "|".join(
        (
            rf"\bi ?{_CANNOT}(?: \w{{1,20}}){{0,2}} {_ACT}\b",
            r"\bi(?: must| have to| need to|'ll have to)? (?:respectfully )?(?:decline|refuse)\b",
            r"\bsorry,? (?:but )?(?:i|we) (?:can't|cannot|can not|won't|will not)\b(?! find| see| tell)",
            r"\b(?:against|violates?) (?:my|our|the) (?:guidelines|policy|policies|programming|principles)\b",
            r"\bas an ai\b[^.!?\n]{0,80}(?:can't|cannot|unable to|not able to|not allowed)\b",
        )
    )
)


def refuses(text: str) -> bool:
    """Whether the opening of a text refuses to answer."""
    opening = " ".join(text[:OPENING].lower().replace("\u2019", "'").split())
    return REFUSAL.search(opening) is not None
