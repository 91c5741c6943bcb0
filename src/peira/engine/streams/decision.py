"""Ending an experiment by hand: a person chooses the arm that all jobs get from then on.

It is a decision like that of the rule: an event with who decided, why, and how the evidence stood.
"""

from __future__ import annotations

from peira.core.contracts import Op
from peira.core.log.events import AnyEvent, CommandTaken, RunDecided, TrafficSplit
from peira.core.looks import Look, Standing, Traffic
from peira.engine.commands import HANDLERS, CommandService
from peira.engine.control import Command
from peira.engine.streams.declaration import arm_labels, last_opening
from peira.engine.streams.submission import host_of
from peira.errors import Invalid

DECIDE = "decide"
"""The command that ends the experiment of a stream; its body has the stream, an arm's number, and why."""
BY_HAND = "by hand"
"""The rule of such a decision."""
MOST_WHY = 1000


def decide_command(stream: str, arm: int, why: str, by: str) -> Command:
    """The command that ends an experiment with this arm."""
    return Command(DECIDE, "", by, body={"stream": stream, "arm": arm, "why": why})


def hand_decision(
    traffic: Traffic, label: str, arm: int, by: str, why: str, standings: tuple[Standing, ...] = ()
) -> tuple[AnyEvent, AnyEvent]:
    """The events of a decision by hand, which sends all jobs to an arm."""
    answer = f"{label} was chosen by {by}" + (f": {why}" if why else "")
    look = Look(1, traffic.jobs, standings, answer=answer, unit="job")
    shares = tuple(float(one == arm) for one in range(len(traffic.shares)))
    return RunDecided(BY_HAND, look), TrafficSplit(
        Traffic(traffic.experiment, shares, traffic.jobs, arm, str(look)), by
    )


def _decide(service: CommandService, command: Command) -> None:
    """End an experiment; one that has this winner already is left as it is."""
    stream, arm = str(command.body.get("stream", "")), command.body.get("arm")
    why = str(command.body.get("why") or "")[:MOST_WHY]
    run, declaration = last_opening(service.store, stream)
    _, labels = arm_labels(declaration.arms)
    if run.traffic is None or not isinstance(arm, int) or not 0 <= arm < len(labels):
        raise Invalid(f"decide: stream {stream!r} has no such arm")
    if run.traffic.winner == arm:
        return
    host, note = host_of(service), CommandTaken(command.command, command.id, command.by)
    if host is not None and host.serves(stream):
        host.decide(stream, arm, command.by, why, note)
        return
    events = hand_decision(run.traffic, labels[arm], arm, command.by, why)
    service.store.commit([Op(run.id, (note, *events))]).result()


HANDLERS[DECIDE] = _decide
