"""From factors to conditions: the design lays out runs, blocks cross them, constraints exclude some.

A full factorial too large to hold is kept as its levels. Everything else is a list: the runs of the design,
each for every block, every case set and every agent that takes its factors.
"""

from __future__ import annotations

import inspect
from array import array
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any, Protocol, runtime_checkable

import msgspec

from peira.core.contracts import Agent, Design
from peira.core.ids import Json, digest
from peira.core.registry import nearest, registry
from peira.core.space import Dimension, Point, Space
from peira.errors import Invalid
from peira.plan.conditions import Condition, Crossed, Grid, assigned
from peira.plan.sequence import Sequences
from peira.spec.factors import Block, Factor
from peira.spec.study import Study

FACTORIAL = "full_factorial"
HELD = 20_000
"""More combinations than this are kept as their levels."""
MOST_CONDITIONS = 1_000_000
MOST_REFUSED = 1_000


@runtime_checkable
class Asks(Protocol):
    """A design that wants to know what the study is for."""

    def asked_of(self, study: Study) -> Mapping[str, Any]:
        """The parameters that follow from the study; those that it states itself go before them."""
        ...


@runtime_checkable
class Explains(Protocol):
    """A design that was chosen by what it found, and says so."""

    def why(self, space: Space) -> Sequence[str]: ...


@dataclass(frozen=True)
class Assigned:
    """The admissible conditions, those that are not (the first `MOST_REFUSED` of `refusals`), and in which
    order cases meet them, where that matters. `reasons` are those of a design that was chosen, not named."""

    admitted: Sequence[Condition]
    refused: tuple[Condition, ...]
    refusals: int
    sequences: Sequences = ()
    reasons: tuple[str, ...] = ()


def space_of(study: Study, agent: Agent | None = None) -> Space:
    """The factors that an agent takes (without one, all), as the design sees them."""
    around = {block.name for block in _around(study, agent)}
    taken = [f for f in _taken(study, agent) if f.name not in around]
    names = {factor.name for factor in taken}
    hard = [c for c in study.constraints if c.severity == "error" and c.names <= names]

    def admits(point: Mapping[str, Json]) -> bool:
        return all(constraint.admits(point) for constraint in hard)

    blocks = [Dimension(b.name, b.values) for b in study.blocks if b.name == _own_block(study)]
    return Space((*blocks, *(factor.dimension for factor in taken)), admits if hard else None)


def _taken(study: Study, agent: Agent | None) -> list[Factor]:
    return [f for f in study.factors if agent is None or agent.takes is None or f.name in agent.takes]


def _around(study: Study, agent: Agent | None) -> list[Block | Factor]:
    """The blocks, and the factors that are blocks, with which the design's runs are crossed."""
    blocked = [factor for factor in _taken(study, agent) if factor.kind == "blocked"]
    every: list[Block | Factor] = [*study.blocks, *blocked]
    return [block for block in every if block.name != _own_block(study)]


def _own_block(study: Study) -> str:
    """The block that the design places itself."""
    return str(study.design.parameters.get("block", ""))


def design_of(study: Study) -> Design:
    """The design, made with its parameters; Invalid names what is wrong with them."""
    name, given = study.design.name, study.design.parameters
    make = registry.look("design", name)
    if isinstance(make, Asks):
        given = {**make.asked_of(study), **given}
    known = list(inspect.signature(make).parameters)
    if unknown := [parameter for parameter in given if parameter not in known]:
        raise Invalid(f"design: {name} has no parameter {key!r}{nearest(key, known)}" for key in unknown)
    try:
        made: Design = registry.make("design", name, **given)
    except TypeError as problem:  # a parameter that must be given is not
        raise Invalid(f"design: {name}: {str(problem).rpartition('__init__() ')[2]}") from None
    except Invalid as problem:
        raise Invalid(f"design: {line}" for line in problem.problems) from None
    return made


def assign(study: Study, agents: Mapping[str, Agent]) -> Assigned:
    """Every condition of the study."""
    if (crossed := _crossed(study, agents)) is not None:
        return _kept(study, crossed)
    found: list[Condition] = []
    sequences: list[Sequences] = []
    reasons: dict[str, None] = {}
    for agent in agents.values():
        design, space = design_of(study), space_of(study, agent)
        points = list(_points(study, design, space))
        reasons.update(dict.fromkeys(design.why(space) if isinstance(design, Explains) else ()))
        treatments = _treatments(points, space)
        sequences.append(_sequences(points, treatments))
        found += _of_agent(study, agent, treatments or points)
    conditions = _told_apart(found)
    refused = tuple(c for c in conditions if c.reasons)
    ordered = sequences[0] if len(agents) == 1 and not refused and len(study.case_sets) == 1 else ()
    admitted = tuple(c for c in conditions if not c.reasons)
    return Assigned(admitted, refused, len(refused), ordered, tuple(reasons))


