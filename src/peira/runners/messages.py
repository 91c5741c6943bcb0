"""The messages between a process runner and its child, over a pair of sockets."""

from __future__ import annotations

from multiprocessing.connection import Connection
from typing import Any

import msgspec

from peira.core.ids import Json


class SetupMessage(msgspec.Struct, frozen=True, tag="setup"):
    """The first message to the child: what it needs to rebuild work.

    The reader (module:name) of the work to come, where the code of each agent is or of which kind it is, the
    import path, the label of its process tree, and the functions (module:function) that register the
    project's plug-ins.
    """

    reader: str
    code: dict[str, str | dict[str, Any]]
    path: list[str]
    label: str
    plugins: list[str] = []


class AttemptMessage(msgspec.Struct, frozen=True, tag="do"):
    """A message to the child: one attempt at a task, with its work as a message for the reader.

    `around` names the context managers (module:function) in which it is performed, with their arguments.
    """

    task: str
    reader: str
    work: dict[str, Any]
    epoch: int
    attempt: int
    around: list[tuple[str, dict[str, str]]] = []


class AnswerMessage(msgspec.Struct, frozen=True, tag="answer"):
    """To the child: the answer to its request of this number."""

    number: int
    value: Any = None
    abandoned: bool = False
    problem: str = ""
    kind: str = ""


class RequestMessage(msgspec.Struct, frozen=True, tag="ask"):
    """From the child: a call of a method of the channel; its number is unique in this child."""

    method: str
    arguments: list[Any]
    attempt: int
    number: int


class ReadyMessage(msgspec.Struct, frozen=True, tag="ready"):
    """The first message from the child: it has loaded the code that can be loaded."""


class OutputMessage(msgspec.Struct, frozen=True, tag="done"):
    """From the child: the attempt's output."""

    value: Json
    attempt: int


class FailureMessage(msgspec.Struct, frozen=True, tag="broken"):
    """From the child: why there is no output.

    A `permanent` failure is not retried; `wait` is how many seconds a parked attempt wants to wait.
    """

    name: str
    message: str
    trace: str
    permanent: bool
    attempt: int
    wait: float = 0.0


_to_child: msgspec.msgpack.Decoder[SetupMessage | AttemptMessage | AnswerMessage] = msgspec.msgpack.Decoder(
    SetupMessage | AttemptMessage | AnswerMessage
)
_from_child: msgspec.msgpack.Decoder[RequestMessage | ReadyMessage | OutputMessage | FailureMessage] = (
    msgspec.msgpack.Decoder(RequestMessage | ReadyMessage | OutputMessage | FailureMessage)
)
_encode = msgspec.msgpack.Encoder().encode


def send(connection: Connection, message: msgspec.Struct) -> None:
    """Send a message."""
    connection.send_bytes(_encode(message))


def receive_in_child(connection: Connection) -> SetupMessage | AttemptMessage | AnswerMessage:
    """Wait for the next message to the child; EOFError if the other end is closed."""
    return _to_child.decode(connection.recv_bytes())


def receive(connection: Connection) -> RequestMessage | ReadyMessage | OutputMessage | FailureMessage:
    """Wait for the next message from the child; EOFError if the other end is closed."""
    return _from_child.decode(connection.recv_bytes())
