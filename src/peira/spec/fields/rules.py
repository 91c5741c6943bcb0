"""Checks across the parts of a study: names must match, and constraints must leave conditions."""

from __future__ import annotations

import inspect
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from peira.core.code.signature import TakenArguments, has_run
from peira.core.expressions import Expression
from peira.core.ids import Json, digest
from peira.core.registry import nearest, registry
from peira.errors import ExpressionError, Invalid
from peira.spec.agents import AgentValue, wanted_by
from peira.spec.aims import OUTPUT_NAMES, TAKEN, TRIAL_NAMES, is_output_name
from peira.spec.case import repeated_ids, with_evaluators
from peira.spec.constraints import Constraint
from peira.spec.factors import Design
from peira.spec.plugins import as_evaluator, name_of
from peira.spec.stopping import stop_problems

if TYPE_CHECKING:
    from peira.spec.study import Study

INJECTED = ("case", "trial", "input", "prompt", "seed", "condition")
TRIES = 200_000
"""How many combinations are tried; after that, the constraints are assumed to leave a condition."""


def broken_rules(study: Study, broken: Iterable[str] = ()) -> Iterator[str]:
    """Every check that fails, one line each; parts named in `broken` were reported before."""
    names = _Names(study, frozenset(broken))
    yield from _cases(study, names)
    yield from _duplicates("factors", [v.name for v in (*study.factors, *study.blocks)])
    wanted = dict(_agent_signatures(study))
    yield from (problem for problem in wanted.values() if isinstance(problem, str))
    known = {label: w for label, w in wanted.items() if isinstance(w, TakenArguments)}
    yield from _arguments(study, known, names)
    if study.transform is not None:
        yield from _transform(study)
    evaluators = yield from _evaluators(study)
    yield from _design(study)
    if study.constraints:
        yield from _constraints(study, known, names)
    if study.slices and not names.broken:
        yield from _slices(study, names.known)
    if study.outcomes or study.hypotheses or study.analysis_plans:
        yield from _aims(study, names, evaluators)
    if study.stop is not None and not names.broken:  # parts that could not be read were reported already
        yield from stop_problems(study)


class _Names:
    """The names that conditions have values for, with their levels and labels."""

    def __init__(self, study: Study, broken: frozenset[str]) -> None:
        self.levels: dict[str, tuple[Json, ...]] = {v.name: v.values for v in (*study.blocks, *study.factors)}
        self.labels = {v.name: v.labels for v in (*study.blocks, *study.factors)}
        if study.labelled:
            self.levels["agent"] = tuple(study.agents)
        if "" not in study.case_sets:
            self.levels["cases"] = tuple(study.case_sets)
        self.broken = broken
        self.known = self.levels.keys() | broken


def _cases(study: Study, names: _Names) -> Iterator[str]:
    """Empty case sets, and repeated ids."""
    for label, cases in study.case_sets.items():
        path = f"cases.{label}" if label else "cases"
        if not cases and path not in names.broken:
            yield f"{path}: there are none"
        yield from (f"{path}: {n} cases have the id {i!r}" for i, n in repeated_ids(cases).items())


def _duplicates(path: str, names: Sequence[str]) -> Iterator[str]:
    """Names that occur more than once."""
    yield from (f"{path}: there are {n} of the name {name!r}" for name, n in Counter(names).items() if n > 1)


def _agent_signatures(study: Study) -> Iterator[tuple[str, TakenArguments | str]]:
    """The parameters of each agent by label, or the problem with them."""
    for label, fn in study.agents.items():
        path = f"agents.{label}" if study.labelled else "agent"
        try:
            yield label, wanted_by(fn)
            if isinstance(fn, AgentValue):
                continue
            parameters = inspect.signature(fn.run if has_run(fn) else fn).parameters.values()
        except (TypeError, ValueError):
            yield label, f"{path}: the arguments of {name_of(fn)} cannot be read; wrap it in a function"
            continue
        if unnamed := [p.name for p in parameters if p.kind is p.POSITIONAL_ONLY and p.default is p.empty]:
            yield label, f"{path}: its argument {unnamed[0]!r} cannot be given by name"


