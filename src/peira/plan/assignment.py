"""From factors to conditions: design runs, crossed with blocks, filtered by constraints.

A full factorial too large for memory is represented by its levels. Everything else is a list: the runs of the
design, for every block, every case set and every agent that takes its factors.

If several agents take the same factors, the agent is a factor too. Blocks around the design distinguish runs
and are not factors. With several case sets, each has the same runs, which are counted once.
"""

from __future__ import annotations

import inspect
from array import array
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import product
from typing import Any, Protocol, runtime_checkable

import msgspec

from peira.core.contracts import Agent, DesignMethod
from peira.core.ids import Json, digest
from peira.core.registry import nearest, registry
from peira.core.space import Dimension, Point, Space
from peira.errors import Invalid
from peira.plan.conditions import Condition, Crossed, Grid, assigned
from peira.plan.order import Sequences
from peira.spec.factors import Block, Factor
from peira.spec.study import Study

FACTORIAL = "full_factorial"
HELD = 20_000
"""Maximum number of combinations that are held as a list; more are represented by their levels."""
MOST_CONDITIONS = 1_000_000
"""Maximum number of runs of a design."""
MOST_REFUSED = 1_000
"""Maximum number of inadmissible conditions that are listed."""


@runtime_checkable
class NeedsStudy(Protocol):
    """A design whose default parameters depend on the study."""

    def asked_of(self, study: Study) -> Mapping[str, Any]:
        """Parameters derived from the study; parameters that the study states take precedence."""
        ...


@runtime_checkable
class ExplainsChoice(Protocol):
    """A design that was selected automatically and can explain the choice."""

    def why(self, space: Space) -> Sequence[str]: ...


class Assignment(msgspec.Struct, frozen=True):
    """The conditions of a study, admissible and inadmissible, and the treatment sequences."""

    admitted: Sequence[Condition]
    """The admissible conditions."""
    refused: tuple[Condition, ...]
    """The first `MOST_REFUSED` inadmissible conditions, with reasons."""
    refusals: int
    """The number of all inadmissible conditions."""
    sequences: Sequences = ()
    """For crossover designs, the order in which cases receive the conditions."""
    reasons: tuple[str, ...] = ()
    """The explanation of an automatically chosen design."""


def space_of(study: Study, agent: Agent | None = None) -> Space:
    """The design space: the factors that the agent takes (all without an agent), and the hard constraints."""
    crossed_names = {block.name for block in _crossed_blocks(study, agent)}
    factors = [f for f in _factors_of(study, agent) if f.name not in crossed_names]
    names = {factor.name for factor in factors}
    hard = [c for c in study.constraints if c.severity == "error" and c.names <= names]

    def admits(point: Mapping[str, Json]) -> bool:
        return all(constraint.admits(point) for constraint in hard)

    blocks = [Dimension(b.name, b.values) for b in study.blocks if b.name == _own_block(study)]
    return Space((*blocks, *(factor.dimension for factor in factors)), admits if hard else None)


def _factors_of(study: Study, agent: Agent | None) -> list[Factor]:
    """The factors that the agent takes."""
    return [f for f in study.factors if agent is None or agent.takes is None or f.name in agent.takes]


def _crossed_blocks(study: Study, agent: Agent | None) -> list[Block | Factor]:
    """The blocks, and the factors of kind `blocked`, that the runs of the design are crossed with."""
    blocked = [factor for factor in _factors_of(study, agent) if factor.kind == "blocked"]
    every: list[Block | Factor] = [*study.blocks, *blocked]
    return [block for block in every if block.name != _own_block(study)]


def _own_block(study: Study) -> str:
    """The name of the block factor that the design itself assigns; "" if none."""
    return str(study.design.parameters.get("block", ""))


