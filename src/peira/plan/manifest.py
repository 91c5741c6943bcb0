"""What a run keeps of its plan: enough to read, resume and re-score it when the user's files are gone.

The manifest is a blob named by its digest, so equal plans are stored once. It holds the study as
written (a snapshot), the layout, the code of the user's own modules, and points to blobs of the cases.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

import msgspec

from peira.core.codec import encode
from peira.core.contracts import Evaluator
from peira.core.ids import Json
from peira.core.transforms import Transform
from peira.plan.conditions import Condition, Crossed, Grid, agents_of
from peira.plan.expand import Plan, choose, transform_digest
from peira.plan.layout import Layout, PlannedCase
from peira.plan.sequence import Sequences
from peira.plan.sources import own_sources
from peira.spec.limits import Budget
from peira.spec.load import snapshot
from peira.spec.modules import reference

Put = Callable[[bytes], str]
Get = Callable[[str], bytes]
NOTHING: Mapping[str, Json] = MappingProxyType({})


class AgentPart(msgspec.Struct, frozen=True, omit_defaults=True):
    """An agent's identity and where its code was; `parts` name what its fingerprint saw."""

    label: str
    digest: str
    reference: str | None
    parts: tuple[tuple[str, str], ...] = ()
    unseen: tuple[str, ...] = ()


class EvaluatorPart(msgspec.Struct, frozen=True, omit_defaults=True):
    name: str
    digest: str
    takes: tuple[str, ...]
    identity: Json = None


class TransformPart(msgspec.Struct, frozen=True, omit_defaults=True):
    name: str
    digest: str
    identity: Json = None


class Manifest(msgspec.Struct, frozen=True, omit_defaults=True):
    """`policy` is what was said for this run only; whoever resumes it says it anew, or not."""

    study: str
    snapshot: Json
    agents: tuple[AgentPart, ...]
    evaluators: tuple[EvaluatorPart, ...]
    common: tuple[str, ...]
    conditions: tuple[Condition, ...]
    case_sets: dict[str, str]
    repeats: int
    seed: int
    generation: int
    refused: tuple[Condition, ...] = ()
    where: str = ""
    limit: int | None = None
    sources: dict[str, str] = {}
    cases_inline: bool = False
    notes: tuple[str, ...] = ()
    version: int = 1
    refusals: int = 0
    order: str = "random"
    anchors: int = 0
    sequences: Sequences = ()
    crossed: tuple[Grid, ...] = ()
    crossed_with: tuple[str, ...] = ()
    labelled: bool = False
    kept: str = ""
    earlier: str = ""
    picked: str = ""
    policy: dict[str, Json] = {}
    transform: TransformPart | None = None


_decode_manifest = msgspec.json.Decoder(Manifest).decode
_decode_cases = msgspec.json.Decoder(list[PlannedCase]).decode


def keep(plan: Plan, put: Put, policy: Mapping[str, Json] = NOTHING) -> str:
    """Store the manifest and what it names; returns its digest. `policy` is said for this run only."""
    layout = plan.layout
    # Evaluators of a case's own are written in the snapshot only, so then the cases go there, too.
    inline = any(case.judged_by for cases in layout.case_sets.values() for case in cases)
    manifest = Manifest(
        study=plan.study.name,
        snapshot=snapshot(plan.study, cases=inline),
        cases_inline=inline,
        notes=plan.notes,
        agents=_agent_parts(plan),
        evaluators=tuple(_evaluator_part(digest, e) for digest, e in plan.evaluators.items()),
        common=plan.common,
        conditions=() if isinstance(layout.conditions, Crossed) else tuple(layout.conditions),
        case_sets={label: put(encode(cases)) for label, cases in layout.case_sets.items()},
        repeats=layout.repeats,
        seed=layout.seed,
        generation=layout.generation,
        refused=plan.refused,
        refusals=plan.refusals,
        order=layout.order,
        anchors=layout.anchors,
        sequences=layout.sequences,
        **_crossed(layout.conditions, put),
        where=plan.where,
        limit=plan.limit,
        **_picked(plan, put),
        policy=dict(policy),
        transform=_transform_part(plan.transform),
        sources={path: put(Path(path).read_bytes()) for path in own_sources(plan)},
    )
    return put(encode(manifest))


def _crossed(conditions: Sequence[Condition], put: Put) -> dict[str, Any]:
    """Conditions that are too many to list, as their levels and the places of the admissible ones."""
    if not isinstance(conditions, Crossed):
        return {}
    kept = "" if conditions.kept is None else put(conditions.kept.tobytes())
    return {
        "crossed": conditions.grids,
        "crossed_with": conditions.cases,
        "labelled": conditions.labelled,
        "kept": kept,
    }


def _picked(plan: Plan, put: Put) -> dict[str, Any]:
    """Trials that were chosen by an earlier run's results, as they were then."""
    chosen = plan.layout.chosen
    if not plan.earlier or chosen is None:
        return {}
    return {"earlier": plan.earlier, "picked": put(chosen.tobytes())}


def conditions_of(manifest: Manifest, get: Get) -> Sequence[Condition]:
    """The conditions of a stored plan."""
    if not manifest.crossed:
        return manifest.conditions
    kept = array("Q", get(manifest.kept)) if manifest.kept else None
    return Crossed(manifest.crossed, manifest.crossed_with, manifest.labelled, kept)


def _agent_parts(plan: Plan) -> tuple[AgentPart, ...]:
    digests = agents_of(plan.layout.conditions) | agents_of(plan.refused)
    return tuple(
        AgentPart(
            label=label,
            digest=digests[label],
            reference=reference(plan.study.agents[label]),
            parts=agent.fingerprint.parts,  # type: ignore[attr-defined]
            unseen=agent.fingerprint.unseen,  # type: ignore[attr-defined]
        )
        for label, agent in plan.agents.items()
    )


def _evaluator_part(digest: str, evaluator: Evaluator) -> EvaluatorPart:
    return EvaluatorPart(evaluator.name, digest, tuple(sorted(evaluator.takes)), evaluator.identity)


def _transform_part(transform: Transform | None) -> TransformPart | None:
    if transform is None:
        return None
    return TransformPart(transform.name, transform_digest(transform), transform.identity)


def read(digest: str, get: Get) -> Manifest:
    return _decode_manifest(get(digest))


def cases_of(blob: str, get: Get) -> list[dict[str, Json]]:
    """The cases of a stored set, as a study file would give them."""
    fields = ("input", "expected", "id", "cluster", "slice", "metadata")
    return [{field: getattr(case, field) for field in fields} for case in _decode_cases(get(blob))]


def layout_of(manifest: Manifest, get: Get) -> Layout:
    """The trials of a stored plan; needs none of the user's files."""
    sets: Mapping[str, Sequence[PlannedCase]] = {
        label: _decode_cases(get(digest)) for label, digest in manifest.case_sets.items()
    }
    layout = Layout(
        conditions_of(manifest, get),
        sets,
        manifest.repeats,
        manifest.seed,
        manifest.generation,
        order=manifest.order,
        anchors=manifest.anchors,
        sequences=manifest.sequences,
    )
    if manifest.picked:
        return replace(layout, chosen=array("Q", get(manifest.picked)))
    if not (manifest.where or manifest.limit is not None or "budget" in manifest.snapshot):
        return layout
    budget = Budget(**manifest.snapshot.get("budget", {}))
    return choose(layout, budget, manifest.where, manifest.limit)
