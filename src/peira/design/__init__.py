"""The shelf of designs: which conditions, of all there could be."""

from __future__ import annotations

from peira.core.registry import Registry
from peira.design import (
    blocking,
    choosing,
    custom,
    factorial,
    fractional,
    one_factor,
    optimal,
    orthogonal,
    sampling,
    screening,
    sequence,
    surface,
)

ROOMS = (
    factorial,
    fractional,
    screening,
    orthogonal,
    surface,
    one_factor,
    custom,
    sampling,
    blocking,
    sequence,
    optimal,
    choosing,
)


def register(registry: Registry) -> None:
    """Offer the built-in designs, as any plug-in would."""
    for room in ROOMS:
        room.register(registry)