def _points(study: Study, design: Design, space: Space) -> Iterator[Point]:
    try:
        size = design.size(space)
        if size > MOST_CONDITIONS:
            raise Invalid(
                f"{study.design.name} has {size:,} runs, more than can be held; "
                "take fewer levels, or a design that samples them (latin_hypercube, d_optimal)"
            )
        yield from design.points(space, study.seed)
    except Invalid as problem:
        raise Invalid(f"design: {line}" for line in problem.problems) from None


def _treatments(points: Sequence[Point], space: Space) -> list[Point]:
    """What subjects get one after the other, each once, in the order of the levels."""
    if not any(point.period for point in points):
        return []
    ranks = {d.name: {digest(value): at for at, value in enumerate(d.levels)} for d in space.dimensions}
    found = {digest(point.factors): Point(point.factors) for point in points}
    return sorted(found.values(), key=lambda p: [ranks[name][digest(v)] for name, v in p.factors.items()])


def _sequences(points: Sequence[Point], treatments: Sequence[Point]) -> Sequences:
    """For each subject the places of its treatments, in the order it gets them."""
    places = {digest(point.factors): at for at, point in enumerate(treatments)}
    subjects: dict[str, list[tuple[int, int]]] = {}
    for point in points if treatments else ():
        subjects.setdefault(point.block, []).append((point.period, places[digest(point.factors)]))
    return tuple(tuple(at for _, at in sorted(met)) for met in subjects.values())


def _of_agent(study: Study, agent: Agent, points: Iterable[Point]) -> Iterator[Condition]:
    around = _around(study, agent)
    agent_digest = digest(agent.identity)
    for values in product(*(block.values for block in around)):
        own = dict(zip((block.name for block in around), values, strict=True))
        name = " ".join(digest(value)[:8] for value in values)
        for point in points:
            for cases in study.case_sets:
                made = assigned(agent.label, agent_digest, {**own, **point.factors}, cases, study.labelled)
                yield judged(study, _placed(made, point, name))


def _placed(condition: Condition, point: Point, around: str) -> Condition:
    block = " ".join(filter(None, (around, point.block)))
    return msgspec.structs.replace(condition, block=block, plot=point.plot, replicates=point.replicates)


def judged(study: Study, condition: Condition) -> Condition:
    """The condition with what the constraints say of it."""
    if not study.constraints:
        return condition
    shown = condition.shown
    broken = [c for c in study.constraints if c.names <= shown.keys() and not c.admits(shown)]
    return msgspec.structs.replace(
        condition,
        reasons=tuple(c.reason for c in broken if c.severity == "error"),
        warnings=tuple(c.reason for c in broken if c.severity == "warning"),
    )


def _told_apart(conditions: Iterable[Condition]) -> list[Condition]:
    """The same assignment in several places of a design is one condition: its replicates are counted on."""
    seen: Counter[tuple[str, str]] = Counter()
    found = []
    for condition in conditions:
        key = condition.agent_digest, condition.digest
        found.append(msgspec.structs.replace(condition, first=seen[key]) if seen[key] else condition)
        seen[key] += condition.replicates
    return found


def _crossed(study: Study, agents: Mapping[str, Agent]) -> Crossed | None:
    """All combinations as their levels, if the design is nothing else and they are too many to hold."""
    plain = study.design.name == FACTORIAL and not study.design.parameters and not study.blocks
    plain = plain and not any(factor.kind == "blocked" for factor in study.factors)
    if not plain or any(factor.ranged and not factor.levels for factor in study.factors):
        return None
    grids = [
        Grid(agent.label, digest(agent.identity), {d.name: list(d.levels) for d in space.dimensions})
        for agent in agents.values()
        for space in [space_of(study, agent)]
    ]
    crossed = Crossed(grids, list(study.case_sets), study.labelled)
    return crossed if crossed.size > HELD else None


def _kept(study: Study, crossed: Crossed) -> Assigned:
    if not study.constraints:
        return Assigned(crossed, (), 0)
    if crossed.size > 100 * MOST_CONDITIONS:
        raise Invalid(
            f"design: constraints on {crossed.size:,} combinations take too long to look at; "
            "take fewer levels, or a design that samples them (latin_hypercube, d_optimal)"
        )
    kept, refused, refusals = array("Q"), list[Condition](), 0
    for at, condition in enumerate(crossed.every()):
        said = judged(study, condition)
        if not said.reasons:
            kept.append(at)
            continue
        refusals += 1
        if len(refused) < MOST_REFUSED:
            refused.append(said)
    found = Crossed(crossed.grids, crossed.cases, crossed.labelled, kept)
    return Assigned(found, tuple(refused), refusals)
