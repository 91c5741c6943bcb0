"""Cases that are there more than once: the same text but for case, blanks and punctuation, or nearly so.

Nearly is a Jaccard similarity of the sets of three consecutive words. Candidates come from MinHash signatures
in bands (which miss a pair at the threshold about twice in ten thousand), and each is then compared in full.
"""

from __future__ import annotations

import unicodedata
import zlib
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from itertools import combinations, pairwise
from typing import TYPE_CHECKING, Any

import msgspec

from peira.core.ids import Json, canonical

if TYPE_CHECKING:
    from numpy.typing import NDArray

WORDS = 3
BANDS, ROWS = 16, 4
PRIME = (1 << 31) - 1
MOST = 50
"""Members of one band's bucket that are compared each with each; of more, each with the next."""


class Duplicates(msgspec.Struct, frozen=True):
    """Places of cases that say the same, group by group, and pairs that nearly do, the closest first."""

    same: tuple[tuple[int, ...], ...]
    near: tuple[tuple[int, int, float], ...]


def duplicates(inputs: Iterable[Json], threshold: float = 0.8) -> Duplicates:
    """Among the inputs of cases. Of those that are the same, the first stands for all among the near ones."""
    texts = [plain(value) for value in inputs]
    groups: dict[str, list[int]] = defaultdict(list)
    for place, text in enumerate(texts):
        groups[text].append(place)
    shingled = [(places[0], _shingles(text)) for text, places in groups.items()]
    near = [(a, b, round(s, 4)) for a, b, s in _near(shingled) if s >= threshold]
    same = tuple(tuple(places) for places in groups.values() if len(places) > 1)
    return Duplicates(same, tuple(sorted(near, key=lambda pair: (-pair[2], pair[:2]))))


def plain(value: Json) -> str:
    """The words of an input, without case and punctuation."""
    text = value if isinstance(value, str) else canonical(value).decode()
    text = unicodedata.normalize("NFKC", text).casefold()
    letters = (c if c.isalnum() else " " for c in text)
    # A text of signs alone is its signs: "+" and "-" are not the same question.
    return " ".join("".join(letters).split()) or text.strip()


def _shingles(text: str) -> frozenset[int]:
    words = text.split() or [text]
    runs = [words[i : i + WORDS] for i in range(max(1, len(words) - WORDS + 1))]
    return frozenset(zlib.crc32(" ".join(run).encode()) for run in runs)


def _near(shingled: Sequence[tuple[int, frozenset[int]]]) -> Iterator[tuple[int, int, float]]:
    seen: set[tuple[int, int]] = set()
    for bucket in _buckets([shingles for _, shingles in shingled]):
        for pair in combinations(bucket, 2) if len(bucket) <= MOST else pairwise(bucket):
            if pair not in seen:
                seen.add(pair)
                (a, one), (b, other) = shingled[pair[0]], shingled[pair[1]]
                yield a, b, len(one & other) / len(one | other)


def _buckets(sets: Sequence[frozenset[int]]) -> Iterator[list[int]]:
    """Sets that share a band of their signatures."""
    import numpy

    rng = numpy.random.default_rng(0)
    slope = rng.integers(1, PRIME, BANDS * ROWS, dtype=numpy.uint64)
    shift = rng.integers(0, PRIME, BANDS * ROWS, dtype=numpy.uint64)
    found: dict[tuple[int, bytes], list[int]] = defaultdict(list)
    for place, shingles in enumerate(sets):
        signature = _signature(numpy, shingles, slope, shift)
        for band in range(BANDS):
            found[band, signature[band * ROWS : (band + 1) * ROWS].tobytes()].append(place)
    return (bucket for bucket in found.values() if len(bucket) > 1)


def _signature(
    numpy: Any, shingles: frozenset[int], slope: NDArray[Any], shift: NDArray[Any]
) -> NDArray[Any]:
    codes = numpy.fromiter(shingles, dtype=numpy.uint64, count=len(shingles)) % PRIME
    lowest: NDArray[Any] = ((codes[:, None] * slope + shift) % PRIME).min(axis=0)
    return lowest