def _arguments(study: Study, wanted: Mapping[str, TakenArguments], names: _Names) -> Iterator[str]:
    """Arguments that are no factors, and factors that no agent takes."""
    for label, taken in wanted.items():
        path = f"agents.{label}" if study.labelled else "agent"
        for name in sorted(taken.required - names.known - {*INJECTED}):
            hint = nearest(name, names.levels.keys() | {*INJECTED})
            yield f"{path}: {label} takes {name!r}, which is no factor{hint}"
    if len(wanted) < len(study.agents) or not wanted:
        return
    takers = wanted.values()
    for factor in study.factors:
        if not any(w.every_factor or factor.name in w.names for w in takers):
            who = "no agent takes" if study.labelled else f"{next(iter(wanted))} does not take"
            hint = nearest(factor.name, {n for w in takers for n in w.names} - {*INJECTED})
            yield f"factors.{factor.name}: {who} {factor.name!r}{hint}"


def _transform(study: Study) -> Iterator[str]:
    """The problems of the transform."""
    try:
        study.resolved_transform()
    except Invalid as error:
        yield from (f"transform: {problem}" for problem in error.problems)


def _evaluators(study: Study) -> Any:
    """Yields the problems of the evaluators; returns the names of all of them."""
    found: list[str] = []
    for i, given in enumerate(study.evaluators):
        try:
            found.append(as_evaluator(given).name)
        except Invalid as error:
            yield from (f"evaluators[{i}]: {problem}" for problem in error.problems)
    yield from _duplicates("evaluators", found)
    for label, cases in study.case_sets.items():
        path = f"cases.{label}" if label else "cases"
        for i, case in with_evaluators(cases):
            for given in case.evaluators:
                try:
                    found.append(as_evaluator(given).name)
                except Invalid as error:
                    yield from (f"{path}[{i}].evaluators: {problem}" for problem in error.problems)
    return frozenset(found)


def _design(study: Study) -> Iterator[str]:
    """An unknown design."""
    known = {Design().name, *registry.names("design")}
    if study.design.name not in known:
        yield f"design: there is no design {study.design.name!r}{nearest(study.design.name, known)}"


def _constraints(study: Study, wanted: Mapping[str, TakenArguments], names: _Names) -> Iterator[str]:
    """Constraints that name no known factor, or that leave no condition."""
    sound: list[Constraint] = []
    for i, constraint in enumerate(study.constraints):
        unknown = sorted(constraint.names - names.known)
        yield from (
            f"constraints[{i}]: there is no factor {name!r}{nearest(name, names.levels)}" for name in unknown
        )
        if not constraint.names and not constraint.open:
            yield f"constraints[{i}]: it names no factor, in {constraint.text!r}"
        elif not unknown and not constraint.names & names.broken and not (constraint.open and names.broken):
            sound.append(constraint)
    ranges = {factor.name for factor in study.factors if not factor.levels}
    if sound and not any(constraint.open or constraint.names & ranges for constraint in sound):
        yield from _conditions_left(study, sound, wanted, names)


def _conditions_left(
    study: Study, constraints: list[Constraint], wanted: Mapping[str, TakenArguments], names: _Names
) -> Iterator[str]:
    """A problem if no combination of levels satisfies the constraints."""
    try:
        left = any(
            _Search(_levels(study, label, w, names), constraints).succeeds() for label, w in wanted.items()
        )
    except Exception as error:
        # Any exception of a user's function is a problem of the study, reported like any other.
        reason = getattr(error, "reason", f"{type(error).__name__}: {error}")
        yield f"constraints: cannot be evaluated: {reason}"
        return
    if wanted and not left:
        yield f"constraints: they leave no condition ({'; '.join(c.text for c in constraints)})"


def _levels(study: Study, label: str, wants: TakenArguments, names: _Names) -> dict[str, tuple[Json, ...]]:
    """The levels that an agent's conditions can have."""
    untaken = {f.name for f in study.factors if not wants.every_factor and f.name not in wants.names}
    levels = {name: values for name, values in names.levels.items() if name not in untaken}
    return {**levels, "agent": (label,)} if "agent" in levels else levels


class _Search:
    """Backtracking search for one admissible condition, in which expressions prune early."""

    def __init__(self, levels: Mapping[str, Sequence[Json]], constraints: Sequence[Constraint]) -> None:
        hard = [c for c in constraints if c.severity == "error"]
        self.early = [c for c in hard if isinstance(c.expression, str)]
        self.late = [c for c in hard if not isinstance(c.expression, str)]
        named = {name for c in self.early for name in c.names}
        self.levels = {n: values for n, values in levels.items() if n in named or self.late}
        self.tries = 0

    def succeeds(self) -> bool:
        """Whether there is one, or the limit of tries was reached."""
        return self._extend({}, list(self.levels))

    def _extend(self, chosen: dict[str, Json], rest: list[str]) -> bool:
        """Try every level of the next factor."""
        if not rest:
            return all(c.admits(chosen) for c in self.late)
        name, *later = rest
        for value in self.levels[name]:
            self.tries += 1
            extended = {**chosen, name: value}
            admitted = all(c.admits(extended) for c in self.early if name in c.names)
            if (admitted and self._extend(extended, later)) or self.tries > TRIES:
                return True
        return False


