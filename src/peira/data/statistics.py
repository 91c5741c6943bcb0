"""Statistics of a set of cases: counts, slices, clusters, lengths, duplicates and near duplicates.

Near duplicates are found by MinHash of word shingles with locality-sensitive hashing.
"""

from __future__ import annotations

import unicodedata
import zlib
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from itertools import combinations, pairwise
from typing import TYPE_CHECKING, Any

import msgspec

from peira.core.ids import Json, canonical
from peira.data.sampling import content
from peira.spec.case import Case, case_ids

if TYPE_CHECKING:
    from numpy.typing import NDArray


WORDS = 3
"""Words of a shingle."""
BANDS, ROWS = 16, 4
PRIME = (1 << 31) - 1
MOST = 50
"""Maximum size of a bucket in which all pairs are compared; in larger ones, only neighbours."""


class Duplicates(msgspec.Struct, frozen=True):
    """Groups of indices of equal cases, and pairs of near duplicates, most similar first."""

    same: tuple[tuple[int, ...], ...]
    """Groups of indices of equal inputs."""
    near: tuple[tuple[int, int, float], ...]
    """Pairs of indices with their similarity, most similar first."""


def duplicates(inputs: Iterable[Json], threshold: float = 0.8) -> Duplicates:
    """Duplicates among inputs; the first of equal inputs represents them among the near duplicates.

    `threshold` is the minimum Jaccard similarity of near duplicates.
    """
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
    # A text of punctuation only is kept: "+" and "-" are different questions.
    return " ".join("".join(letters).split()) or text.strip()


def _shingles(text: str) -> frozenset[int]:
    """The hashes of all sequences of `WORDS` words."""
    words = text.split() or [text]
    runs = [words[i : i + WORDS] for i in range(max(1, len(words) - WORDS + 1))]
    return frozenset(zlib.crc32(" ".join(run).encode()) for run in runs)


def _near(shingled: Sequence[tuple[int, frozenset[int]]]) -> Iterator[tuple[int, int, float]]:
    """Candidate pairs with their Jaccard similarity."""
    seen: set[tuple[int, int]] = set()
    for bucket in _buckets([shingles for _, shingles in shingled]):
        for pair in combinations(bucket, 2) if len(bucket) <= MOST else pairwise(bucket):
            if pair not in seen:
                seen.add(pair)
                (a, one), (b, other) = shingled[pair[0]], shingled[pair[1]]
                yield a, b, len(one & other) / len(one | other)


def _buckets(sets: Sequence[frozenset[int]]) -> Iterator[list[int]]:
    """Groups of sets that share a band of their MinHash signatures."""
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
    """The MinHash signature of a set."""
    codes = numpy.fromiter(shingles, dtype=numpy.uint64, count=len(shingles)) % PRIME
    lowest: NDArray[Any] = ((codes[:, None] * slope + shift) % PRIME).min(axis=0)
    return lowest


SHOWN = 100
"""Maximum number of duplicates listed."""


class Stats(msgspec.Struct, frozen=True):
    """Statistics of a set of cases; lists of duplicates are limited, counts are not."""

    cases: int
    digest: str
    """The digest of all cases in order."""
    expected: int
    """Cases with an expected value."""
    slices: dict[str, int]
    """Cases by slice."""
    clusters: int
    length: tuple[int, int, int]
    """Characters of the inputs: minimum, median, maximum."""
    same_count: int
    """Cases whose input equals that of an earlier case."""
    same: list[list[str]]
    """The first groups of ids of cases with equal inputs."""
    near_count: int
    """The number of pairs of near duplicates."""
    near: list[tuple[str, str, float]]
    """The most similar pairs, with their similarity."""


def stats(cases: Sequence[Case], threshold: float = 0.8) -> Stats:
    """The statistics of the cases; `threshold` is the minimum similarity of near duplicates."""
    ids, found = case_ids(cases), duplicates((case.input for case in cases), threshold)
    lengths = sorted(len(_text(case.input)) for case in cases) or [0]
    return Stats(
        cases=len(cases),
        digest=content(cases),
        expected=sum(case.expected is not None for case in cases),
        slices=dict(Counter(case.slice for case in cases if case.slice is not None)),
        clusters=len({case.cluster for case in cases if case.cluster is not None}),
        length=(lengths[0], lengths[len(lengths) // 2], lengths[-1]),
        same_count=sum(len(group) - 1 for group in found.same),
        same=[[ids[place] for place in group] for group in found.same[:SHOWN]],
        near_count=len(found.near),
        near=[(ids[a], ids[b], share) for a, b, share in found.near[:SHOWN]],
    )


def _text(value: Json) -> str:
    return value if isinstance(value, str) else plain(value)
