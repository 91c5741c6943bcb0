"""`describe`: what the design of a study can and cannot estimate."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from peira.app.session import Session, SessionLike
from peira.app.store.runs import names_run
from peira.app.studies import StudyLike, plan_of
from peira.core.contracts import Agent
from peira.core.ids import Json
from peira.core.space import Point
from peira.core.text.words import counted
from peira.design.auto.choice import Auto
from peira.design.diagnose.diagnosis import Diagnosis, diagnose
from peira.design.diagnose.effect_power import Assumed
from peira.design.diagnose.full_factorial import diagnose_full_factorial
from peira.design.diagnose.sentences import losses, sentences
from peira.errors import Invalid
from peira.plan.assignment import StudyDesign, assign, design_of, space_of, study_designs, unconstrained
from peira.plan.conditions import Condition, Crossed
from peira.plan.expansion import Plan, live_agents
from peira.report.design import design_text, draw
from peira.spec.factors import Factor
from peira.spec.modules import refuse_while_loading
from peira.spec.study import Study
from peira.spec.study_files import load


class DesignPart(msgspec.Struct, frozen=True):
    """The design of agents that take the same factors; `lost`: properties the constraints took away."""

    agents: tuple[str, ...]
    words: tuple[str, ...]
    lost: tuple[str, ...]
    diagnosis: Diagnosis


@dataclass(frozen=True)
class DesignDescription:
    """The description of a study's design, as text, as values and as a picture."""

    study: str
    design: str
    parameters: Mapping[str, Json]
    trials: int
    notes: tuple[str, ...]
    why: tuple[str, ...]
    parts: tuple[DesignPart, ...]
    laid_out: tuple[StudyDesign, ...]

    def to_json(self) -> dict[str, Any]:
        """Plain values with stable keys."""
        names = ("study", "design", "parameters", "trials", "notes", "why", "parts")
        plain: dict[str, Any] = msgspec.to_builtins({name: getattr(self, name) for name in names})
        return plain

    def __str__(self) -> str:
        return "\n".join(self._lines())

    def _lines(self) -> Iterator[str]:
        """The text, line by line."""
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
        """Draw the runs of the design, one file per part; returns the files."""
        file = Path(path)
        names = [file, *(file.with_stem(f"{file.stem}-{n}") for n in range(2, len(self.parts) + 1))]
        return [
            draw(one.space, _drawn(one), name, f"{self.study}: {self.design}")
            for one, name in zip(self.laid_out, names, strict=False)
        ]


def describe(
    study: StudyLike,
    *,
    store: SessionLike = None,
    formula: str | None = None,
    effect: float | None = None,
    noise: float = 1.0,
    case_noise: float = 0.0,
    power: float = 0.8,
    alpha: float = 0.05,
) -> DesignDescription:
    """What the design of a study can estimate: balance, confounding, power. Runs nothing.

    `effect` is the difference to detect and `noise` the standard deviation of a trial, in units of the score;
    `case_noise` is the standard deviation between cases of a condition's effect. The smallest effect that is
    detected with probability `power` at the level `alpha` is always given. `formula` is the model to
    diagnose; by default the design's own, or main effects with the interactions and squares that can be
    estimated.
    """
    refuse_while_loading()
    session = Session.find(store, study)
    session.project.load_plugins()
    known = _study(study, session)
    agents = live_agents(known)
    assumed = Assumed(effect, noise, case_noise, alpha, power, max(1, _cases(known)), known.repeats)
    assigned = assign(known, agents)
    every = study_designs(known, agents, assigned.admitted)
    found = [one for one in every if one.varies] or every
    view = _View(formula or known.design.parameters.get("formula"), assumed)
    diagnoses = [view.of(one) for one in found]
    trials = _trials(known, assigned.admitted)
    return DesignDescription(
        study=known.name,
        design=known.design.name,
        parameters=dict(known.design.parameters),
        trials=trials,
        notes=(
            *_notes(known, trials, assigned.refusals),
            *map(_nothing_varies, (o for o in every if o not in found)),
        ),
        why=tuple(_why(known, agents)),
        parts=tuple(
            DesignPart(one.agents, tuple(sentences(diagnosis)), lost, diagnosis)
            for one, diagnosis, lost in zip(
                found, diagnoses, _lost(known, agents, diagnoses, view), strict=True
            )
        ),
        laid_out=tuple(found),
    )


