"""Two-level fractional factorials 2^(k-p), by runs, resolution or generators, optionally in blocks.

The fraction is given by the number of `runs`, by the `resolution` (the smallest fraction found that has it),
or by the `generators` themselves. With runs = 2^k it is the full factorial, which can also be blocked.

In a generator a symbol is the name of a factor; a letter that is no factor's name stands for the factor at
that position of the alphabet without I, which denotes the mean.

Blocks are defined by bit vectors, as factors are (see `aberration`); every vector in their span is an effect
confounded with blocks. No main effect may be; among the rest those are chosen that confound the fewest
two-factor interactions, then the fewest three-factor interactions, and so on.
"""

from __future__ import annotations

import math
import random
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from peira.core.registry import Registry, nearest
from peira.core.space import Space
from peira.design.algebra.finite_fields import span
from peira.design.coded_runs import CodedDesign, RunSheet, true_or_false
from peira.design.dimensions import count_problems, require
from peira.design.factorial.aberration import MOST_BITS, columns, countable, length_of_shortest, subsets
from peira.design.factorial.fraction import Fraction, Word, generated, resolution
from peira.errors import Invalid

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


# Generators


LETTERS = "ABCDEFGHJKLMNOPQRSTUVWXYZ"
"""The letters that stand for factors in generators; I denotes the mean."""


def generator_problems(generators: object) -> Iterator[str]:
    """Problems with generators that do not depend on the factors."""
    if not isinstance(generators, (list, tuple)) or not generators:
        yield f'generators: must be a list such as ["D=ABC"], not {generators!r}'
        return
    for text in generators:
        if not isinstance(text, str) or text.count("=") != 1:
            yield f'generators: {text!r} is not of the form "D=ABC" or "style = model*length"'


def parse_generators(generators: Sequence[str], names: Sequence[str]) -> dict[Word, int]:
    """The word and sign of each generator; raises `Invalid` with every unknown symbol."""
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
    """Parse one generator, such as "D=-ABC", into a word and its sign."""
    left, _, right = (part.strip() for part in text.partition("="))
    sign, right = (-1, right[1:].strip()) if right.startswith("-") else (1, right)
    symbols = [left, *_symbols(right, names)]
    require(_problem(text, symbol, names) for symbol in symbols if _factor(symbol, names) is None)
    factors = [factor for symbol in symbols if (factor := _factor(symbol, names)) is not None]
    if len(set(factors)) < len(factors):
        raise Invalid(f"generators: {text!r} names a factor twice")
    return frozenset(factors), sign


def _symbols(text: str, names: Sequence[str]) -> list[str]:
    """The symbols of a product, separated by `*` or as single letters."""
    if "*" in text:
        return [part.strip() for part in text.split("*")]
    return [text] if text in names else list(text.replace(" ", ""))


def _factor(symbol: str, names: Sequence[str]) -> str | None:
    """The factor that a symbol or a letter stands for; None if unknown."""
    if symbol in names:
        return symbol
    place = LETTERS.find(symbol) if len(symbol) == 1 else -1
    return names[place] if 0 <= place < len(names) else None


def _problem(text: str, symbol: str, names: Sequence[str]) -> str:
    if len(symbol) == 1 and len(names) <= len(LETTERS):
        return f"generators: {text!r}: no factor {symbol!r}; the letters are {LETTERS[: len(names)]}"
    return f"generators: {text!r}: no factor {symbol!r}{nearest(symbol, names)}"


# Blocks


STARTS = 20
"""Number of random starts of the search for block vectors."""


def block_vectors(columns: Sequence[int], bits: int, count: int) -> tuple[int, ...] | None:
    """`count` vectors that define 2^count blocks; None if a main effect would be confounded."""
    counts = subsets(columns, bits, countable(len(columns), bits, 1))
    starts = [_exchange_search(counts, bits, count, random.Random(start)) for start in range(STARTS)]
    found = [vectors for vectors in starts if vectors is not None]
    return min(found, key=lambda vectors: _confounded_counts(counts, vectors)) if found else None


def _exchange_search(
    counts: NDArray[np.int64], bits: int, count: int, rng: random.Random
) -> tuple[int, ...] | None:
    """Block vectors from one random start, exchanged until none improves; None if there are none."""
    found: list[int] = []
    for _ in range(count):
        clear = _least_confounding(counts[:1], bits, found)
        if not clear:
            return None
        found.append(rng.choice(clear))
    changed = True
    while changed:
        changed = False
        for nth, vector in enumerate(found):
            best = _least_confounding(counts, bits, found[:nth] + found[nth + 1 :])
            if vector not in best:
                found[nth], changed = rng.choice(best), True
    return tuple(found)


