"""What a process runner and its child say to each other: small messages over a pair of sockets."""

from __future__ import annotations

from multiprocessing.connection import Connection
from typing import Any

import msgspec

from peira.core.ids import Json


class Setup(msgspec.Struct, frozen=True, tag="setup"):
    """To the child, first: where the agents' code is."""

    agents: dict[str, str]
    path: list[str]
    label: str


class Do(msgspec.Struct, frozen=True, tag="do"):
    """To the child: one attempt."""

    work: dict[str, Any]
    epoch: int
    attempt: int


class Answer(msgspec.Struct, frozen=True, tag="answer"):
    """To the child: what its request of this number came to."""

    number: int
    value: Any = None
    abandoned: bool = False
    problem: str = ""
    kind: str = ""


class Ask(msgspec.Struct, frozen=True, tag="ask"):
    """From the child: a method of the channel, called there. Its number is like no other's of this child."""

    method: str
    arguments: list[Any]
    attempt: int
    number: int


class Ready(msgspec.Struct, frozen=True, tag="ready"):
    """From the child, first: it has loaded what it could."""


class Done(msgspec.Struct, frozen=True, tag="done"):
    """From the child: the attempt's output."""

    value: Json
    attempt: int


class Broken(msgspec.Struct, frozen=True, tag="broken"):
    """From the child: why there is no output. `permanent` failures are not worth another try; `wait` is how
    long a parked attempt wants to be left."""

    name: str
    message: str
    trace: str
    permanent: bool
    attempt: int
    wait: float = 0.0


_to_child: msgspec.msgpack.Decoder[Setup | Do | Answer] = msgspec.msgpack.Decoder(Setup | Do | Answer)
_from_child: msgspec.msgpack.Decoder[Ask | Ready | Done | Broken] = msgspec.msgpack.Decoder(
    Ask | Ready | Done | Broken
)
_encode = msgspec.msgpack.Encoder().encode


def send(line: Connection, message: msgspec.Struct) -> None:
    line.send_bytes(_encode(message))


def receive_in_child(line: Connection) -> Setup | Do | Answer:
    return _to_child.decode(line.recv_bytes())


def receive(line: Connection) -> Ask | Ready | Done | Broken:
    return _from_child.decode(line.recv_bytes())
