"""What a store knows of a stream: its declaration, recorded with every opening.

So any process can submit jobs and list them without the file in which the stream is written.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from peira.core.contracts import OpenStore, RunQuery
from peira.core.log.rows import Run
from peira.core.looks import Traffic
from peira.core.registry import nearest
from peira.core.text.grid import cell
from peira.errors import Unknown
from peira.plan.conditions import Condition
from peira.spec.streams.stream import Stream
from peira.spec.streams.triggers import Webhook, label_of

TAG = "stream"
"""The tag of runs that are openings of a stream."""


class DecidingScore(msgspec.Struct, frozen=True, omit_defaults=True):
    """The score by which the arms of a stream are compared, as its experiment declares it.

    `late`: it is an outcome that is reported later. `stops`: after the decision all jobs go to the winner.
    """

    name: str
    late: bool = False
    minimize: bool = False
    range: tuple[float, float] = (0.0, 1.0)
    alpha: float = 0.05
    margin: float | None = None
    stops: bool = False


class Declaration(msgspec.Struct, frozen=True, omit_defaults=True):
    """A stream as it was last opened: how jobs get their session and their condition, and its limits.

    `arms` are the conditions as they are shown, in the order of the arms of jobs; `hooks` are the names of
    webhooks, with the variables that hold their secrets; `places` is how many jobs of all streams together
    its host runs at a time, if that is limited; `least_share` is the smallest probability that an arm may
    have, and `deciding` the score by which arms are compared, if they are drawn; `shadows` is what
    shadows may use, if there are any.
    """

    name: str
    session: str = ""
    isolation: str = "isolated"
    assign: str = "one"
    parallel: int = 1
    arms: tuple[dict[str, Any], ...] = ({},)
    triggers: tuple[str, ...] = ()
    hooks: dict[str, str] = {}
    places: int | None = None
    goals: tuple[dict[str, Any], ...] = ()
    least_share: float = 1.0
    deciding: DecidingScore | None = None
    shadows: dict[str, Any] | None = None


_decode = msgspec.json.Decoder(Declaration).decode


def declared(
    stream: Stream,
    conditions: tuple[Condition, ...],
    places: int | None = None,
    deciding: DecidingScore | None = None,
) -> bytes:
    """The declaration of a stream, as it is recorded."""
    arms = tuple({"agent": one.agent, **dict(one.shown)} for one in conditions) or ({},)
    return msgspec.json.encode(
        Declaration(
            name=stream.name,
            session=stream.session,
            isolation=stream.isolation,
            assign=stream.assign,
            parallel=stream.parallel,
            arms=arms,
            triggers=tuple(map(label_of, stream.triggers)),
            hooks={one.name: one.webhook for one in stream.triggers if isinstance(one, Webhook)},
            places=places,
            goals=tuple(one.model_dump(mode="json", exclude_defaults=True) for one in stream.goals),
            least_share=stream.experiment.least_share(len(arms), stream.assign),
            deciding=deciding,
            shadows=_shadows(stream),
        )
    )


def _shadows(stream: Stream) -> dict[str, Any] | None:
    """What the shadows of a stream may use, as plain values; None if it has none."""
    if stream.assign != "all":
        return None
    budget = stream.shadow_budget
    limits = {name: getattr(budget, name) for name in ("money", "tokens", "calls")}
    known = {name: most for name, most in limits.items() if most is not None}
    return {"parallel": stream.shadows.parallel or stream.parallel, "budget": known}


def compares(run: Run, declaration: Declaration) -> bool:
    """Whether an opening of a stream is an experiment: jobs are drawn for arms, or done under all of them."""
    return len(declaration.arms) > 1 and (run.traffic is not None or declaration.assign == "all")


def declaration_of(store: OpenStore, opening: Run) -> Declaration:
    """The declaration of a stream in one of its openings."""
    return _decode(store.get(opening.stream))


def last_opening(store: OpenStore, name: str) -> tuple[Run, Declaration]:
    """The last opening of a stream and its declaration; Unknown if it was never opened in this store."""
    found = store.runs(RunQuery(study=name, tag=TAG, limit=1))
    if not found:
        known = stream_names(store)
        there = f"; there are {', '.join(known)}" if known else "; serve it first: peira serve FILE.py"
        raise Unknown(f"no stream {name!r} in this store{nearest(name, known) if known else there}")
    return found[0], declaration_of(store, found[0])


def arm_labels(arms: Sequence[Mapping[str, Any]]) -> tuple[list[str], tuple[str, ...]]:
    """What varies between arms, and each arm as people are shown it: its level, or all levels that vary."""
    varying = [name for name in arms[0] if len({repr(arm.get(name)) for arm in arms}) > 1]
    if len(varying) == 1:
        return varying, tuple(cell(arm[varying[0]]) for arm in arms)
    return varying, tuple(", ".join(f"{name}={cell(arm.get(name))}" for name in varying) for arm in arms)


def traffic_document(traffic: Traffic, declaration: Declaration) -> dict[str, Any]:
    """The traffic of a stream as plain values: shares of the arms, jobs that they rest on, and the winner."""
    _, labels = arm_labels(declaration.arms)
    return {
        "shares": dict(zip(labels, traffic.shares, strict=True)),
        "jobs": traffic.jobs,
        "winner": labels[traffic.winner] if traffic.winner >= 0 else None,
        "why": traffic.why,
    }


def stream_names(store: OpenStore) -> list[str]:
    """The names of all streams that were ever opened in this store."""
    return list(dict.fromkeys(run.study for run in store.runs(RunQuery(tag=TAG, limit=1_000_000))))
