"""Slices that a study declares: parts of its trials by expressions over cases, conditions and outputs.

A trial belongs to any number of them. Membership is added to the metadata of its case, so that tables, gates
and comparisons take the name of a slice wherever they take a field of metadata.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

import msgspec

from peira.core.expressions import Expression
from peira.core.ids import Json, canonical
from peira.errors import ExpressionError, Invalid
from peira.plan.conditions import declared
from peira.results.trials import TrialResult, named
from peira.spec.aims import OUTPUT_NAMES, is_output_name

METADATA = "metadata."
"""The prefix of a field of the cases' metadata, needed where a factor or an attribute has its name."""


def marked(snapshot: Mapping[str, Json], trials: Iterable[TrialResult]) -> Iterable[TrialResult]:
    """The trials of a study, each with whether it is in each slice, and with the metadata of its levels.

    `snapshot` is that of the study, which a run stores. A field of the metadata of levels is called
    FACTOR.FIELD, and can be named as metadata of cases can.
    """
    slices = {name: Expression(text) for name, text in (snapshot.get("slices") or {}).items()}
    levels: dict[str, dict[bytes, dict[str, Json]]] = {}
    for name, spec in declared(snapshot, "factors"):
        kept = {
            canonical(one.get("label") or one["value"]): {f"{name}.{key}": v for key, v in about.items()}
            for one in spec.get("levels", ())
            if isinstance(one, Mapping)
            and "value" in one
            and isinstance(about := one.get("metadata"), Mapping)
        }
        levels |= {name: kept} if kept else {}
    return _marked(trials, slices, levels) if slices or levels else trials


def _marked(
    trials: Iterable[TrialResult],
    slices: Mapping[str, Expression],
    levels: Mapping[str, Mapping[bytes, Mapping[str, Json]]],
) -> Iterator[TrialResult]:
    outputs = any(is_output_name(name) for one in slices.values() for name in one.names)
    for trial in trials:
        for name, known in levels.items():
            about = known.get(canonical(trial.condition.get(name)))
            if about:
                trial = msgspec.structs.replace(trial, metadata={**trial.metadata, **about})
        if not slices:
            yield trial
            continue
        facts = {**facts_of(trial), **_outputs(trial)} if outputs else facts_of(trial)
        found = {name: holds(one, facts, f"slices.{name}") for name, one in slices.items()}
        yield msgspec.structs.replace(trial, metadata={**trial.metadata, **found})


def holds(wanted: Expression, facts: Mapping[str, Json], where: str) -> bool:
    """Whether the expression is true of these facts; not if it compares with what is missing.

    `where` it is written is named if it cannot be evaluated.
    """
    try:
        return wanted.evaluate({name: facts.get(name) for name in wanted.names})
    except ExpressionError as problem:
        if any(facts.get(name) is None for name in wanted.names):
            return False
        raise Invalid(f"{where}: {problem}") from None


def facts_of(trial: TrialResult) -> Mapping[str, Json]:
    """What an expression may name: factors first, then attributes, then metadata of the case."""
    return {
        **trial.metadata,
        **{f"{METADATA}{name}": value for name, value in trial.metadata.items()},
        "agent": trial.agent,
        "case": trial.case_id,
        "slice": trial.slice,
        "cluster": trial.cluster,
        "repeat": trial.repeat,
        **trial.condition,
    }


def _outputs(trial: TrialResult) -> Mapping[str, Json]:
    """What an expression may name of what a trial gave."""
    answer = None if trial.found is None or trial.no_answer else trial.found.value
    plain = (trial.input, trial.expected, trial.output, answer, str(trial.state), trial.took, trial.cost)
    scores = {f"score.{name}": v for score in trial.scores.values() for name, v in named(score).items()}
    return {
        **dict(zip(OUTPUT_NAMES, plain, strict=True)),
        **scores,
        **{f"metric.{name}": value for name, value in trial.metrics.items()},
    }
