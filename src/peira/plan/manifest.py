"""The manifest: what a run stores of its plan, including the user's source files.

The manifest is a blob addressed by its digest, so equal plans are stored once. It holds the study as written
(a snapshot), the layout and the code of the user's own modules, and refers to blobs of the cases.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import chain
from pathlib import Path
from types import MappingProxyType, ModuleType, SimpleNamespace
from typing import Any

import msgspec
from msgspec.structs import replace

from peira.core.code.fingerprint import fingerprint_of
from peira.core.code.origin import own_file
from peira.core.codec import encode, in_pieces
from peira.core.contracts import StreamsBlobs
from peira.core.ids import Json
from peira.plan.conditions import Condition, Crossed, Grid, agents_of
from peira.plan.expansion import Plan, choose, transform_digest
from peira.plan.order import Sequences
from peira.plan.stored_cases import LARGE, StoredCases
from peira.plan.trials import Layout, PlannedCase
from peira.spec.limits import Budget
from peira.spec.modules import LoadedModules, reference
from peira.spec.study_files import snapshot

# The user's source files


def own_sources(plan: Plan) -> list[str]:
    """Files of the agents, transform and evaluators, and of the user's own modules they import."""
    found: set[str] = set()
    queue = sorted(_reached(plan))
    loaded = LoadedModules()
    while queue:
        file = queue.pop()
        if file not in found and Path(file).is_file():
            found.add(file)
            queue += _imported(file, loaded)
    return sorted(found)


def _reached(plan: Plan) -> set[str]:
    """The files that the fingerprints of agents, transform and evaluators cover."""
    steps = getattr(plan.transform, "steps", ())
    parts = (*plan.agents.values(), plan.transform, *steps, *plan.evaluators.values())
    return {str(Path(file).resolve()) for part in parts for file in fingerprint_of(part).files}


def _imported(file: str, loaded: LoadedModules) -> Iterator[str]:
    """The user's own files whose modules, functions or classes are in the namespace of this file's module."""
    for module in loaded.of(file).values():
        for value in list(vars(module).values()):
            where = getattr(value, "__file__", None) if isinstance(value, ModuleType) else None
            own = own_file(value if where is None else SimpleNamespace(file=where))
            if own is not None:
                yield str(Path(own).resolve())


# The manifest


Put = Callable[[bytes], str]
"""Stores a blob and returns its digest."""
Get = Callable[[str], bytes]
"""Returns the blob with a digest."""
NOTHING: Mapping[str, Json] = MappingProxyType({})
_Cases = list[PlannedCase]


class AgentPart(msgspec.Struct, frozen=True, omit_defaults=True):
    """An agent's identity and the reference to its code; `parts` are the fingerprinted objects."""

    label: str
    digest: str
    reference: str | None
    parts: tuple[tuple[str, str], ...] = ()
    unseen: tuple[str, ...] = ()
    """What the code depends on and the fingerprint does not cover."""


class EvaluatorPart(msgspec.Struct, frozen=True, omit_defaults=True):
    """The identity of an evaluator; `takes` are the arguments it is called with."""

    name: str
    digest: str
    takes: tuple[str, ...]
    identity: Json = None


class TransformPart(msgspec.Struct, frozen=True, omit_defaults=True):
    """The identity of the transform that extracts answers from outputs."""

    name: str
    digest: str
    identity: Json = None


class Manifest(msgspec.Struct, frozen=True, omit_defaults=True):
    """Everything needed to rebuild and to read a plan."""

    study: str
    """The name of the study."""
    snapshot: Json
    """The study as written."""
    agents: tuple[AgentPart, ...]
    evaluators: tuple[EvaluatorPart, ...]
    common: tuple[str, ...]
    """The digests of the evaluators of all cases."""
    conditions: tuple[Condition, ...]
    """The admissible conditions; empty if they are `crossed`."""
    case_sets: dict[str, str]
    """The digests of the case blobs, by label."""
    repeats: int
    seed: int
    generation: int
    refused: tuple[Condition, ...] = ()
    where: str = ""
    limit: int | None = None
    sources: dict[str, str] = {}
    """The digests of the user's source files, by path."""
    cases_inline: bool = False
    """Whether the snapshot contains the cases."""
    notes: tuple[str, ...] = ()
    """Caveats that every result must show."""
    version: int = 1
    refusals: int = 0
    """The number of inadmissible conditions, of which `refused` may be the first ones."""
    order: str = "random"
    anchors: int = 0
    sequences: Sequences = ()
    crossed: tuple[Grid, ...] = ()
    """The levels of a full factorial that is too large to list."""
    crossed_with: tuple[str, ...] = ()
    """The case sets of a full factorial."""
    labelled: bool = False
    kept: str = ""
    """The digest of the indices of the admissible combinations; "" if all are."""
    earlier: str = ""
    """The run whose results selected the trials."""
    picked: str = ""
    """The digest of the indices of the trials selected by `earlier`."""
    policy: dict[str, Json] = {}
    """Overrides of the policy for this run only; a resumed run does not inherit them."""
    transform: TransformPart | None = None
    order_version: int = 1
    """Which permutations the run order is made of; plans that do not say were made with the first."""


