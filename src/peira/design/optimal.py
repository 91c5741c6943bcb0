"""Optimal designs for a stated model, within the constraints.

- `d_optimal` minimises the volume of the joint confidence region of all parameters;
- `i_optimal` minimises the average prediction variance over the admissible space;
- `augment` adds runs to an existing design, D-optimal for all runs together.

They are found by coordinate exchange from random starts: usually optimal or within a percent of it, not
proven so. A range is searched on a grid of 41 values, ends included. A run that is chosen twice is listed
twice.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, ClassVar

from peira.core.ids import Json
from peira.core.registry import Registry
from peira.core.space import Point, Space
from peira.design.coordinate_exchange import (
    Problem,
    allowed,
    best,
    inestimable,
    moments,
    pool,
    searched,
    tables,
)
from peira.design.custom import Custom
from peira.design.dimensions import count_problems, generator, require, space_problems
from peira.design.model import Term, encode, parameters, parse, width
from peira.errors import Invalid

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Matrix = NDArray[np.float64]

MOST_RUNS, MOST_PARAMETERS, MOST_STARTS = 5000, 300, 1000
EFFORT = 2e8
"""Approximate number of operations that the default number of starts may take."""


class _Optimal(ABC):
    """Base class: given runs, completed by runs chosen for the model of the `formula`.

    `starts` is the number of random starts of the search; 0 takes as many, up to 30, as run in seconds.
    """

    name: ClassVar[str]

    def __init__(self, *, runs: int, formula: str, starts: int) -> None:
        require(
            count_problems("runs", runs, 1, MOST_RUNS),
            _text("formula", formula),
            count_problems("starts", starts, 1, MOST_STARTS) if starts != 0 else (),
        )
        self.runs, self.formula, self.starts = runs, formula, starts

    @abstractmethod
    def _given(self, space: Space) -> list[Point]:
        """The runs that are given and not searched for."""

    def _more(self, given: Sequence[Point]) -> int:
        """The number of runs to choose."""
        return self.runs

    def _moments(self, space: Space, terms: Sequence[Term]) -> Matrix | None:
        """The moment matrix for the I criterion; None for D."""
        return None

    def size(self, space: Space) -> int:
        """The number of runs, given and chosen; raises `Invalid` if the model needs more."""
        given, _ = self._checked(space)
        return len(given) + self._more(given)

    def points(self, space: Space, seed: int) -> Iterator[Point]:
        """The given runs, then the chosen ones; raises `Invalid` if the model cannot be estimated."""
        given, terms = self._checked(space)
        more = self._more(given)
        chosen = self._chosen(space, terms, given, more, generator(seed, self.name)) if more else []
        return iter([*given, *chosen])

    def _checked(self, space: Space) -> tuple[list[Point], tuple[Term, ...]]:
        """The given runs and the terms of the model; raises `Invalid` with every problem."""
        require(space_problems(space))
        terms, given = parse(self.formula, space), self._given(space)
        require(self._run_problems(parameters(space, terms), given))
        return given, terms

    def _run_problems(self, wanted: int, given: Sequence[Point]) -> Iterator[str]:
        """Problems with the number of parameters or of runs."""
        there = sum(point.replicates for point in given)
        more = self._more(given)
        if wanted > MOST_PARAMETERS:
            yield f"formula: the model has {wanted} parameters; say one with at most {MOST_PARAMETERS}"
        elif more < 0:
            yield f"runs: {there} are included already; say at least {there}"
        elif more + there < wanted:
            least = self.runs + wanted - more - there
            yield f"runs: the model has {wanted} parameters; say at least {least}, or a smaller formula"

    def _chosen(
        self, space: Space, terms: Sequence[Term], given: Sequence[Point], more: int, rng: np.random.Generator
    ) -> list[Point]:
        """Search for the remaining runs; raises `Invalid` if none can estimate the model."""
        fixed, _ = encode(space, [p.factors for p in given for _ in range(p.replicates)], terms)
        allows = allowed(space)
        problem = Problem(
            tables(space, terms), fixed, pool(space, allows, rng), allows, self._moments(space, terms)
        )
        found = best(problem, more, self.starts or _starts(problem, more), rng)
        if found is None:
            raise Invalid(_failure_message(space, terms, problem))
        values = [searched(dimension) for dimension in space.dimensions]
        rows = ([own[place] for own, place in zip(values, row, strict=True)] for row in found.tolist())
        return [Point(dict(zip(space.names, row, strict=True))) for row in rows]


class DOptimal(_Optimal):
    """A D-optimal design of `runs` runs in total for the model of the `formula`.

    The runs of `include` are part of the design; the others are chosen by coordinate exchange from `starts`
    random starts. Raises `Invalid` if the model has more parameters than there are runs, or cannot be
    estimated under the constraints.
    """

    name = "d_optimal"

    def __init__(
        self, *, runs: int, formula: str = "main", include: Sequence[Mapping[str, Json]] = (), starts: int = 0
    ) -> None:
        super().__init__(runs=runs, formula=formula, starts=starts)
        self.include = _rows("include", include)

    def _given(self, space: Space) -> list[Point]:
        """The runs of `include`; raises `Invalid` if the constraints exclude one."""
        given = _points("include", self.include, space)
        require(
            f"include: the constraints exclude {point.factors}; change it, or leave it out"
            for point in given
            if not space.allows(point.factors)
        )
        return given

    def _more(self, given: Sequence[Point]) -> int:
        return self.runs - sum(point.replicates for point in given)


class IOptimal(DOptimal):
    """An I-optimal design: minimal average prediction variance over the admissible space.

    Takes the same parameters as `d_optimal`.
    """

    name = "i_optimal"

    def _moments(self, space: Space, terms: Sequence[Term]) -> Matrix | None:
        return moments(space, terms)


class Augment(_Optimal):
    """An existing design, extended by `runs` further runs that are D-optimal together with it.

    The existing runs are given as `rows` or in a CSV or JSON `file`. They may violate the constraints; the
    added runs do not.
    """

    name = "augment"

    def __init__(
        self,
        *,
        runs: int,
        rows: Sequence[Mapping[str, Json]] | None = None,
        file: str | None = None,
        formula: str = "main",
        starts: int = 0,
    ) -> None:
        super().__init__(runs=runs, formula=formula, starts=starts)
        self.there = Custom(rows=rows, file=file)

    def _given(self, space: Space) -> list[Point]:
        return _points("the runs that are there", self.there, space)


def _rows(parameter: str, rows: Sequence[Mapping[str, Json]]) -> Custom | None:
    """The rows as a custom design; problems name the parameter."""
    try:
        return Custom(rows=rows) if rows != () else None
    except Invalid as error:
        raise Invalid(f"{parameter}: {problem}" for problem in error.problems) from None


def _points(what: str, rows: Custom | None, space: Space) -> list[Point]:
    """The points of the rows; problems name their origin."""
    try:
        return list(rows.points(space, 0)) if rows else []
    except Invalid as error:
        raise Invalid(f"{what}: {problem}" for problem in error.problems) from None


def _text(parameter: str, value: object) -> Iterator[str]:
    if not isinstance(value, str):
        yield f"{parameter}: must be a text, not {value!r}"


def _starts(problem: Problem, runs: int) -> int:
    """The default number of random starts, from the cost of one start."""
    moves = sum(map(len, problem.tables)) + (len(problem.pool) if problem.allowed else 0)
    work = runs * moves * problem.fixed.shape[1] ** 2 * (1 if problem.moments is None else 3)
    return max(1, min(30, int(EFFORT / work)))


def _failure_message(space: Space, terms: Sequence[Term], problem: Problem) -> str:
    """The message that explains why no design found can estimate the model."""
    import numpy as np

    labels = [term.label for term in terms for _ in range(width(term, space))]
    lost = inestimable(np.vstack([problem.fixed, problem.rows(problem.pool)]), labels)
    if lost:
        return f"formula: the constraints leave no way to estimate all of {', '.join(lost)}; leave it out"
    return "runs: none of the designs tried can estimate the model; say more runs, or more starts"


def register(registry: Registry) -> None:
    """Register the designs `d_optimal`, `i_optimal` and `augment`."""
    for design in (DOptimal, IOptimal, Augment):
        registry.add("design", design.name, design)
