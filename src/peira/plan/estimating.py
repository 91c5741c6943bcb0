"""What a run will take, before it runs: calls, tokens, money and time, each with a low and a high end.

Taken from what is said (assumptions), else from what earlier runs of the study took, else from the lengths
of the prompts. What is recorded costs nothing; what is not known is None, and `unknown` says why.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence

from peira.plan.amounts import Range, total
from peira.plan.assumptions import Assumptions
from peira.plan.batched import said_of
from peira.plan.estimate import Estimate, Part
from peira.plan.expand import Plan
from peira.plan.experience import EVALUATE, GENERATE, Experience
from peira.plan.loads import Asked, score_loads, trial_loads
from peira.plan.needs import Need
from peira.plan.pace import Load, wall_time
from peira.plan.workload import Workload

STAGES = (GENERATE, EVALUATE)
REPLAYED = "the agent's code changed: calls that did not are replayed for nothing, so the low end may be 0"


def estimate(
    plan: Plan,
    work: Workload,
    known: Experience,
    asked: Asked,
    parallel: int,
    said: Assumptions,
    stages: Sequence[str] = STAGES,
) -> Estimate:
    """What this work of a plan takes."""
    generates, evaluates = GENERATE in stages, EVALUATE in stages
    trials = trial_loads(plan, work, known, asked, said) if generates else []
    scores = _added(work.missing, work.fresh if generates else {}) if evaluates else {}
    loads = [*trials, *score_loads(plan, scores, known, asked)]
    parts = _parts(loads, known.replays)
    return Estimate(
        new=work.new if generates else 0,
        reused=work.reused,
        scores=round(sum(scores.values())),
        parallel=parallel,
        parts=parts,
        calls=total(part.calls for part in parts),
        input_tokens=total(part.input_tokens for part in parts),
        output_tokens=total(part.output_tokens for part in parts),
        cost=total(part.cost for part in parts),
        seconds=wall_time(loads, parallel, known.overhead),
        unknown=tuple(dict.fromkeys(why for part in parts for why in part.unknown)),
        basis=_basis(plan, work, loads, said, known.replays, asked.batch),
        batch=asked.batch,
    )


def _added(some: Mapping[str, float], others: Mapping[str, float]) -> dict[str, float]:
    return {key: some.get(key, 0.0) + others.get(key, 0.0) for key in {**some, **others}}


def _parts(loads: Sequence[Load], replays: bool) -> tuple[Part, ...]:
    groups: dict[tuple[str, str], list[Need]] = defaultdict(list)
    for load in loads:
        groups[load.stage, load.need.model].append(load.need)
    return tuple(_part(*key, needs, replays) for key, needs in groups.items())


def _part(stage: str, model: str, needs: Sequence[Need], replays: bool) -> Part:
    def added(field: str) -> Range | None:
        amount = total(getattr(need, field) for need in needs)
        free = replays and stage == GENERATE and field != "seconds"
        return amount.or_nothing() if amount and free else amount

    return Part(
        stage=stage,
        model=model,
        pieces=round(sum(need.pieces for need in needs)),
        calls=added("calls"),
        input_tokens=added("input"),
        output_tokens=added("output"),
        cost=added("cost"),
        seconds=added("seconds"),
        unknown=tuple(dict.fromkeys(why for need in needs for why in need.unknown)),
    )


def _basis(
    plan: Plan, work: Workload, loads: Sequence[Load], said: Assumptions, replays: bool, batch: bool
) -> tuple[str, ...]:
    lines = [said_of(load.models for load in loads)] if batch and loads else []
    lines += [f"said: {said}"] if str(said) and loads else []
    lines += [line for load in loads for line in load.need.basis]
    if replays and loads:
        lines.append(REPLAYED)
    if plan.study.stop is not None and loads:
        lines.append(f"at most: the run may stop before, by its rule ({plan.study.stop.rule})")
    if work.looked < len(plan):
        lines.append(f"looked at {work.looked:,} of {len(plan):,} trials, taken at random")
    return tuple(dict.fromkeys(lines))