def _least_confounding(counts: NDArray[np.int64], bits: int, vectors: Sequence[int]) -> list[int]:
    """The vectors that, added to the given ones, confound no main effect and the fewest interactions."""
    import numpy as np

    spanned = np.fromiter(span(vectors), dtype=np.int64)
    free = np.setdiff1d(np.arange(1 << bits), spanned)
    together = [each[free[:, None] ^ spanned].sum(axis=1) for each in counts]
    kept = together[0] == 0
    for each in together[1:]:
        if kept.any():
            kept &= each == each[kept].min()
    found: list[int] = free[kept].tolist()
    return found


def _confounded_counts(counts: NDArray[np.int64], vectors: Sequence[int]) -> list[int]:
    """The number of effects of each order that are confounded with blocks."""
    return [sum(int(each[vector]) for vector in span(vectors) if vector) for each in counts]


# The design


MOST_RUNS = 1 << MOST_BITS
"""Largest fraction that is searched for."""


class FractionalFactorial(CodedDesign):
    """The two-level fraction of highest resolution and minimum aberration found.

    `foldover` adds the mirror image of all runs, reversing every factor ("all") or the named one;
    `foldover_block` makes it a block of its own. `blocks` (2, 4, 8, ...) are confounded with interactions of
    the highest possible order. `fraction` returns the words, for the alias structure.
    """

    name = "fractional_factorial"
    instead = "keep two levels, or use orthogonal_array or full_factorial, which take more"

    def __init__(
        self,
        *,
        runs: int | None = None,
        resolution: int | None = None,
        generators: Sequence[str] | None = None,
        foldover: str | None = None,
        foldover_block: bool = False,
        blocks: int = 1,
        center: int = 0,
        replicates: int = 1,
    ) -> None:
        given = {"runs": runs, "resolution": resolution, "generators": generators}
        super().__init__(
            _choice_problems(given),
            _power_of_two("runs", runs, 4) if runs is not None else (),
            count_problems("resolution", resolution, 3) if resolution is not None else (),
            generator_problems(generators) if generators is not None else (),
            _power_of_two("blocks", blocks, 1),
            _fold_problems(foldover, foldover_block),
            center=center,
            replicates=replicates,
        )
        self.runs, self.resolution, self.generators = runs, resolution, generators
        self.foldover, self.foldover_block, self.blocks = foldover, foldover_block, blocks

    def fraction(self, space: Space) -> Fraction:
        """The fraction for this space, including foldover and blocks; raises `Invalid`."""
        names = space.names
        if len(names) < 2:
            raise Invalid(f"{self.name} takes at least 2 factors, not {len(names)}; use full_factorial")
        return self._folded(self._blocked(self._base(names)), names)

    def _sheet(self, space: Space) -> RunSheet:
        fraction = self.fraction(space)
        return RunSheet(fraction.runs(), fraction.size, fraction.labels)

    def _base(self, names: Sequence[str]) -> Fraction:
        """The fraction without blocks and foldover."""
        if self.generators is not None:
            return by_generators(self.generators, names)
        if self.resolution is not None:
            return by_resolution(self.resolution, len(names))
        assert self.runs is not None
        return by_runs(self.runs, len(names))

    def _blocked(self, fraction: Fraction) -> Fraction:
        """The fraction in blocks; raises `Invalid` if a main effect would be confounded."""
        if self.blocks == 1:
            return fraction
        found = None
        if 2 * self.blocks <= fraction.size <= MOST_RUNS:
            found = block_vectors(fraction.columns, fraction.bits, self.blocks.bit_length() - 1)
        if found is None:
            raise Invalid(
                f"blocks: {fraction.size} runs cannot be parted into {self.blocks} blocks without "
                f"confounding a main effect (or are over {MOST_RUNS}); say fewer blocks, or more runs"
            )
        return Fraction(fraction.bits, fraction.columns, fraction.flipped, found)

    def _folded(self, fraction: Fraction, names: Sequence[str]) -> Fraction:
        """The fraction with its foldover; raises `Invalid` if it would repeat the runs."""
        if self.foldover is None:
            return fraction
        if self.foldover != "all" and self.foldover not in names:
            raise Invalid(f"foldover: no factor {self.foldover!r}{nearest(self.foldover, [*names, 'all'])}")
        turned = range(len(names)) if self.foldover == "all" else [names.index(self.foldover)]
        found = fraction.folded(turned, blocks=self.foldover_block)
        if found is None:
            raise Invalid(_repeated_runs_message(fraction, names))
        return found