def design_table(study: StudyLike, *, store: SessionLike = None) -> tuple[list[str], list[dict[str, Json]]]:
    """The columns and rows of a study's design: one row per run of it, in the design's own order.

    `run` numbers the rows; `agent`, `block` and `plot` are columns where the design has them; then come the
    factors. Inadmissible combinations are left out.
    """
    refuse_while_loading()
    session = Session.find(store, study)
    session.project.load_plugins()
    known = _study(study, session)
    admitted = list(assign(known, live_agents(known)).admitted)
    factors = dict.fromkeys(name for one in admitted for name in one.shown if name != "agent")
    extra = [name for name in ("block", "plot") if any(getattr(one, name) for one in admitted)]
    named = ["agent"] if any("agent" in one.shown for one in admitted) else []
    rows: list[dict[str, Json]] = []
    for one in admitted:
        facts = {name: getattr(one, name) for name in extra}
        rows += [{**facts, **one.shown}] * one.replicates
    numbered = [{"run": number, **row} for number, row in enumerate(rows, 1)]
    return ["run", *named, *extra, *factors], numbered


def study_of_factors(factors: Sequence[Factor], design: Any = None, seed: int = 0) -> Study:
    """A study that is nothing but its factors and design: to describe a design, or to write its table."""
    chosen = {} if design is None else {"design": design}
    return Study(name="design", cases=[""], agent=_nothing, factors=list(factors), seed=seed, **chosen)


def _nothing(case: object, **factors: object) -> None:
    """The agent of a study that is never run."""


def _study(study: StudyLike, session: Session) -> Study:
    """The study itself, from a file, a stored run or a plan."""
    if isinstance(study, Plan):
        return study.study
    with session.reading_if_any() as opened:
        if names_run(study, opened):
            return plan_of(study, opened, session.project).study
    return session.project.apply(study if isinstance(study, Study) else load(study))


@dataclass(frozen=True)
class _View:
    """The options of a diagnosis: the model's formula and the assumptions about power."""

    formula: str | None
    assumed: Assumed

    def of(self, one: StudyDesign) -> Diagnosis:
        """The diagnosis of a design."""
        if one.levels is not None:
            return diagnose_full_factorial(one.space, one.levels, self.formula, self.assumed)
        return diagnose(one.space, one.points, self.formula, self.assumed)


def _lost(
    study: Study, agents: Mapping[str, Agent], under: Sequence[Diagnosis], view: _View
) -> list[tuple[str, ...]]:
    """What the constraints took from each part; nothing for a design that was chosen under them."""
    if not any(c.severity == "error" for c in study.constraints) or study.design.name == "auto":
        return [() for _ in under]
    free = unconstrained(study)
    found = [one for one in study_designs(free, agents, assign(free, agents).admitted) if one.varies]
    return [tuple(losses(view.of(one), own)) for one, own in zip(found, under, strict=True)]


def _trials(study: Study, conditions: Sequence[Condition]) -> int:
    """The number of trials of all conditions."""
    if isinstance(conditions, Crossed) and conditions.kept is None:
        return len(conditions) // len(study.case_sets) * _cases(study) * study.repeats + study.anchors
    each = (condition.replicates * len(study.case_sets[condition.cases]) for condition in conditions)
    return sum(each) * study.repeats + study.anchors


def _cases(study: Study) -> int:
    """The number of cases in all case sets."""
    return sum(map(len, study.case_sets.values()))


def _notes(study: Study, trials: int, refusals: int) -> Iterator[str]:
    """Remarks on refused combinations, the budget and the order."""
    if refusals:
        yield f"{counted(refusals, 'combination')} inadmissible, and not run"
    most = study.budget.trials
    if most is not None and most < trials:
        what = "a balanced part is run" if study.budget.excess == "subset" else "the plan is refused"
        yield f"the budget allows {most:,} trials, so {what}; what is said of power is for all of them"
    if study.order == "given":
        yield "the order is as given, NOT randomised: what drifts may look like an effect"


def _nothing_varies(one: StudyDesign) -> str:
    """The remark on a part in which nothing varies."""
    return f"{', '.join(one.agents)}: nothing varies, so there is nothing to compare"


def _why(study: Study, agents: Mapping[str, Agent]) -> list[str]:
    """How an automatic design was chosen; equal texts of several agents once."""
    design = design_of(study)
    if not isinstance(design, Auto):
        return []
    reasons = {tuple(design.why(space_of(study, agent))): None for agent in agents.values()}
    return [line for lines in reasons for line in lines]


def _drawn(one: StudyDesign) -> Sequence[Point]:
    """The points to draw; Invalid if there are too many."""
    if one.levels is None:
        return one.points
    raise Invalid("plot: there are too many combinations to draw; take fewer levels")