def design_of(study: Study) -> DesignMethod:
    """Create the design with its parameters; raises `Invalid` for unknown or invalid parameters."""
    name, given = study.design.name, study.design.parameters
    make = registry.look("design", name)
    if isinstance(make, NeedsStudy):
        given = {**make.asked_of(study), **given}
    known = list(inspect.signature(make).parameters)
    if unknown := [parameter for parameter in given if parameter not in known]:
        raise Invalid(f"design: {name} has no parameter {key!r}{nearest(key, known)}" for key in unknown)
    try:
        made: DesignMethod = registry.make("design", name, **given)
    except TypeError as problem:  # a required parameter is missing
        raise Invalid(f"design: {name}: {str(problem).rpartition('__init__() ')[2]}") from None
    except Invalid as problem:
        raise Invalid(f"design: {line}" for line in problem.problems) from None
    return made


def assign(study: Study, agents: Mapping[str, Agent]) -> Assignment:
    """All conditions of the study, admissible and inadmissible."""
    if (crossed := _crossed(study, agents)) is not None:
        return _kept(study, crossed)
    found: list[Condition] = []
    sequences: list[Sequences] = []
    reasons: dict[str, None] = {}
    for agent in agents.values():
        design, space = design_of(study), space_of(study, agent)
        points = list(_points(study, design, space))
        reasons.update(dict.fromkeys(design.why(space) if isinstance(design, ExplainsChoice) else ()))
        treatments = _treatments(points, space)
        sequences.append(_sequences(points, treatments))
        found += _of_agent(study, agent, treatments or points)
    conditions = _number_replicates(found)
    refused = tuple(c for c in conditions if c.reasons)
    ordered = sequences[0] if len(agents) == 1 and not refused and len(study.case_sets) == 1 else ()
    admitted = tuple(c for c in conditions if not c.reasons)
    return Assignment(admitted, refused, len(refused), ordered, tuple(reasons))


def _points(study: Study, design: DesignMethod, space: Space) -> Iterator[Point]:
    """The runs of the design; raises `Invalid` if there are too many, or the design does not fit."""
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
    """The distinct treatments of a crossover design, in the order of the levels; empty for other designs."""
    if not any(point.period for point in points):
        return []
    ranks = {d.name: {digest(value): at for at, value in enumerate(d.levels)} for d in space.dimensions}
    found = {digest(point.factors): Point(point.factors) for point in points}
    return sorted(found.values(), key=lambda p: [ranks[name][digest(v)] for name, v in p.factors.items()])


def _sequences(points: Sequence[Point], treatments: Sequence[Point]) -> Sequences:
    """For each subject of a crossover design, the indices of its treatments in period order."""
    places = {digest(point.factors): at for at, point in enumerate(treatments)}
    subjects: dict[str, list[tuple[int, int]]] = {}
    for point in points if treatments else ():
        subjects.setdefault(point.block, []).append((point.period, places[digest(point.factors)]))
    return tuple(tuple(at for _, at in sorted(met)) for met in subjects.values())


def _of_agent(study: Study, agent: Agent, points: Iterable[Point]) -> Iterator[Condition]:
    """The conditions of one agent: blocks crossed with runs and case sets."""
    blocks = _crossed_blocks(study, agent)
    agent_digest = digest(agent.identity)
    for values in product(*(block.values for block in blocks)):
        block_values = dict(zip((block.name for block in blocks), values, strict=True))
        name = " ".join(digest(value)[:8] for value in values)
        for point in points:
            for cases in study.case_sets:
                made = assigned(
                    agent.label, agent_digest, {**block_values, **point.factors}, cases, study.labelled
                )
                placed = _placed(made, point, name)
                yield check_constraints(study, placed) if study.constraints else placed


def _placed(condition: Condition, point: Point, outer_block: str) -> Condition:
    """The condition with the block, plot and replicates of its run."""
    block = " ".join(filter(None, (outer_block, point.block)))
    return msgspec.structs.replace(condition, block=block, plot=point.plot, replicates=point.replicates)


def check_constraints(study: Study, condition: Condition) -> Condition:
    """The condition with the reasons and warnings of the constraints it violates."""
    shown = condition.shown
    broken = [c for c in study.constraints if c.names <= shown.keys() and not c.admits(shown)]
    return msgspec.structs.replace(
        condition,
        reasons=tuple(c.reason for c in broken if c.severity == "error"),
        warnings=tuple(c.reason for c in broken if c.severity == "warning"),
    )


