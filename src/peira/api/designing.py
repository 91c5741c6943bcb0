"""`describe`: what the design of a study can and cannot tell, before anything is spent."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from peira.api.finding import is_run_id
from peira.api.stores import StoreLike, reading
from peira.api.studies import StudyLike, plan_of
from peira.core.contracts import Agent
from peira.core.ids import Json
from peira.core.space import Point
from peira.core.words import counted
from peira.design.choosing import Auto
from peira.design.crossed import diagnose_all
from peira.design.diagnostics import Diagnosis, diagnose
from peira.design.effect_power import Assumed
from peira.design.losses import losses
from peira.design.plain import sentences
from peira.errors import Invalid
from peira.plan.assign import assign, design_of, space_of
from peira.plan.conditions import Condition, Crossed
from peira.plan.expand import Plan, live_agents
from peira.plan.laid_out import LaidOut, laid_out, unconstrained
from peira.report.design_plot import draw
from peira.report.design_text import design_text
from peira.spec.load import load
from peira.spec.modules import refuse_while_loading
from peira.spec.project import Project
from peira.spec.study import Study


class Part(msgspec.Struct, frozen=True):
    """The design of agents that take the same factors. `lost` is what the constraints took from it."""

    agents: tuple[str, ...]
    words: tuple[str, ...]
    lost: tuple[str, ...]
    diagnosis: Diagnosis


@dataclass(frozen=True)
class Description:
    """The design of a study: what is said of it, as words, as values and as a picture."""

    study: str
    design: str
    parameters: Mapping[str, Json]
    trials: int
    notes: tuple[str, ...]
    why: tuple[str, ...]
    parts: tuple[Part, ...]
    laid_out: tuple[LaidOut, ...]

    def to_json(self) -> dict[str, Any]:
        """Plain values with stable keys."""
        names = ("study", "design", "parameters", "trials", "notes", "why", "parts")
        plain: dict[str, Any] = msgspec.to_builtins({name: getattr(self, name) for name in names})
        return plain

    def __str__(self) -> str:
        return "\n".join(self._lines())

    def _lines(self) -> Iterator[str]:
        yield f"{self.study}: {self.design}, {self.trials:,} trials"
        yield from self.notes
        for part in self.parts:
            if len(self.parts) > 1:
                yield f"\n{', '.join(part.agents)}:"
            yield from part.words
            yield from (f"constraints: {line}" for line in part.lost)
        if self.why:
            yield "\n" + "\n".join(self.why)
        for part in self.parts:
            yield (
                "\n"
                + (f"{', '.join(part.agents)}\n" if len(self.parts) > 1 else "")
                + design_text(part.diagnosis)
            )

    def plot(self, path: str | Path) -> list[Path]:
        """Draw the runs, a file for each part; returns the files."""
        file = Path(path)
        names = [file, *(file.with_stem(f"{file.stem}-{n}") for n in range(2, len(self.parts) + 1))]
        return [
            draw(one.space, _drawn(one), name, f"{self.study}: {self.design}")
            for one, name in zip(self.laid_out, names, strict=False)
        ]


def describe(
    study: StudyLike,
    *,
    store: StoreLike = None,
    formula: str | None = None,
    effect: float | None = None,
    noise: float = 1.0,
    case_noise: float = 0.0,
    power: float = 0.8,
    alpha: float = 0.05,
) -> Description:
    """What the design of a study can tell: its balance, what is confounded, with what power. Runs nothing.

    `effect` is the difference to be seen and `noise` the standard deviation of a trial, in units of the
    score; `case_noise` is how much cases differ in what a condition does to them. The smallest effect that
    is seen with the chance `power` at the level `alpha` is always told. `formula` is the model that is looked
    through; by default the design's own, or main effects with what interactions and squares can be estimated.
    """
    refuse_while_loading()
    project = Project.find()
    project.load_plugins()
    known = _study(study, store, project)
    agents = live_agents(known)
    assumed = Assumed(effect, noise, case_noise, alpha, power, max(1, _cases(known)), known.repeats)
    assigned = assign(known, agents)
    every = laid_out(known, agents, assigned.admitted)
    found = [one for one in every if one.varies] or every
    view = _View(formula or known.design.parameters.get("formula"), assumed)
    seen = [view.of(one) for one in found]
    trials = _trials(known, assigned.admitted)
    return Description(
        study=known.name,
        design=known.design.name,
        parameters=dict(known.design.parameters),
        trials=trials,
        notes=(*_notes(known, trials, assigned.refusals), *map(_alike, (o for o in every if o not in found))),
        why=tuple(_why(known, agents)),
        parts=tuple(
            Part(one.agents, tuple(sentences(diagnosis)), lost, diagnosis)
            for one, diagnosis, lost in zip(found, seen, _lost(known, agents, seen, view), strict=True)
        ),
        laid_out=tuple(found),
    )


def _study(study: StudyLike, store: StoreLike, project: Project) -> Study:
    if isinstance(study, Plan):
        return study.study
    if is_run_id(study):
        with reading(store, project) as opened:
            return plan_of(study, opened, project).study
    return project.apply(study if isinstance(study, Study) else load(study))


@dataclass(frozen=True)
class _View:
    """How a design is looked at."""

    formula: str | None
    assumed: Assumed

    def of(self, one: LaidOut) -> Diagnosis:
        if one.levels is not None:
            return diagnose_all(one.space, one.levels, self.formula, self.assumed)
        return diagnose(one.space, one.points, self.formula, self.assumed)


def _lost(
    study: Study, agents: Mapping[str, Agent], under: Sequence[Diagnosis], view: _View
) -> list[tuple[str, ...]]:
    """What the constraints took from each part. A design that was chosen under them has nothing to lose."""
    if not any(c.severity == "error" for c in study.constraints) or study.design.name == "auto":
        return [() for _ in under]
    free = unconstrained(study)
    found = [one for one in laid_out(free, agents, assign(free, agents).admitted) if one.varies]
    return [tuple(losses(view.of(one), own)) for one, own in zip(found, under, strict=True)]


def _trials(study: Study, conditions: Sequence[Condition]) -> int:
    if isinstance(conditions, Crossed) and conditions.kept is None:
        return len(conditions) // len(study.case_sets) * _cases(study) * study.repeats + study.anchors
    each = (condition.replicates * len(study.case_sets[condition.cases]) for condition in conditions)
    return sum(each) * study.repeats + study.anchors


def _cases(study: Study) -> int:
    return sum(map(len, study.case_sets.values()))


def _notes(study: Study, trials: int, refusals: int) -> Iterator[str]:
    if refusals:
        yield f"{counted(refusals, 'combination')} inadmissible, and not run"
    most = study.budget.trials
    if most is not None and most < trials:
        what = "a balanced part is run" if study.budget.excess == "subset" else "the plan is refused"
        yield f"the budget allows {most:,} trials, so {what}; what is said of power is for all of them"
    if study.order == "given":
        yield "the order is as given, NOT randomised: what drifts may look like an effect"


def _alike(one: LaidOut) -> str:
    return f"{', '.join(one.agents)}: nothing varies, so there is nothing to compare"


def _why(study: Study, agents: Mapping[str, Agent]) -> list[str]:
    """How the design was chosen, if it chooses; once for agents of which the same is said."""
    design = design_of(study)
    if not isinstance(design, Auto):
        return []
    said = {tuple(design.why(space_of(study, agent))): None for agent in agents.values()}
    return [line for lines in said for line in lines]


def _drawn(one: LaidOut) -> Sequence[Point]:
    if one.levels is None:
        return one.points
    raise Invalid("plot: there are too many combinations to draw; take fewer levels")
