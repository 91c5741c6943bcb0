"""The designs that could be chosen for a space, from the smallest kind to all combinations.

Each is a name and parameters, as a study would say them. Whether it fits the factors at all is found out by
laying it out.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Any, NamedTuple

from peira.core.contracts import Design
from peira.core.space import Space
from peira.design.arrangement import arranged, generators
from peira.design.dimensions import values_of
from peira.design.factorial import FullFactorial
from peira.design.fractional import FractionalFactorial, by_runs
from peira.design.model import Term
from peira.design.optimal import DOptimal
from peira.design.orthogonal import OrthogonalArray
from peira.design.screening import DefinitiveScreening, PlackettBurman

MADE: Mapping[str, Any] = {
    kind.name: kind
    for kind in (
        FullFactorial,
        FractionalFactorial,
        OrthogonalArray,
        PlackettBurman,
        DefinitiveScreening,
        DOptimal,
    )
}
MOST_BITS = 10


class Contender(NamedTuple):
    """A design by its name and parameters."""

    name: str
    parameters: Mapping[str, Any]

    @property
    def design(self) -> Design:
        made: Design = MADE[self.name](**self.parameters)
        return made

    def __str__(self) -> str:
        said = ", ".join(f"{name} = {_shown(value)}" for name, value in self.parameters.items())
        return f"{self.name}({said})" if said else self.name

    @property
    def repeatable(self) -> bool:
        """Whether it takes replicates; an optimal design takes more runs instead."""
        return self.name != DOptimal.name

    def repeated(self, times: int) -> Contender:
        """The same, every run so many times."""
        return self if times == 1 else Contender(self.name, {**self.parameters, "replicates": times})


def contenders(space: Space, wanted: Collection[Term], *, clear: bool) -> Iterator[Contender]:
    """All but the optimal ones, whose number of runs is free."""
    squares = any(power > 1 for term in wanted for _, power in term.powers)
    ranged = [d.name for d in space.dimensions if d.ranged]
    levels = {"levels": 3 if squares else 2} if ranged else {}
    yield Contender(FullFactorial.name, levels)
    if not squares:
        yield from _fractions(space, wanted, clear=clear)
    yield Contender(OrthogonalArray.name, levels)
    yield Contender(OrthogonalArray.name, {"strength": 3, **levels})
    if not squares:
        yield Contender(PlackettBurman.name, {})
        yield Contender(PlackettBurman.name, {"foldover": True})
    yield Contender(DefinitiveScreening.name, {})


def _fractions(space: Space, wanted: Collection[Term], *, clear: bool) -> Iterator[Contender]:
    """The best fraction of each size, its columns arranged for the wanted effects where that helps."""
    names = space.names
    two_level = all(d.ranged or values_of(d) == 2 for d in space.dimensions)
    effects = {frozenset(term.factors) for term in wanted}
    for bits in range(len(names).bit_length(), min(len(names), MOST_BITS + 1)):
        parameters: dict[str, Any] = {"runs": 1 << bits}
        if two_level and bits > 1 and max(map(len, effects), default=0) == 2:
            columns = by_runs(1 << bits, len(names)).columns
            better = arranged(names, columns, effects, clear=clear)
            if better is not None and tuple(better) != columns:
                parameters = {"generators": generators(names, better)}
        if bits > 1:
            yield Contender(FractionalFactorial.name, parameters)
        if not two_level:
            return


def _shown(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return repr(value) if isinstance(value, str) else str(value)
