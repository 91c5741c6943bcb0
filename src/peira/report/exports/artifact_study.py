"""The study of an artifact folder in the terms of design-research-experiments, which can load it.

What that format has no field for (evaluators, transform, policy, ...) is kept under `study`, as peira stores
it. Nothing of the study's code is loaded.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from peira.core.ids import Json
from peira.plan.conditions import declared
from peira.report.exports.artifact_rows import ArtifactNames
from peira.results.aims import Aims
from peira.results.background import StoredRun
from peira.results.rows import text
from peira.spec.aims import AnalysisPlan, Hypothesis, Outcome
from peira.spec.factors import Block, Design, Factor, Level
from peira.spec.modules import is_reference
from peira.spec.values import read_value

SCHEMA = "0.2.0"
DIRECTIONS = {"not_less": "greater", "not_greater": "less"}
"""Directions that the format does not have, and the nearest; the statement says what is claimed."""


def declared_factors(snapshot: Mapping[str, Json]) -> list[Factor]:
    """The factors of a stored study."""
    return [read_value(Factor, {"name": name, **spec}) for name, spec in declared(snapshot, "factors")]


def declared_blocks(snapshot: Mapping[str, Json]) -> list[Block | Factor]:
    """The blocks of a stored study, and its factors that are blocks."""
    blocks = [read_value(Block, {"name": name, **spec}) for name, spec in declared(snapshot, "blocks")]
    return [*blocks, *(one for one in declared_factors(snapshot) if one.kind == "blocked")]


class ArtifactStudy:
    """Writes a stored study in the terms of the format.

    `names` has the conditions of the trials and the names that factors have in the tables.
    """

    def __init__(
        self,
        origin: StoredRun,
        aims: Aims,
        names: ArtifactNames,
        agents: Iterable[str],
    ) -> None:
        self._name, self._origin, self._aims = names.study, origin, aims
        self._columns, self._names = names.columns, names
        self._agents = list(agents)
        kept = origin.manifest.snapshot
        self._snapshot: dict[str, Any] = kept if isinstance(kept, dict) else {}

    def document(self) -> dict[str, Json]:
        """The content of study.yaml, without the problems."""
        snapshot, seed = self._snapshot, self._origin.manifest.seed
        policy, budget = snapshot.get("policy") or {}, snapshot.get("budget") or {}
        return {
            "schema_version": SCHEMA,
            "study_id": self._name,
            "title": snapshot.get("title") or self._name,
            "description": snapshot.get("description", ""),
            "authors": list(snapshot.get("authors", ())),
            "rationale": snapshot.get("rationale", ""),
            "tags": list(snapshot.get("tags", ())),
            "hypotheses": self.hypotheses(),
            "factors": [self._factor(one) for one in self._factors()],
            "blocks": [_block(one) for one in declared_blocks(snapshot)],
            "constraints": list(_constraints(snapshot.get("constraints", ()))),
            "design_spec": self._design(),
            "outcomes": self.outcomes(),
            "analysis_plans": self.plans(),
            "run_budget": {
                "replicates": snapshot.get("repeats", 1),
                "max_runs": budget.get("trials"),
                "parallelism": 1,
                "fail_fast": bool(policy.get("fail_fast", False)),
            },
            "seed_policy": {"base_seed": seed, "strategy": "peira"},
            "notes": snapshot.get("notes", ""),
            "problem_ids": [],
            "agent_specs": self._agents,
            "seed": seed,
            "study": snapshot,
        }

    def _factors(self) -> list[Factor]:
        """The factors declared, and those that several agents or case sets are."""
        known = declared_factors(self._snapshot)
        names = {one.name for one in [*known, *declared_blocks(self._snapshot)]}
        others: dict[str, dict[str, Json]] = {}
        for one in self._names.conditions.values():
            for name, value in one["shown"].items():
                if name not in names:
                    others.setdefault(name, {})[text(value) or ""] = value
        implied = [
            Factor.model_construct(name=name, levels=tuple(map(Level, values.values())))
            for name, values in others.items()
        ]
        return [*(one for one in known if one.kind != "blocked"), *implied]

    def _factor(self, factor: Factor) -> dict[str, Json]:
        """A factor, by its name in the tables."""
        column = self._columns.get(factor.name, factor.name)
        about = {
            "name": factor.name if column != factor.name else None,
            "scale": factor.scale,
            "low": factor.low,
            "high": factor.high,
            "within": factor.within or None,
        }
        return {
            "name": column,
            "description": factor.description,
            "kind": factor.kind,
            "levels": [_level(one, factor) for one in factor.levels],
            "dtype": _type_of(factor),
            "default": factor.baseline if factor.baseline is not None or factor.levels else factor.low,
            "metadata": {key: value for key, value in about.items() if value is not None},
        }

    def _design(self) -> dict[str, Json]:
        """The design; any but a full factorial is the matrix that conditions.csv holds."""
        raw, constrained = self._snapshot.get("design") or {}, bool(self._snapshot.get("constraints"))
        parameters = {"name": raw} if isinstance(raw, str) else dict(raw)
        name = parameters.pop("name", Design().name)
        kind = "custom_matrix"
        if name == Design().name:
            kind = "constrained_factorial" if constrained else "full_factorial"
        order = self._snapshot.get("order", "random")
        return {
            "kind": kind,
            "randomize": order == "random",
            "counterbalance": order == "interleaved",
            "matrix_path": "conditions.csv" if kind == "custom_matrix" else None,
            "options": {"name": name, **parameters},
        }

    def outcomes(self) -> list[dict[str, Json]]:
        """The outcomes: those declared, then the scores of the other evaluators."""
        declared = [_outcome(one, self._aims) for one in self._aims.outcomes]
        known = {str(one["column"]) for one in declared} | {one.name for one in self._aims.outcomes}
        others = dict.fromkeys(part.name for part in self._origin.manifest.evaluators)
        others |= dict.fromkeys(one.outcome for one in self._aims.hypotheses)
        return [
            *declared,
            *(_outcome(Outcome(name=name), self._aims) for name in others if name and name not in known),
        ]

    def hypotheses(self) -> list[dict[str, Json]]:
        """The hypotheses, with the fields of the format and peira's own."""
        return [self._hypothesis(one) for one in self._aims.hypotheses]

    def _hypothesis(self, one: Hypothesis) -> dict[str, Json]:
        """A hypothesis: two levels are a contrast, an interaction is a moderation."""
        names = [self._columns.get(name, name) for name in one.factor.split(":") if name]
        pair = [text(level) or "" for level in one.levels]
        claim = one.statement or f"{one.factor or 'the study'}: {one.direction}"
        outcome = one.outcome or next((each.name for each in self._aims.outcomes if each.primary), "")
        return {
            **one.model_dump(mode="json"),
            "hypothesis_id": one.id,
            "label": one.id,
            "statement": claim,
            "kind": "equivalence"
            if one.direction == "equivalent"
            else "moderation"
            if len(names) > 1
            else "effect",
            "independent_vars": names,
            "dependent_vars": [outcome] if outcome else [],
            "contrast": {"label": claim, "left": pair[0], "right": pair[1]} if len(pair) == 2 else None,
            "direction": DIRECTIONS.get(one.direction, one.direction),
            "minimum_effect_of_interest": one.margin,
            "claimed": one.direction,
            "notes": one.description,
        }

    def plans(self) -> list[dict[str, Json]]:
        """The analysis plans that have a hypothesis, with the fields of the format and peira's own."""
        families = self._aims.families()
        return [self._plan(plan, family) for plan, family in families if family and plan in self._aims.plans]

    def _plan(self, plan: AnalysisPlan, family: Sequence[Hypothesis]) -> dict[str, Json]:
        return {
            **plan.model_dump(mode="json"),
            "analysis_plan_id": plan.name,
            "hypothesis_ids": [one.id for one in family],
            "tests": [plan.test or "chosen by the data"],
            "multiple_comparison_policy": plan.correction or "none",
            "notes": plan.description,
        }


