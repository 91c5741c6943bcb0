"""Texts as the pieces of words that BERT models without case know, by their numbers in a vocabulary."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from unicodedata import category, normalize

LONGEST_WORD = 100
IDEOGRAPHS = (
    (0x3400, 0x4DBF),
    (0x4E00, 0x9FFF),
    (0xF900, 0xFAFF),
    (0x20000, 0x2A6DF),
    (0x2A700, 0x2B81F),
    (0x2B920, 0x2CEAF),
    (0x2F800, 0x2FA1F),
)


def pieces(text: str, vocabulary: Mapping[str, int], most: int) -> list[int]:
    """The numbers of a text's pieces between [CLS] and [SEP], `most` of them in all; the rest is cut off."""
    found = [vocabulary["[CLS]"]]
    for word in _words(text):
        if len(found) >= most:
            break
        found += _split(word, vocabulary)
    return [*found[: most - 1], vocabulary["[SEP]"]]


def _words(text: str) -> Iterator[str]:
    apart = "".join(map(_spaced, text))
    plain = "".join(char for char in normalize("NFD", apart.lower()) if category(char) != "Mn")
    for word in plain.split():
        yield from _at_punctuation(word)


def _spaced(char: str) -> str:
    """Blanks around an ideograph, which is a word by itself; nothing for what cannot be seen."""
    if char in "\t\n\r" or category(char) == "Zs":
        return " "
    if char in "\0\ufffd" or category(char) in ("Cc", "Cf", "Co"):
        return ""
    return f" {char} " if any(low <= ord(char) <= high for low, high in IDEOGRAPHS) else char


def _at_punctuation(word: str) -> Iterator[str]:
    start = 0
    for at, char in enumerate(word):
        if (char.isascii() and not char.isalnum()) or category(char)[0] == "P":
            if start < at:
                yield word[start:at]
            yield char
            start = at + 1
    if start < len(word):
        yield word[start:]


def _split(word: str, vocabulary: Mapping[str, int]) -> list[int]:
    """The longest known piece, then the longest that continues it, and so on; [UNK] if that fails."""
    found: list[int] = []
    start, unknown = 0, [vocabulary["[UNK]"]]
    if len(word) > LONGEST_WORD:
        return unknown
    while start < len(word):
        prefix = "##" if start else ""
        ends = range(len(word), start, -1)
        end = next((end for end in ends if prefix + word[start:end] in vocabulary), None)
        if end is None:
            return unknown
        found.append(vocabulary[prefix + word[start:end]])
        start = end
    return found