def by_runs(runs: int, factors: int) -> Fraction:
    """The best fraction found with `runs` runs; raises `Invalid` if there is none."""
    bits = runs.bit_length() - 1
    if factors >= runs:
        raise Invalid(
            f"runs: {runs} runs hold at most {runs - 1} two-level factors, not {factors}; "
            f"say runs = {1 << factors.bit_length()}"
        )
    if bits > factors:
        raise Invalid(
            f"runs: {factors} two-level factors have {1 << factors} combinations; say so many, or fewer"
        )
    if bits > MOST_BITS and factors - bits > 1:
        raise Invalid(
            f"runs: fractions are searched for up to {MOST_RUNS} runs; say at most so many, or the generators"
        )
    return Fraction(bits, columns(factors, bits))


def by_resolution(wanted: int, factors: int) -> Fraction:
    """The smallest fraction found of at least this resolution; raises `Invalid` if there is none."""
    if wanted > factors:
        raise Invalid(
            f"resolution: no fraction of {factors} factors has resolution {wanted}; "
            f"say at most {factors}, or use full_factorial"
        )
    least = (_rao(factors, wanted - 1) - 1).bit_length()
    for bits in range(least, min(factors, MOST_BITS + 1)):
        # The half fraction has a single word, which contains all factors.
        if bits == factors - 1 or length_of_shortest(columns(factors, bits), bits) >= wanted:
            return Fraction(bits, columns(factors, bits))
    raise Invalid(
        f"resolution: no fraction of {factors} factors with resolution {wanted} was found in up to "
        f"{MOST_RUNS} runs; say a lower resolution, or the generators"
    )


def _rao(factors: int, strength: int) -> int:
    """Rao's bound: the minimum number of runs of an orthogonal array of this strength."""
    half, odd = divmod(strength, 2)
    return sum(math.comb(factors, size) for size in range(half + 1)) + odd * math.comb(factors - 1, half)


def by_generators(generators: Sequence[str], names: Sequence[str]) -> Fraction:
    """The fraction defined by these generators; raises `Invalid` below resolution III."""
    words = parse_generators(generators, names)
    found = generated(words, names)
    if found is None:
        raise Invalid("generators: one follows from the others, or contradicts them; leave it out")
    shortest = resolution(words, len(names)) or 0
    if shortest < 3:
        raise Invalid(
            f"generators: they confound main effects with each other or with the mean (resolution "
            f"{shortest}); say runs = {found.size} for generators that do not"
        )
    return found


def _repeated_runs_message(fraction: Fraction, names: Sequence[str]) -> str:
    """The message for a foldover that would repeat the same runs."""
    words = fraction.generators(names)
    if not words:
        return "foldover: all combinations are there already; leave it out, or say replicates = 2"
    name = next(name for name in names if any(name in word for word in words))
    return (
        "foldover: it would repeat the same runs, as every word has an even number of the factors turned "
        f"round; say foldover = {name!r}, or replicates = 2"
    )


def _choice_problems(given: Mapping[str, object]) -> Iterator[str]:
    """Problems unless exactly one of the alternatives is given."""
    chosen = [name for name, value in given.items() if value is not None]
    if len(chosen) != 1:
        yield f"say one of runs, resolution, generators, not {' and '.join(chosen) or 'none'}"


def _power_of_two(name: str, value: object, least: int) -> Iterator[str]:
    """Problems with a parameter that must be a power of two."""
    problems = list(count_problems(name, value, least))
    if not problems and isinstance(value, int) and value.bit_count() != 1:
        below = 1 << value.bit_length() - 1
        problems = [f"{name}: must be a power of two, not {value}; say {below} or {2 * below}"]
    yield from problems


def _fold_problems(foldover: object, block: object) -> Iterator[str]:
    """Problems with the foldover parameters."""
    if foldover is not None and not isinstance(foldover, str):
        yield f'foldover: must be "all" or the name of a factor, not {foldover!r}'
    yield from true_or_false("foldover_block", block)
    if block is True and foldover is None:
        yield 'foldover_block: there is no foldover; say foldover = "all", or leave it out'


def register(registry: Registry) -> None:
    """Register the design `fractional_factorial`."""
    registry.add("design", FractionalFactorial.name, FractionalFactorial)
