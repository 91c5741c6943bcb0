"""The Ray task that holds a place in the cluster and starts children there for the driver.

It connects to the driver and executes its commands until the connection is closed; then it kills all that it
started. Each child gets a connection of its own to the driver, so nothing that an attempt does passes through
Ray. Both ends of a connection prove that they know a key, which the driver made for this one task.
"""

from __future__ import annotations

import os
import socket
import struct
import subprocess
import threading
from collections.abc import Callable
from contextlib import suppress
from multiprocessing import AuthenticationError
from multiprocessing.connection import Connection, answer_challenge, deliver_challenge
from typing import TypeVar

import msgspec

from peira.runners.process import child_process
from peira.sandbox import process_tree as tree

PATIENCE = 10
"""Seconds in which the other end has to prove that it knows the key."""
_NO_LIMIT = struct.pack("ll", 0, 0)
KEEPALIVE = {socket.TCP_KEEPIDLE: 10, socket.TCP_KEEPINTVL: 5, socket.TCP_KEEPCNT: 3}
"""Within half a minute it is noticed that a machine is gone."""


class StartChild(msgspec.Struct, frozen=True, tag="start"):
    """From the driver: start a child with this number, whose tree has this label, in this folder."""

    number: int
    label: str
    folder: str


class KillChild(msgspec.Struct, frozen=True, tag="kill"):
    """From the driver: kill a child and everything that it started."""

    number: int


class ChildEnded(msgspec.Struct, frozen=True, tag="ended"):
    """A message to the driver: a child ended with this exit code; `why` it could not be started, if so."""

    number: int
    code: int
    why: str = ""


Message = TypeVar("Message")
_to_host: msgspec.msgpack.Decoder[StartChild | KillChild] = msgspec.msgpack.Decoder(StartChild | KillChild)
decode_ended = msgspec.msgpack.Decoder(ChildEnded).decode
encode_message = msgspec.msgpack.Encoder().encode


def serve(address: str, port: int, key: bytes) -> None:
    """Hold this place for the driver at this address, until it closes the connection."""
    with connected(address, port, key) as link:
        _Host(Connection(link.detach()), lambda: connected(address, port, key)).serve()


class _Host:
    """The children of one place, at most one of them at a time."""

    def __init__(self, control: Connection, connect: Callable[[], socket.socket]) -> None:
        self._control, self._connect = control, connect
        self._sending = threading.Lock()
        self._running: dict[int, tuple[str, int]] = {}
        self._waiting: list[threading.Thread] = []

    def serve(self) -> None:
        """Execute commands of the driver until its connection is closed."""
        try:
            while True:
                message = _to_host.decode(self._control.recv_bytes())
                if isinstance(message, StartChild):
                    self._start(message)
                else:
                    self._kill(message.number)
        except (EOFError, OSError):
            pass
        finally:
            for number in list(self._running):
                self._kill(number)
            for thread in self._waiting:
                thread.join()

    def _start(self, start: StartChild) -> None:
        try:
            folder = start.folder if os.path.isdir(start.folder) else None
            with self._connect() as pipe:
                process = child_process(pipe.fileno(), start.label, folder)
        except (OSError, AuthenticationError) as problem:
            self._tell(ChildEnded(start.number, 1, str(problem)))
            return
        self._running[start.number] = start.label, process.pid
        thread = threading.Thread(target=self._wait, args=(start.number, process), daemon=True)
        self._waiting = [one for one in self._waiting if one.is_alive()] + [thread]
        thread.start()

    def _wait(self, number: int, process: subprocess.Popen[bytes]) -> None:
        """Notify the driver when the child has ended, and kill the processes that it left behind."""
        code = process.wait()
        label, pid = self._running[number]
        tree.end(label, pid)
        del self._running[number]
        self._tell(ChildEnded(number, code))

    def _kill(self, number: int) -> None:
        if (found := self._running.get(number)) is not None:
            tree.end(*found)

    def _tell(self, message: ChildEnded) -> None:
        with self._sending, suppress(OSError):  # the driver may be gone
            self._control.send_bytes(encode_message(message))


def connected(address: str, port: int, key: bytes) -> socket.socket:
    """A connection to the driver, at both ends of which the key is known; OSError if it is not to be had."""
    link = socket.create_connection((address, port), timeout=PATIENCE)
    link.settimeout(None)
    try:
        prove(link, key, first=False)
    except BaseException:
        link.close()
        raise
    return link


def prove(link: socket.socket, key: bytes, first: bool) -> None:
    """Let both ends prove that they know the key; one of them is `first`.

    OSError or AuthenticationError if it does not.
    """
    link.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    link.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for option, value in KEEPALIVE.items():
        link.setsockopt(socket.IPPROTO_TCP, option, value)
    link.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, struct.pack("ll", PATIENCE, 0))
    connection = Connection(os.dup(link.fileno()))
    try:
        for ask in (first, not first):
            (deliver_challenge if ask else answer_challenge)(connection, key)
    except EOFError:
        raise OSError("the other end closed the connection") from None
    finally:
        connection.close()
    link.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, _NO_LIMIT)
