"""What is known of a run beside its trials: how it came about, and what was said to models in it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from peira.core.ids import Json
from peira.core.state import Run
from peira.plan.manifest import Manifest
from peira.plan.provenance import Provenance


@dataclass(frozen=True)
class Exchange:
    """One call of a model, as people read it. `said` is the reply, or what there is in its place; tokens and
    cost (US dollars) are None where they are not known."""

    key: str
    model: str
    status: str
    asked: Json
    said: str
    input: int | None = None
    output: int | None = None
    cost: float | None = None


@dataclass(frozen=True)
class Background:
    """How a run came about. `standing` says how it stands to its frozen plan, if there is one.

    `order` names the trials in the order in which they were to be run; `exchanges` finds calls by their keys,
    those that are recorded.
    """

    run: Run
    manifest: Manifest
    provenance: Provenance | None
    standing: tuple[str, ...]
    order: Callable[[], Iterator[str]]
    exchanges: Callable[[Sequence[str]], Mapping[str, Exchange]]
