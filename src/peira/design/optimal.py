"""Optimal designs: the runs that tell most about a stated model, wherever the constraints allow.

- `d_optimal` makes the joint confidence region of all parameters as small as it can;
- `i_optimal` makes the variance of a prediction, averaged over the admissible space, as small as it can;
- `augment` adds runs to those that are there, D-optimally for all of them together.

They are found by coordinate exchange from random starts: as a rule the best there are or within a percent,
not proven so. A range is tried at 41 places, ends included. A run that comes twice stands there twice.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, ClassVar

from peira.core.ids import Json
from peira.core.registry import Registry
from peira.core.space import Point, Space
from peira.design.candidates import allowed, inestimable, moments, pool, searched, tables
from peira.design.custom import Custom
from peira.design.dimensions import counted, generator, require, unfit
from peira.design.exchange import Problem, best
from peira.design.model import Term, encode, parameters, parse, width
from peira.errors import Invalid

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Matrix = NDArray[np.float64]

MOST_RUNS, MOST_PARAMETERS, MOST_STARTS = 5000, 300, 1000
EFFORT = 2e8


class _Optimal(ABC):
    """Runs that are given, and others chosen for the model.

    `starts` says from how many random designs to search; by default as many, up to 30, as take seconds.
    """

    name: ClassVar[str]

    def __init__(self, *, runs: int, formula: str, starts: int) -> None:
        require(
            counted("runs", runs, 1, MOST_RUNS),
            _text("formula", formula),
            counted("starts", starts, 1, MOST_STARTS) if starts != 0 else (),
        )
        self.runs, self.formula, self.starts = runs, formula, starts

    @abstractmethod
    def _given(self, space: Space) -> list[Point]:
        """The runs that are given."""

    def _more(self, given: Sequence[Point]) -> int:
        """How many runs are to be chosen."""
        return self.runs

    def _moments(self, space: Space, terms: Sequence[Term]) -> Matrix | None:
        return None

    def size(self, space: Space) -> int:
        given, _ = self._checked(space)
        return len(given) + self._more(given)

    def points(self, space: Space, seed: int) -> Iterator[Point]:
        given, terms = self._checked(space)
        more = self._more(given)
        chosen = self._chosen(space, terms, given, more, generator(seed, self.name)) if more else []
        return iter([*given, *chosen])

    def _checked(self, space: Space) -> tuple[list[Point], tuple[Term, ...]]:
        require(unfit(space))
        terms, given = parse(self.formula, space), self._given(space)
        require(self._impossible(parameters(space, terms), given))
        return given, terms

    def _impossible(self, wanted: int, given: Sequence[Point]) -> Iterator[str]:
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
        fixed, _ = encode(space, [p.factors for p in given for _ in range(p.replicates)], terms)
        allows = allowed(space)
        problem = Problem(
            tables(space, terms), fixed, pool(space, allows, rng), allows, self._moments(space, terms)
        )
        found = best(problem, more, self.starts or _starts(problem, more), rng)
        if found is None:
            raise Invalid(_why(space, terms, problem))
        values = [searched(dimension) for dimension in space.dimensions]
        rows = ([own[place] for own, place in zip(values, row, strict=True)] for row in found.tolist())
        return [Point(dict(zip(space.names, row, strict=True))) for row in rows]


class DOptimal(_Optimal):
    """`runs` runs in all, those that must be among them in `include`, for the model of the `formula`."""

    name = "d_optimal"

    def __init__(
        self, *, runs: int, formula: str = "main", include: Sequence[Mapping[str, Json]] = (), starts: int = 0
    ) -> None:
        super().__init__(runs=runs, formula=formula, starts=starts)
        self.include = _rows("include", include)

    def _given(self, space: Space) -> list[Point]:
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
    """As `d_optimal`, for the mean variance of prediction over the admissible space."""

    name = "i_optimal"

    def _moments(self, space: Space, terms: Sequence[Term]) -> Matrix | None:
        return moments(space, terms)


class Augment(_Optimal):
    """The runs that are there, as `rows` or in a CSV or JSON `file`, and `runs` more."""

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
    try:
        return Custom(rows=rows) if rows != () else None
    except Invalid as error:
        raise Invalid(f"{parameter}: {problem}" for problem in error.problems) from None


def _points(what: str, rows: Custom | None, space: Space) -> list[Point]:
    try:
        return list(rows.points(space, 0)) if rows else []
    except Invalid as error:
        raise Invalid(f"{what}: {problem}" for problem in error.problems) from None


def _text(parameter: str, value: object) -> Iterator[str]:
    if not isinstance(value, str):
        yield f"{parameter}: must be a text, not {value!r}"


def _starts(problem: Problem, runs: int) -> int:
    moves = sum(map(len, problem.tables)) + (len(problem.pool) if problem.allowed else 0)
    work = runs * moves * problem.fixed.shape[1] ** 2 * (1 if problem.moments is None else 3)
    return max(1, min(30, int(EFFORT / work)))


def _why(space: Space, terms: Sequence[Term], problem: Problem) -> str:
    """Why no design was found that can estimate the model."""
    import numpy as np

    labels = [term.label for term in terms for _ in range(width(term, space))]
    lost = inestimable(np.vstack([problem.fixed, problem.rows(problem.pool)]), labels)
    if lost:
        return f"formula: the constraints leave no way to estimate all of {', '.join(lost)}; leave it out"
    return "runs: none of the designs tried can estimate the model; say more runs, or more starts"


def register(registry: Registry) -> None:
    for design in (DOptimal, IOptimal, Augment):
        registry.add("design", design.name, design)
