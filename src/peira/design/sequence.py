"""Designs in which order or place matters: split plots, crossover, repeated measures.

A split plot sets some factors once for a whole plot of runs, because they are dear to change. In a crossover
and in repeated measures each subject gets every treatment, one after the other; counterbalancing keeps what
comes early, and what comes after what, from lining up with the treatments:

- `williams`: each treatment once in each period, and each after each other equally often. t subjects for an
  even number t of treatments, 2t for an odd one, or a multiple;
- `latin_square`: each treatment once in each period only, and always after the same other. t subjects;
- `all_orders`: every order there is. t! subjects;
- `random`: an order of its own for each subject: balanced in expectation only, for any number of subjects.

Constraints are not looked at: what they exclude stays in the plan, and is not run.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from itertools import permutations
from random import Random
from typing import Literal

from peira.core.registry import Registry
from peira.core.space import Dimension, Point, Space
from peira.design.dimensions import chosen, combinations, counted, in_order, named, ranges, require, unfit

Counterbalance = Literal["williams", "latin_square", "all_orders", "random"]
KINDS = ("williams", "latin_square", "all_orders", "random")
MOST_ORDERED = 8
MOST_TREATMENTS = 500


class SplitPlot:
    """All combinations; those of the whole-plot factors once for each of `plots` whole plots.

    Whole-plot factors are those named in `whole`, or else those that are dear to change. With one plot for
    each combination the error between plots cannot be told from the effects of the whole-plot factors.
    """

    name = "split_plot"

    def __init__(self, *, whole: Sequence[str] = (), plots: int = 1) -> None:
        require(_names("whole", whole), counted("plots", plots, 1))
        self.whole, self.plots = tuple(whole), plots

    def size(self, space: Space) -> int:
        self._split(space)
        return math.prod(len(d.levels) for d in space.dimensions) * self.plots

    def points(self, space: Space, seed: int) -> Iterator[Point]:
        outer, inner = self._split(space)
        return self._points(space, outer, inner)

    def _points(
        self, space: Space, outer: Sequence[Dimension], inner: Sequence[Dimension]
    ) -> Iterator[Point]:
        plots = (around for _ in range(self.plots) for around in combinations(outer))
        for plot, around in enumerate(plots, start=1):
            for within in combinations(inner):
                yield Point(in_order(space, around | within), plot=str(plot))

    def _split(self, space: Space) -> tuple[list[Dimension], list[Dimension]]:
        require(unfit(space), ranges(space, self.name), named("whole", self.whole, space))
        whole = set(self.whole) or {d.name for d in space.dimensions if d.dear}
        outer = [d for d in space.dimensions if d.name in whole]
        inner = [d for d in space.dimensions if d.name not in whole]
        if not outer:
            require(['no factor is dear to change; say which in whole = ["..."], or take full_factorial'])
        if not inner:
            require(["every factor is set for whole plots; leave one out of whole, or take full_factorial"])
        return outer, inner


class RepeatedMeasures:
    """Every subject (a block) gets every treatment, one in each period.

    A treatment is a combination of the factors `within` subjects, all if none is named; every combination of
    the others has `subjects` of its own. Without `subjects` there are as many as the counterbalancing needs.
    Treatments are dealt to their places, and subjects to their sequences, at random.
    """

    name = "repeated_measures"

    def __init__(
        self, *, subjects: int = 0, within: Sequence[str] = (), counterbalance: Counterbalance = "williams"
    ) -> None:
        require(
            counted("subjects", subjects, 1) if subjects != 0 else (),
            _names("within", within),
            chosen("counterbalance", counterbalance, KINDS),
            ["subjects: say how many get random orders"]
            if counterbalance == "random" and not subjects
            else (),
        )
        self.subjects, self.within, self.counterbalance = subjects, tuple(within), counterbalance

    def size(self, space: Space) -> int:
        self._checked(space)
        return math.prod(len(d.levels) for d in space.dimensions) * self._subjects(space)

    def points(self, space: Space, seed: int) -> Iterator[Point]:
        self._checked(space)
        return self._points(space, Random(f"{self.name} {seed}"))

    def _points(self, space: Space, random: Random) -> Iterator[Point]:
        treatments = list(combinations([d for d in space.dimensions if self._varies(d)]))
        between = combinations([d for d in space.dimensions if not self._varies(d)])
        subject = 0
        for around in between:
            random.shuffle(treatments)
            for order in self._orders(len(treatments), self._subjects(space), random):
                subject += 1
                for period, place in enumerate(order, start=1):
                    factors = in_order(space, around | treatments[place])
                    yield Point(factors, block=str(subject), period=period)

    def _orders(self, t: int, subjects: int, random: Random) -> Iterator[Sequence[int]]:
        if self.counterbalance == "random":
            yield from (random.sample(range(t), t) for _ in range(subjects))
            return
        orders = {"williams": williams, "latin_square": cyclic, "all_orders": _every}[self.counterbalance](t)
        for _ in range(subjects // len(orders)):
            yield from random.sample(orders, len(orders))

    def _varies(self, dimension: Dimension) -> bool:
        return not self.within or dimension.name in self.within

    def _treatments(self, space: Space) -> int:
        return math.prod(len(d.levels) for d in space.dimensions if self._varies(d))

    def _subjects(self, space: Space) -> int:
        return self.subjects or _needed(self.counterbalance, self._treatments(space))

    def _checked(self, space: Space) -> None:
        require(unfit(space), ranges(space, self.name), named("within", self.within, space))
        require(self._uneven(self._treatments(space)))

    def _uneven(self, t: int) -> Iterator[str]:
        if t > MOST_TREATMENTS:
            yield f"{t} treatments are too many for one subject; name fewer factors in within"
        elif self.counterbalance == "all_orders" and t > MOST_ORDERED:
            yield f'counterbalance: {t} treatments have too many orders to take them all; say "williams"'
        elif self.subjects and self.subjects % (needed := _needed(self.counterbalance, t)):
            near = needed * max(1, round(self.subjects / needed))
            yield (
                f"subjects: {self.counterbalance} orders of {t} treatments need a multiple of {needed}, "
                f"not {self.subjects}; say {near}"
            )


class Crossover(RepeatedMeasures):
    """Repeated measures in Williams squares: what carries over from one treatment to the next is balanced."""

    name = "crossover"

    def __init__(self, *, subjects: int = 0, within: Sequence[str] = ()) -> None:
        super().__init__(subjects=subjects, within=within)


def cyclic(t: int) -> list[tuple[int, ...]]:
    """t orders, each one step on from the one before."""
    return [tuple((start + place) % t for place in range(t)) for start in range(t)]


def williams(t: int) -> list[tuple[int, ...]]:
    """t orders (2t for odd t) with each treatment in each place, and after each other one, equally often."""
    first = [place // 2 + 1 if place % 2 else -place // 2 for place in range(t)]
    orders = [tuple((treatment + shift) % t for treatment in first) for shift in range(t)]
    return orders + [order[::-1] for order in orders] if t % 2 else orders


def _every(t: int) -> list[tuple[int, ...]]:
    return list(permutations(range(t)))


def _needed(counterbalance: Counterbalance, t: int) -> int:
    """What the number of subjects must be a multiple of."""
    if counterbalance == "all_orders":
        return math.factorial(t)
    return {"williams": t * (1 + t % 2), "latin_square": t, "random": 1}[counterbalance]


def _names(parameter: str, value: object) -> Iterator[str]:
    if not isinstance(value, (list, tuple)) or not all(isinstance(name, str) for name in value):
        yield f"{parameter}: must be a list of names of factors, not {value!r}"


def register(registry: Registry) -> None:
    for design in (SplitPlot, RepeatedMeasures, Crossover):
        registry.add("design", design.name, design)
