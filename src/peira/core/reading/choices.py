"""Which of some lettered choices a text names.

The clearest kind of naming decides: the text is a letter and nothing else; it states an answer ("the answer
is (B)"), the last statement counting; a single choice is marked ("B) Paris", "**B**"); a letter stands alone
where the text begins or ends. A text that marks several choices and states none names none: nobody guesses.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache
from typing import NamedTuple

from peira.core.transforms import NoAnswer

WRAPPING = " \t\r\n\"'`()[]{}<>*_~.,;:!?$"
STRAIGHT = str.maketrans("\u201c\u201d\u2018\u2019", "\"\"''")

# "A" and "I" are words, too. Before another word they are letters only if it is one of these: "A because ..."
WORDS = frozenset("aAiI")
FOLLOWING = {"because", "since", "as", "is", "was", "and", "but", "so", "which", "for", "due", "given"}
WORD_AFTER = re.compile(r"[ \t]{1,9}([^\W\d_]{1,12})")


class Patterns(NamedTuple):
    """Each finds a `letter`, and `bare` where nothing marks the letter as one: it may be a word."""

    stated: re.Pattern[str]
    marked: re.Pattern[str]
    first: re.Pattern[str]
    last: re.Pattern[str]


def choice_in(text: str, letters: str = "ABCDE") -> str | NoAnswer:
    """The letter a text names, in upper case."""
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
    for found in pattern.finditer(text):
        if not (found["letter"] in WORDS and found["bare"] is not None and _is_word(text, found.end())):
            yield found["letter"].upper()


def _is_word(text: str, end: int) -> bool:
    after = WORD_AFTER.match(text, end)
    return after is not None and after[1] not in FOLLOWING


@lru_cache(maxsize=64)
def _patterns(letters: str) -> Patterns:
    """All repetition is bounded, so that no text is slow to search."""
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
