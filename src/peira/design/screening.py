"""Screening designs: many factors in few runs, to find the few that matter.

`plackett_burman` takes two-level factors; two-factor interactions are partially aliased with main effects
(with a foldover, not at all). `definitive_screening` takes three levels of every factor: main effects are
orthogonal to each other, to all two-factor interactions and to all quadratic effects, and quadratic effects
are estimable.
"""

from __future__ import annotations

from collections.abc import Iterator

from peira.core.registry import Registry
from peira.core.space import Space
from peira.design.algebra.hadamard import conference, hadamard
from peira.design.coded_runs import CodedDesign, RunSheet, between, merged, true_or_false
from peira.design.dimensions import count_problems, require
from peira.errors import Invalid

MOST_RUNS = 100
"""Largest Plackett-Burman design."""
MOST_SCREENED = 50
"""Maximum number of factors of a definitive screening design."""


class PlackettBurman(CodedDesign):
    """Two-level design in a multiple of 4 runs up to 100, by default the smallest that fits.

    `foldover` adds the mirror image of every run, which clears main effects of two-factor interactions.
    """

    name = "plackett_burman"
    instead = "keep two levels, or use orthogonal_array or full_factorial, which take more"

    def __init__(
        self, *, runs: int | None = None, foldover: bool = False, center: int = 0, replicates: int = 1
    ) -> None:
        super().__init__(
            _multiple_of_four(runs) if runs is not None else (),
            true_or_false("foldover", foldover),
            center=center,
            replicates=replicates,
        )
        self.runs, self.foldover = runs, foldover

    def _sheet(self, space: Space) -> RunSheet:
        """The first columns of a Hadamard matrix, with their mirror image if folded over."""
        factors = len(space.dimensions)
        require(between(space, self.name, 2, MOST_RUNS - 1, "use full_factorial, or leave some out"))
        least = 4 * (factors // 4 + 1)
        runs = self.runs or least
        if runs < least:
            raise Invalid(
                f"runs: {runs} runs hold at most {runs - 1} factors, not {factors}; say runs = {least}"
            )
        matrix = hadamard(runs)
        assert matrix is not None
        rows = [tuple(map(float, row[1 : factors + 1])) for row in matrix]
        found = merged(rows + [tuple(-x for x in row) for row in rows] if self.foldover else rows)
        return RunSheet(found, len(found))


class DefinitiveScreening(CodedDesign):
    """Three-level design for k factors in 2k + 1 runs (2k + 3 for odd k), or a few more.

    `fake` factors, which are not run, enlarge the design and give degrees of freedom for the error. `center`
    is the number of centre runs, at least one.
    """

    name = "definitive_screening"
    places = (-1.0, 0.0, 1.0)
    instead = "give a range or three evenly spaced levels, or use orthogonal_array or space_filling"

    def __init__(self, *, fake: int = 0, center: int = 1, replicates: int = 1) -> None:
        super().__init__(
            count_problems("fake", fake, 0, MOST_SCREENED),
            ["center: there must be at least 1"] if center == 0 else (),
            center=center,
            replicates=replicates,
        )
        self.fake = fake

    def _sheet(self, space: Space) -> RunSheet:
        """A conference matrix and its mirror image."""
        factors = len(space.dimensions)
        require(
            between(space, self.name, 3, MOST_SCREENED, "use central_composite for fewer, or leave some out")
        )
        order = factors + self.fake
        while (matrix := conference(order)) is None:
            order += 1
        rows = [tuple(map(float, row[:factors])) for row in matrix]
        found = merged(turned for row in rows for turned in (row, tuple(-x for x in row)))
        return RunSheet(found, len(found))


def _multiple_of_four(runs: object) -> Iterator[str]:
    """Problems with a number of runs that must be a multiple of 4."""
    problems = list(count_problems("runs", runs, 4, MOST_RUNS))
    if not problems and isinstance(runs, int) and runs % 4:
        below = runs // 4 * 4
        problems = [f"runs: must be a multiple of 4, not {runs}; say {below} or {below + 4}"]
    yield from problems


def register(registry: Registry) -> None:
    """Register the designs `plackett_burman` and `definitive_screening`."""
    for design in (PlackettBurman, DefinitiveScreening):
        registry.add("design", design.name, design)