def _level(level: Level, factor: Factor) -> dict[str, Json]:
    """A level; its name is what the tables show."""
    baseline = level.baseline or (factor.baseline is not None and level.value == factor.baseline)
    return {
        "name": level.label or text(level.value) or "null",
        "value": level.value,
        "label": level.label or text(level.value) or "null",
        "metadata": {**level.metadata, **({"baseline": True} if baseline else {})},
    }


def _block(block: Block | Factor) -> dict[str, Json]:
    """A block, with its levels as the tables show them."""
    return {"name": block.name, "levels": [level.label or level.value for level in block.levels]}


def _constraints(raw: Iterable[Any]) -> Iterable[dict[str, Json]]:
    """The constraints of a stored study: expressions, or functions by their reference."""
    for number, one in enumerate(raw, 1):
        about: Mapping[str, Any] = one if isinstance(one, Mapping) else {"expression": one}
        rule = str(about.get("expression", ""))
        yield {
            "constraint_id": f"constraint-{number}",
            "description": about.get("message", ""),
            "expression": None if is_reference(rule) else rule,
            "callable_ref": rule if is_reference(rule) else None,
            "severity": about.get("severity", "error"),
        }


def _outcome(one: Outcome, aims: Aims) -> dict[str, Json]:
    """An outcome: the mean of the rows of evaluations.csv that have its name."""
    measure = aims.measure_of(one.name) or one.name
    return {
        "name": one.name,
        "source_table": "evaluations",
        "column": measure,
        "aggregation": "mean",
        "derivation": f"metric_value where metric_name = {measure!r}",
        "primary": one.primary,
        "expected_type": "float",
        "missing_data_policy": "drop",
        "description": one.description,
        "direction": one.direction,
        "unit": one.unit,
    }


def _type_of(factor: Factor) -> str:
    """The type of a factor's values."""
    if factor.scale in ("continuous", "integer") or (factor.scale is None and not factor.levels):
        return "int" if factor.scale == "integer" else "float"
    kinds = {type(value) for value in factor.values}
    return kinds.pop().__name__ if len(kinds) == 1 else "str"
