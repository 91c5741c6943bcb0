"""The designs of a study as they can be looked at: spaces and runs, by what agents take.

With several such agents, the agent is a factor too. Blocks around the design tell runs apart, and are no
factors. Where there are several case sets, each has the same runs: they are counted once.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from peira.core.contracts import Agent
from peira.core.ids import Json
from peira.core.space import Dimension, Point, Space
from peira.plan.assign import space_of
from peira.plan.conditions import Condition, Crossed
from peira.spec.study import Study

AGENT = "agent"


@dataclass(frozen=True)
class LaidOut:
    """What some agents are run under: the `points`, or all combinations of the `levels`."""

    agents: tuple[str, ...]
    space: Space
    points: tuple[Point, ...] = ()
    levels: Mapping[str, Sequence[Json]] | None = None

    @property
    def varies(self) -> bool:
        """Whether there is anything to compare."""
        return any(dimension.ranged or len(dimension.levels) > 1 for dimension in self.space.dimensions)


def laid_out(study: Study, agents: Mapping[str, Agent], conditions: Sequence[Condition]) -> list[LaidOut]:
    """One for all agents that take the same factors."""
    groups: dict[tuple[str, ...], list[str]] = defaultdict(list)
    for label, agent in agents.items():
        groups[space_of(study, agent).names].append(label)
    return [_of(study, agents, tuple(labels), conditions) for labels in groups.values()]


def _of(
    study: Study, agents: Mapping[str, Agent], labels: tuple[str, ...], conditions: Sequence[Condition]
) -> LaidOut:
    space = space_of(study, agents[labels[0]])
    if len(labels) > 1:
        space = Space((Dimension(AGENT, labels), *space.dimensions), space.admits)
    if isinstance(conditions, Crossed) and conditions.kept is None:
        levels = next(grid.levels for grid in conditions.grids if grid.agent == labels[0])
        return LaidOut(labels, space, levels={**({AGENT: labels} if len(labels) > 1 else {}), **levels})
    cases = _most_run(conditions)
    return LaidOut(
        labels,
        space,
        tuple(_point(c, space) for c in conditions if c.agent in labels and c.cases == cases),
    )


def _most_run(conditions: Sequence[Condition]) -> str:
    """The case set with the most conditions: a constraint may exclude some for others."""
    counts = Counter(condition.cases for condition in conditions)
    return counts.most_common(1)[0][0] if counts else ""


def _point(condition: Condition, space: Space) -> Point:
    known = {AGENT: condition.agent, **condition.factors}
    factors = {name: known[name] for name in space.names}
    return Point(factors, block=condition.block, plot=condition.plot, replicates=condition.replicates)


def unconstrained(study: Study) -> Study:
    """The same study without its constraints."""
    return study.model_copy(update={"constraints": ()})
