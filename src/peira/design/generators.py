"""Generators as people write them: `D = ABC`, `E = -AC`, or with names, `style = model*length*tone`.

A symbol is the name of a factor; a letter that is no factor's name is the factor at that place of the
alphabet, in which there is no I (it stands for the mean).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from peira.core.registry import nearest
from peira.design.dimensions import require
from peira.design.words import Word
from peira.errors import Invalid

LETTERS = "ABCDEFGHJKLMNOPQRSTUVWXYZ"


def ill_written(generators: object) -> Iterator[str]:
    """What is wrong with generators whatever the factors are."""
    if not isinstance(generators, (list, tuple)) or not generators:
        yield f'generators: must be a list such as ["D=ABC"], not {generators!r}'
        return
    for text in generators:
        if not isinstance(text, str) or text.count("=") != 1:
            yield f'generators: {text!r} is not of the form "D=ABC" or "style = model*length"'


def parsed(generators: Sequence[str], names: Sequence[str]) -> dict[Word, int]:
    """The word and the sign of each generator; Invalid with every symbol that is no factor."""
    found: dict[Word, int] = {}
    problems: list[str] = []
    for text in generators:
        try:
            word, sign = _word(text, names)
        except Invalid as error:
            problems += error.problems
            continue
        if word in found:
            problems.append(f"generators: {text!r} says the same as another; leave it out")
        found[word] = sign
    require(problems)
    return found


def _word(text: str, names: Sequence[str]) -> tuple[Word, int]:
    left, _, right = (part.strip() for part in text.partition("="))
    sign, right = (-1, right[1:].strip()) if right.startswith("-") else (1, right)
    symbols = [left, *_symbols(right, names)]
    require(_problem(text, symbol, names) for symbol in symbols if _factor(symbol, names) is None)
    factors = [factor for symbol in symbols if (factor := _factor(symbol, names)) is not None]
    if len(set(factors)) < len(factors):
        raise Invalid(f"generators: {text!r} names a factor twice")
    return frozenset(factors), sign


def _symbols(text: str, names: Sequence[str]) -> list[str]:
    if "*" in text:
        return [part.strip() for part in text.split("*")]
    return [text] if text in names else list(text.replace(" ", ""))


def _factor(symbol: str, names: Sequence[str]) -> str | None:
    if symbol in names:
        return symbol
    place = LETTERS.find(symbol) if len(symbol) == 1 else -1
    return names[place] if 0 <= place < len(names) else None


def _problem(text: str, symbol: str, names: Sequence[str]) -> str:
    if len(symbol) == 1 and len(names) <= len(LETTERS):
        return f"generators: {text!r}: no factor {symbol!r}; the letters are {LETTERS[: len(names)]}"
    return f"generators: {text!r}: no factor {symbol!r}{nearest(symbol, names)}"
