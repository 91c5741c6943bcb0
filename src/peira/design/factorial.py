"""The full factorial: every level of every factor with every other."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import product

from peira.core.ids import Json
from peira.core.registry import Registry


class FullFactorial:
    name = "full_factorial"

    def conditions(self, factors: Mapping[str, Sequence[Json]], seed: int) -> Iterator[dict[str, Json]]:
        for levels in product(*factors.values()):
            yield dict(zip(factors, levels, strict=True))


def register(registry: Registry) -> None:
    registry.add("design", FullFactorial.name, FullFactorial)