def _number_replicates(conditions: Iterable[Condition]) -> list[Condition]:
    """Number the replicates of equal assignments consecutively, so that they are one condition."""
    seen: Counter[tuple[str, str]] = Counter()
    found = []
    for condition in conditions:
        key = condition.agent_digest, condition.digest
        found.append(msgspec.structs.replace(condition, first=seen[key]) if seen[key] else condition)
        seen[key] += condition.replicates
    return found


def _crossed(study: Study, agents: Mapping[str, Agent]) -> Crossed | None:
    """The full factorial as its levels, if it is one and too large for a list; else None."""
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


def _kept(study: Study, crossed: Crossed) -> Assignment:
    """The assignment of a full factorial kept as levels; constraints select indices of combinations."""
    if not study.constraints:
        return Assignment(crossed, (), 0)
    if crossed.size > 100 * MOST_CONDITIONS:
        raise Invalid(
            f"design: constraints on {crossed.size:,} combinations take too long to look at; "
            "take fewer levels, or a design that samples them (latin_hypercube, d_optimal)"
        )
    kept, refused, refusals = array("Q"), list[Condition](), 0
    for at, condition in enumerate(crossed.every()):
        checked = check_constraints(study, condition)
        if not checked.reasons:
            kept.append(at)
            continue
        refusals += 1
        if len(refused) < MOST_REFUSED:
            refused.append(checked)
    found = Crossed(crossed.grids, crossed.cases, crossed.labelled, kept)
    return Assignment(found, tuple(refused), refusals)


# The design as analysed


AGENT = "agent"


class StudyDesign(msgspec.Struct, frozen=True):
    """The design that a group of agents is run under: the `points`, or all combinations of `levels`."""

    agents: tuple[str, ...]
    """The labels of the agents."""
    space: Space
    """The factors, and the agent if there are several."""
    points: tuple[Point, ...] = ()
    """The runs; empty if `levels` is given."""
    levels: Mapping[str, Sequence[Json]] | None = None
    """The levels of a full factorial that is too large to list."""

    @property
    def varies(self) -> bool:
        """Whether any factor varies."""
        return any(dimension.ranged or len(dimension.levels) > 1 for dimension in self.space.dimensions)


def study_designs(
    study: Study, agents: Mapping[str, Agent], conditions: Sequence[Condition]
) -> list[StudyDesign]:
    """One design for each group of agents that take the same factors."""
    groups: dict[tuple[str, ...], list[str]] = defaultdict(list)
    for label, agent in agents.items():
        groups[space_of(study, agent).names].append(label)
    return [_of(study, agents, tuple(labels), conditions) for labels in groups.values()]


def _of(
    study: Study, agents: Mapping[str, Agent], labels: tuple[str, ...], conditions: Sequence[Condition]
) -> StudyDesign:
    """The design of one group of agents."""
    space = space_of(study, agents[labels[0]])
    if len(labels) > 1:
        space = Space((Dimension(AGENT, labels), *space.dimensions), space.admits)
    if isinstance(conditions, Crossed) and conditions.kept is None:
        levels = next(grid.levels for grid in conditions.grids if grid.agent == labels[0])
        return StudyDesign(labels, space, levels={**({AGENT: labels} if len(labels) > 1 else {}), **levels})
    cases = _largest_case_set(conditions)
    return StudyDesign(
        labels,
        space,
        tuple(_point(c, space) for c in conditions if c.agent in labels and c.cases == cases),
    )


def _largest_case_set(conditions: Sequence[Condition]) -> str:
    """The case set with the most conditions, as constraints may exclude some conditions for others."""
    counts = Counter(condition.cases for condition in conditions)
    return counts.most_common(1)[0][0] if counts else ""


def _point(condition: Condition, space: Space) -> Point:
    """The condition as a point of the space."""
    known = {AGENT: condition.agent, **condition.factors}
    factors = {name: known[name] for name in space.names}
    return Point(factors, block=condition.block, plot=condition.plot, replicates=condition.replicates)


def unconstrained(study: Study) -> Study:
    """The same study without its constraints."""
    return study.model_copy(update={"constraints": ()})
