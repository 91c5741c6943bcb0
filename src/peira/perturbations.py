"""Small changes of a prompt or an input that should not change the answer, made from a seed.

    from peira.perturbations import variants
    variants("What is the capital of France?", seed=3)

Texts in tables and lists are changed where they stand; everything else is left as it is. The same text, kind
and seed always give the same result, so that trials keep their identity. `perturbation_robustness` in
`peira.recipes` makes a study of them.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Mapping, Sequence

from peira.core.ids import Json, digest
from peira.core.registry import nearest
from peira.errors import Invalid

__all__ = ["PERTURBATIONS", "perturbed", "variants"]

NEIGHBOURS = {
    "a": "sq", "b": "vn", "c": "xv", "d": "sf", "e": "wr", "f": "dg", "g": "fh", "h": "gj", "i": "uo",
    "j": "hk", "k": "jl", "l": "k", "m": "n", "n": "bm", "o": "ip", "p": "o", "q": "wa", "r": "et",
    "s": "ad", "t": "ry", "u": "yi", "v": "cb", "w": "qe", "x": "zc", "y": "tu", "z": "x",
}  # fmt: skip
"""The keys beside each key of an English keyboard."""
TYPOS_PER_WORD = 0.1
POLITE = ("Please answer. ", "Could you help me with this? ", "I would like to know: ")
WORD = re.compile(r"[^\W\d_]{4,}")


def _lower_case(text: str, chance: random.Random) -> str:
    """All letters in lower case."""
    return text.lower()


def _upper_case(text: str, chance: random.Random) -> str:
    """All letters in upper case."""
    return text.upper()


def _spaces(text: str, chance: random.Random) -> str:
    """Some blanks doubled, and blanks around the text."""
    doubled = re.sub(r" ", lambda _: "  " if chance.random() < 0.5 else " ", text)
    return f"  {doubled}\n"


def _punctuation(text: str, chance: random.Random) -> str:
    """Without the punctuation at the ends of sentences and of the text."""
    return re.sub(r"[.!?,;:]+(?=\s|$)", "", text)


def _typos(text: str, chance: random.Random) -> str:
    """A wrong, missing, doubled or swapped letter in about one of ten longer words, at least in one."""
    words = list(WORD.finditer(text))
    hit = {place for place in range(len(words)) if chance.random() < TYPOS_PER_WORD}
    if words and not hit:
        hit = {chance.randrange(len(words))}
    for place in sorted(hit, reverse=True):
        word = words[place]
        text = text[: word.start()] + _mistyped(word[0], chance) + text[word.end() :]
    return text


def _mistyped(word: str, chance: random.Random) -> str:
    """A word with one mistake, not in its first letter."""
    at = chance.randrange(1, len(word) - 1)
    letter, way = word[at], chance.randrange(4)
    if way == 0 and letter.lower() in NEIGHBOURS:
        return word[:at] + chance.choice(NEIGHBOURS[letter.lower()]) + word[at + 1 :]
    if way == 1:
        return word[:at] + word[at + 1 :]
    if way == 2 and letter != word[at + 1]:
        return word[:at] + word[at + 1] + letter + word[at + 2 :]
    return word[:at] + letter + word[at:]


def _politeness(text: str, chance: random.Random) -> str:
    """With a polite sentence before it."""
    return chance.choice(POLITE) + text


PERTURBATIONS: Mapping[str, Callable[[str, random.Random], str]] = {
    "lower_case": _lower_case,
    "upper_case": _upper_case,
    "spaces": _spaces,
    "punctuation": _punctuation,
    "typos": _typos,
    "politeness": _politeness,
}
"""The kinds of changes, by name."""


def perturbed(value: Json, kind: str, seed: int | str = 0) -> Json:
    """The value with its texts changed in this way; Invalid if there is no such kind."""
    if kind not in PERTURBATIONS:
        raise Invalid(f"there is no perturbation {kind!r}{nearest(kind, PERTURBATIONS)}")
    return _walked(value, kind, seed)


def _walked(value: Json, kind: str, seed: int | str) -> Json:
    """The value, with the texts in it changed; keys of tables are left as they are."""
    if isinstance(value, str):
        return PERTURBATIONS[kind](value, random.Random(digest([value, kind, str(seed)])))
    if isinstance(value, Mapping):
        return {name: _walked(one, kind, seed) for name, one in value.items()}
    return [_walked(one, kind, seed) for one in value] if isinstance(value, list | tuple) else value


def variants(text: str, kinds: Sequence[str] = (), seed: int = 0) -> dict[str, str]:
    """Versions of a text by kind, the text itself first, as `as_it_is`: levels for a prompt factor.

    Without `kinds`, all. A kind that does not change this text is left out.
    """
    made = {kind: str(perturbed(text, kind, seed)) for kind in (kinds or PERTURBATIONS)}
    return {"as_it_is": text, **{kind: version for kind, version in made.items() if version != text}}
