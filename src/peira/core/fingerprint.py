"""The identity of a Python callable: its code, and all of the user's own that the code reaches.

From the callable, the walk goes to what its source reads: functions and classes of the user's own modules,
plain constants by value, closures, defaults, bound objects. The result is the digest of that graph, in which
module names, file locations and the order of imports do not appear. What cannot be seen is said in `unseen`:
installed packages, objects of other kinds (by name and type, never by repr), and state, which is whatever the
reached code itself rebinds or fills: a cache that grew is no new code.
"""

from __future__ import annotations

import os
import types
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field

from peira.core.code.constants import constant, digest_of
from peira.core.code.node import Edge, ModuleFile, Node, Slot
from peira.core.code.objects import bare, describe
from peira.core.code.origin import OWN, own_file
from peira.core.code.reach import MISSING, origin_of

_ROUNDS = 5
SECRET_LENGTH = 8


@dataclass(frozen=True, slots=True)
class Fingerprint:
    """What peira saw of a callable. Holds digests and names only, never a value.

    `parts` are the functions, classes and constants reached, sorted, each with a digest of its own;
    `unseen` is what may change the outcome and is not in the digest, sorted; `files` are the user's own
    source files that were reached.
    """

    digest: str
    parts: tuple[tuple[str, str], ...]
    unseen: tuple[str, ...]
    files: tuple[str, ...] = field(default=(), compare=False)


def fingerprint(fn: Callable[..., object], *, version: str | None = None) -> Fingerprint:
    """The same for the same code and constants, in any process, folder, import order and supported Python.

    `version` stands in for all code; arguments of a partial and attributes of an instance still count.
    """
    walk = _Walk(fn, version, frozenset())
    # What is state is known only when all code was reached, and what is state is not reached through.
    for _ in range(_ROUNDS):
        if walk.written <= walk.states:
            break
        walk = _Walk(fn, version, walk.states | walk.written)
    return walk.result()


class _Walk:
    """One walk over the graph, breadth first in the order of names, so that its numbering is canonical."""

    def __init__(self, root: object, version: str | None, states: frozenset[Slot]) -> None:
        self.written: set[Slot] = set()
        self._version = version
        self.states = states
        self._parts: set[tuple[str, str]] = set()
        self._unseen: set[str] = set()
        self._files: set[str] = set()
        # A constant read from the environment is a key or a setting, not code: no digest of it is kept.
        self._environment = {value for value in os.environ.values() if len(value) >= SECRET_LENGTH}
        self._numbers: dict[object, int] = {}
        self._queue: deque[tuple[str, object]] = deque()
        self._kept: list[object] = []  # objects are numbered by id, and an id lives as long as its object
        self._graph: list[object] = []
        self._target(Edge("", getattr(root, "__qualname__", type(root).__qualname__), root))
        while self._queue:
            self._graph.append(self._settle(self._describe(*self._queue.popleft())))

    def result(self) -> Fingerprint:
        return Fingerprint(
            digest_of(self._graph),
            tuple(sorted(self._parts)),
            tuple(sorted(self._unseen)),
            tuple(sorted(self._files)),
        )

    def _describe(self, label: str, value: object) -> Node:
        if (file := own_file(value)) is not None:
            self._files.add(file)
        if self._version is not None and isinstance(value, types.FunctionType | type):
            return Node("version", digest_of(["version", self._version]))
        return describe(label, value)

    def _settle(self, node: Node) -> object:
        self._parts.add((node.label, node.digest))
        self._unseen.update(node.unseen)
        self.written |= node.written
        edges = sorted(node.edges, key=lambda edge: edge.name)
        return [node.digest, *([edge.name, self._target(edge)] for edge in edges)]

    def _target(self, edge: Edge) -> int | str:
        if edge.slot in self.states:
            self._unseen.add(f"state {edge.label}")
            return "state"
        if edge.value is MISSING:
            self._unseen.add(f"name {edge.label}")
            return "missing"
        if isinstance(edge.value, str) and edge.value in self._environment:
            self._unseen.add(f"environment value {edge.label}")
            return "environment"
        digest = constant(edge.value) if origin_of(edge.value) != OWN else None
        if digest is None:
            return self._number(edge.label, bare(edge.value))
        self._parts.add((edge.label, digest))
        return digest

    def _number(self, label: str, value: object) -> int:
        key = value.file if isinstance(value, ModuleFile) else id(value)
        if key not in self._numbers:
            self._numbers[key] = len(self._numbers)
            self._kept.append(value)
            self._queue.append((label, value))
        return self._numbers[key]
