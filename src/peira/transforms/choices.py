"""Lettered choices: `choice_letter`."""

from __future__ import annotations

import string
from functools import partial

from peira.core.ids import Json
from peira.core.reading.choices import choice_in
from peira.core.transforms import NoAnswer
from peira.errors import Invalid
from peira.transforms.extraction import Extraction, blank, text_of


def choice_letter(letters: str = "ABCDE") -> Extraction:
    """The letter of the choice that the text names, in upper case: "(B)", "Answer: B", "the answer is b".

    The word "A" is no choice. Of several choices, none is the answer unless the text says which.
    """
    if blank(letters) or len(set(letters)) < len(letters) or not set(letters) <= set(string.ascii_uppercase):
        raise Invalid(f"choice_letter: letters={letters!r} are not different letters in upper case")
    return Extraction("choice_letter", partial(_letter, letters=letters), (("letters", letters),))


def _letter(output: Json, letters: str) -> str | NoAnswer:
    return choice_in(text_of(output), letters)
