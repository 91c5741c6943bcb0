"""The fingerprint of a Python callable: a digest of its code and of all user code that it reaches."""

from __future__ import annotations

import os
import types
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from operator import attrgetter

from peira.core.code.constants import constant, digest_of
from peira.core.code.objects import bare, describe
from peira.core.code.origin import OWN, own_file
from peira.core.code.references import MISSING, Edge, ModuleFile, Node, Slot, origin_of

_ROUNDS = 5
SECRET_LENGTH = 8


@dataclass(frozen=True, slots=True)
class Fingerprint:
    """What is known of the code of a callable; contains digests and names only, never a value.

    `parts` are the functions, classes and constants reached, sorted, each with a digest of its own; `unseen`
    is what may change the outcome and is not in the digest, sorted; `files` are the user's own source files
    that were reached.
    """

    digest: str
    parts: tuple[tuple[str, str], ...]
    unseen: tuple[str, ...]
    files: tuple[str, ...] = field(default=(), compare=False)


NOTHING_SEEN = Fingerprint("", (), ())


def fingerprint_of(part: object) -> Fingerprint:
    """The fingerprint of an agent, a transform or an evaluator; an empty one if it has none.

    Without a fingerprint, only its identity shows when it has changed.
    """
    found = getattr(part, "fingerprint", None)
    return found if isinstance(found, Fingerprint) else NOTHING_SEEN


def fingerprint(fn: Callable[..., object], *, version: str | None = None) -> Fingerprint:
    """The fingerprint of a callable, deterministic for the same code and constants.

    It does not depend on the process, folder, import order or (supported) Python version. `version` replaces
    all code in the digest; arguments of a partial and attributes of an instance still count.
    """
    walk = _Walk(fn, version, frozenset())
    # Slots that any code writes to are state, which is left out. All code must be visited to find them, and
    # leaving them out changes what is visited: repeat until no new ones are found.
    for _ in range(_ROUNDS):
        if walk.written <= walk.states:
            break
        walk = _Walk(fn, version, walk.states | walk.written)
    return walk.result()


class _Walk:
    """One traversal of the object graph, breadth first in order of names: the numbering is canonical."""

    def __init__(self, root: object, version: str | None, states: frozenset[Slot]) -> None:
        self.written: set[Slot] = set()
        self._version = version
        self.states = states
        self._parts: set[tuple[str, str]] = set()
        self._unseen: set[str] = set()
        self._files: set[str] = set()
        # A constant read from the environment is a key or a setting, not code: its digest is not recorded.
        self._environment = {value for value in os.environ.values() if len(value) >= SECRET_LENGTH}
        self._numbers: dict[object, int] = {}
        self._queue: deque[tuple[str, object]] = deque()
        self._kept: list[object] = []  # keeps objects alive: they are numbered by id()
        self._graph: list[object] = []
        self._target(Edge("", getattr(root, "__qualname__", type(root).__qualname__), root))
        while self._queue:
            self._graph.append(self._settle(self._describe(*self._queue.popleft())))

    def result(self) -> Fingerprint:
        """The fingerprint of the traversed graph."""
        return Fingerprint(
            digest_of(self._graph),
            tuple(sorted(self._parts)),
            tuple(sorted(self._unseen)),
            tuple(sorted(self._files)),
        )

    def _describe(self, label: str, value: object) -> Node:
        """The node of an object; with a fixed version, functions and classes are opaque."""
        if (file := own_file(value)) is not None:
            self._files.add(file)
        if self._version is not None and isinstance(value, types.FunctionType | type):
            return Node("version", digest_of(["version", self._version]))
        return describe(label, value)

    def _settle(self, node: Node) -> object:
        """The digest of a node with its edges, whose targets are queued."""
        self._parts.add((node.label, node.digest))
        self._unseen.update(node.unseen)
        self.written |= node.written
        edges = sorted(node.edges, key=attrgetter("name"))
        return [node.digest, *([edge.name, self._target(edge)] for edge in edges)]

    def _target(self, edge: Edge) -> int | str:
        """What an edge points to: the number of an object, the digest of a constant, or a marker."""
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
        """The number of an object in order of discovery; a new object is queued."""
        key = value.file if isinstance(value, ModuleFile) else id(value)
        if key not in self._numbers:
            self._numbers[key] = len(self._numbers)
            self._kept.append(value)
            self._queue.append((label, value))
        return self._numbers[key]
