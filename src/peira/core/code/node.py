"""The graph that a fingerprint is the digest of: objects, and the references between them."""

from __future__ import annotations

from dataclasses import dataclass

Slot = tuple[int, str]

NOWHERE: Slot = (0, "")


@dataclass(frozen=True, slots=True)
class Edge:
    """A reference: `name` is its place in the node and counts, `label` is for people."""

    name: str
    label: str
    value: object
    slot: Slot = NOWHERE


@dataclass(frozen=True, slots=True)
class Node:
    """An object: the digest of what it is by itself, what it refers to, and the slots its code writes to."""

    label: str
    digest: str
    edges: tuple[Edge, ...] = ()
    unseen: tuple[str, ...] = ()
    written: frozenset[Slot] = frozenset()


@dataclass(frozen=True, slots=True)
class ModuleFile:
    """A module of the user that counts whole: imported inside a function, or used as an object."""

    name: str
    package: str
    file: str