def _aims(study: Study, names: _Names, evaluators: frozenset[str]) -> Iterator[str]:
    """Outcomes, hypotheses and analysis plans that refer to unknown names, or repeat a name."""
    outcomes = {outcome.name for outcome in study.outcomes}
    hypotheses = {hypothesis.id for hypothesis in study.hypotheses}
    measured = outcomes | evaluators
    planned = {name for plan in study.analysis_plans for name in plan.outcomes}
    wanted = planned | {hypothesis.outcome for hypothesis in study.hypotheses}
    measured |= {name for name in wanted if is_part(name, evaluators)}
    for outcome in study.outcomes:
        judge = outcome.judged_by
        if judge and judge not in evaluators and not is_part(judge, evaluators):
            hint = nearest(outcome.judged_by, evaluators)
            yield f"outcomes.{outcome.name}: there is no evaluator {outcome.judged_by!r}{hint}"
    for h in study.hypotheses:
        path = f"hypotheses.{h.id}"
        yield from _unknown(
            f"{path}.outcome", "outcome", [h.outcome] if h.outcome else [], measured | names.broken
        )
        named = h.factor.split(":") if h.factor else []  # "a:b" is their interaction
        yield from _unknown(f"{path}.factor", "factor", named, names.known)
        if names.levels.get(h.factor):
            there = {digest(value) for value in (*names.levels[h.factor], *names.labels.get(h.factor, ()))}
            for level in h.levels:
                if digest(level) not in there:
                    yield f"{path}.levels: {level!r} is not a level of {h.factor}"
    for plan in study.analysis_plans:
        path = f"analysis_plans.{plan.name}"
        yield from _unknown(f"{path}.outcomes", "outcome", plan.outcomes, measured | names.broken)
        yield from _unknown(f"{path}.hypotheses", "hypothesis", plan.hypotheses, hypotheses | names.broken)
    yield from _duplicates("outcomes", [outcome.name for outcome in study.outcomes])
    yield from _duplicates("hypotheses", [h.id for h in study.hypotheses])
    yield from _duplicates("analysis_plans", [plan.name for plan in study.analysis_plans])


def _slices(study: Study, factors: Iterable[str]) -> Iterator[str]:
    """What is wrong with the slices of a study, one line each."""
    factors = set(factors)
    fields = {name for cases in study.case_sets.values() for case in cases for name in case.metadata}
    known = factors | fields | {f"metadata.{name}" for name in fields} | {*TRIAL_NAMES, *OUTPUT_NAMES}
    known |= {f"{one.name}.{key}" for one in study.factors for level in one.levels for key in level.metadata}
    for name, text in study.slices.items():
        path = f"slices.{name}"
        if not name.isidentifier():
            yield f"{path}: the name must be a word, because expressions name it"
        elif name in factors | fields | TAKEN:
            yield f"{path}: the name is taken by {_taken(name, factors, fields)}"
        if not isinstance(text, str):
            yield f"{path}: must be an expression like metadata.source == 'web', not {text!r}"
            continue
        try:
            wanted = Expression(text)
        except ExpressionError as problem:
            yield f"{path}: {problem}"
            continue
        for one in sorted(wanted.names):
            if one not in known and not is_output_name(one):
                yield f"{path}: there is no {one!r}{nearest(one, known)}"


def _taken(name: str, factors: set[str], fields: set[str]) -> str:
    """What a name stands for already."""
    if name in factors:
        return "a factor"
    return "a field of the cases' metadata" if name in fields else f"{name!r} of a trial"


def is_part(name: str, evaluators: Iterable[str]) -> bool:
    """Whether a name is that of a part (`judge.tone`) or of a category (`judge=curt`) of a score."""
    return any(name.startswith((f"{evaluator}.", f"{evaluator}=")) for evaluator in evaluators)


def _unknown(path: str, what: str, given: Iterable[str], known: Iterable[str]) -> Iterator[str]:
    """A problem for each name that is not known."""
    known = set(known)
    yield from (f"{path}: there is no {what} {n!r}{nearest(n, known)}" for n in given if n not in known)