def keep(plan: Plan, put: Put, policy: Mapping[str, Json] = NOTHING, store: object = None) -> str:
    """Store the manifest and the blobs it refers to; returns its digest.

    `policy` holds overrides for this run only. A `store` that takes blobs in pieces gets large sets of cases
    like that.
    """
    layout, transform = plan.layout, plan.transform
    # A case's own evaluators are recorded only in the snapshot, which then has to contain the cases.
    # Large sets have none (`expansion`).
    listed = [cases for cases in layout.case_sets.values() if not isinstance(cases, StoredCases)]
    inline = any(case.judged_by for cases in listed for case in cases)
    manifest = Manifest(
        study=plan.study.name,
        snapshot=snapshot(plan.study, cases=inline),
        cases_inline=inline,
        notes=plan.notes,
        agents=_agent_parts(plan),
        evaluators=tuple(
            EvaluatorPart(evaluator.name, digest, tuple(sorted(evaluator.takes)), evaluator.identity)
            for digest, evaluator in plan.evaluators.items()
        ),
        common=plan.common,
        conditions=() if isinstance(layout.conditions, Crossed) else tuple(layout.conditions),
        case_sets={label: _keep_cases(cases, put, store) for label, cases in layout.case_sets.items()},
        repeats=layout.repeats,
        seed=layout.seed,
        generation=layout.generation,
        refused=plan.refused,
        refusals=plan.refusals,
        order=layout.order,
        order_version=layout.order_version,
        anchors=layout.anchors,
        sequences=layout.sequences,
        **_crossed(layout.conditions, put),
        where=plan.where,
        limit=plan.limit,
        **_picked(plan, put),
        policy=dict(policy),
        transform=None
        if transform is None
        else TransformPart(transform.name, transform_digest(transform), transform.identity),
        sources={path: put(Path(path).read_bytes()) for path in own_sources(plan)},
    )
    return put(encode(manifest))


def _keep_cases(cases: Sequence[PlannedCase], put: Put, store: object) -> str:
    """Store a set of cases; returns its digest."""
    if not isinstance(cases, StoredCases):
        return put(encode(cases))
    return (
        store.put_pieces(cases.pieces) if isinstance(store, StreamsBlobs) else put(b"".join(cases.pieces()))
    )


def _crossed(conditions: Sequence[Condition], put: Put) -> dict[str, Any]:
    """Fields for conditions that are represented by their levels and the indices of admissible ones."""
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
    """Fields for trials that were selected by the results of an earlier run, as selected then."""
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
    """The identity, reference and fingerprint of each agent."""
    digests = agents_of(plan.layout.conditions) | agents_of(plan.refused)
    return tuple(
        AgentPart(
            label=label,
            digest=digests[label],
            reference=reference(plan.study.agents[label]),
            parts=fingerprint_of(agent).parts,
            unseen=fingerprint_of(agent).unseen,
        )
        for label, agent in plan.agents.items()
    )


def read(digest: str, get: Get) -> Manifest:
    """The manifest with this digest."""
    return msgspec.json.decode(get(digest), type=Manifest)


def cases_of(blob: str, get: Get, store: object = None) -> Iterator[dict[str, Json]]:
    """The cases of a stored set, in the form of a study file."""
    fields = ("input", "expected", "id", "cluster", "slice", "metadata")
    return ({field: getattr(case, field) for field in fields} for case in case_set(blob, get, store))


def layout_of(manifest: Manifest, get: Get, store: object = None) -> Layout:
    """The layout of a stored plan; needs none of the user's files. `store` is that of `case_set`."""
    sets = {label: case_set(digest, get, store) for label, digest in manifest.case_sets.items()}
    layout = Layout(
        conditions_of(manifest, get),
        sets,
        manifest.repeats,
        manifest.seed,
        manifest.generation,
        order=manifest.order,
        anchors=manifest.anchors,
        sequences=manifest.sequences,
        order_version=manifest.order_version,
    )
    if manifest.picked:
        return replace(layout, chosen=array("Q", get(manifest.picked)))
    if not (manifest.where or manifest.limit is not None or "budget" in manifest.snapshot):
        return layout
    budget = Budget(**manifest.snapshot.get("budget", {}))
    return choose(layout, budget, manifest.where, manifest.limit)


def case_set(digest: str, get: Get, store: object = None) -> Sequence[PlannedCase]:
    """A stored set of cases; packed if it is large, and read in pieces from a `store` that gives them."""
    if isinstance(store, StreamsBlobs):
        pieces = store.get_pieces(digest)
    else:
        pieces = map(bytes, in_pieces(get(digest)))
    first, size = list[bytes](), 0
    while size < LARGE and (piece := next(pieces, b"")):
        first.append(piece)
        size += len(piece)
    if size >= LARGE:
        return StoredCases.read(chain(first, pieces))
    return msgspec.json.decode(b"".join(first), type=_Cases)
