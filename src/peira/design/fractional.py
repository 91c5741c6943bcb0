"""The two-level fractional factorial 2^(k-p): a regular fraction of all combinations, chosen so that what
matters is confounded only with what hardly does.

Say how many `runs`, or which `resolution` (the smallest fraction found that has it), or the `generators`
themselves. With runs = 2^k it is the full factorial, which may then be had in blocks.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence

from peira.core.registry import Registry, nearest
from peira.core.space import Space
from peira.design.aberration import MOST_BITS, columns, length_of_shortest
from peira.design.confounding import block_vectors
from peira.design.dimensions import counted
from peira.design.fraction import Fraction, generated
from peira.design.generators import ill_written, parsed
from peira.design.runs import Coded, Sheet, true_or_false
from peira.design.words import resolution
from peira.errors import Invalid

MOST_RUNS = 1 << MOST_BITS


class FractionalFactorial(Coded):
    """A fraction of the two-level factorial, of the highest resolution and with the fewest shortest words.

    `foldover` adds as many runs again with every factor turned round ("all"), or the named one;
    `foldover_block` makes them a block of their own. `blocks` (2, 4, 8, ...) are confounded with
    interactions of the highest order there is. `fraction` gives the words, for who wants to know what is
    confounded.
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
            _one_of(given),
            _power_of_two("runs", runs, 4) if runs is not None else (),
            counted("resolution", resolution, 3) if resolution is not None else (),
            ill_written(generators) if generators is not None else (),
            _power_of_two("blocks", blocks, 1),
            _fold_problems(foldover, foldover_block),
            center=center,
            replicates=replicates,
        )
        self.runs, self.resolution, self.generators = runs, resolution, generators
        self.foldover, self.foldover_block, self.blocks = foldover, foldover_block, blocks

    def fraction(self, space: Space) -> Fraction:
        """The fraction of this space, foldover and blocks included."""
        names = space.names
        if len(names) < 2:
            raise Invalid(f"{self.name} takes at least 2 factors, not {len(names)}; use full_factorial")
        return self._folded(self._blocked(self._base(names)), names)

    def _sheet(self, space: Space) -> Sheet:
        fraction = self.fraction(space)
        return Sheet(fraction.runs(), fraction.size, fraction.labels)

    def _base(self, names: Sequence[str]) -> Fraction:
        if self.generators is not None:
            return by_generators(self.generators, names)
        if self.resolution is not None:
            return by_resolution(self.resolution, len(names))
        assert self.runs is not None
        return by_runs(self.runs, len(names))

    def _blocked(self, fraction: Fraction) -> Fraction:
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
        if self.foldover is None:
            return fraction
        if self.foldover != "all" and self.foldover not in names:
            raise Invalid(f"foldover: no factor {self.foldover!r}{nearest(self.foldover, [*names, 'all'])}")
        turned = range(len(names)) if self.foldover == "all" else [names.index(self.foldover)]
        found = fraction.folded(turned, blocks=self.foldover_block)
        if found is None:
            raise Invalid(_same_runs(fraction, names))
        return found


def by_runs(runs: int, factors: int) -> Fraction:
    """The best fraction found with so many runs."""
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
    """The smallest fraction found with this resolution, or a higher one."""
    if wanted > factors:
        raise Invalid(
            f"resolution: no fraction of {factors} factors has resolution {wanted}; "
            f"say at most {factors}, or use full_factorial"
        )
    least = (_rao(factors, wanted - 1) - 1).bit_length()
    for bits in range(least, min(factors, MOST_BITS + 1)):
        # The half has one word, with all factors in it.
        if bits == factors - 1 or length_of_shortest(columns(factors, bits), bits) >= wanted:
            return Fraction(bits, columns(factors, bits))
    raise Invalid(
        f"resolution: no fraction of {factors} factors with resolution {wanted} was found in up to "
        f"{MOST_RUNS} runs; say a lower resolution, or the generators"
    )


def _rao(factors: int, strength: int) -> int:
    """The fewest runs that any design of this strength can have (Rao's bound)."""
    half, odd = divmod(strength, 2)
    return sum(math.comb(factors, size) for size in range(half + 1)) + odd * math.comb(factors - 1, half)


def by_generators(generators: Sequence[str], names: Sequence[str]) -> Fraction:
    """The fraction that these generators make, of resolution III at least."""
    words = parsed(generators, names)
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


def _same_runs(fraction: Fraction, names: Sequence[str]) -> str:
    words = fraction.generators(names)
    if not words:
        return "foldover: all combinations are there already; leave it out, or say replicates = 2"
    name = next(name for name in names if any(name in word for word in words))
    return (
        "foldover: it would repeat the same runs, as every word has an even number of the factors turned "
        f"round; say foldover = {name!r}, or replicates = 2"
    )


def _one_of(given: Mapping[str, object]) -> Iterator[str]:
    said = [name for name, value in given.items() if value is not None]
    if len(said) != 1:
        yield f"say one of runs, resolution, generators, not {' and '.join(said) or 'none'}"


def _power_of_two(name: str, value: object, least: int) -> Iterator[str]:
    problems = list(counted(name, value, least))
    if not problems and isinstance(value, int) and value.bit_count() != 1:
        below = 1 << value.bit_length() - 1
        problems = [f"{name}: must be a power of two, not {value}; say {below} or {2 * below}"]
    yield from problems


def _fold_problems(foldover: object, block: object) -> Iterator[str]:
    if foldover is not None and not isinstance(foldover, str):
        yield f'foldover: must be "all" or the name of a factor, not {foldover!r}'
    yield from true_or_false("foldover_block", block)
    if block is True and foldover is None:
        yield 'foldover_block: there is no foldover; say foldover = "all", or leave it out'


def register(registry: Registry) -> None:
    registry.add("design", FractionalFactorial.name, FractionalFactorial)
