"""What constraints took from a design: its diagnosis beside that of the same design without them."""

from __future__ import annotations

from collections.abc import Iterator

from peira.design.diagnostics import Diagnosis
from peira.design.plain import ROMAN, listed, spoken


def losses(without: Diagnosis, under: Diagnosis) -> list[str]:
    """Each property that the design has `without` the constraints and not `under` them, a line each."""
    return [
        *_levels(without, under),
        *_balance(without, under),
        *_orthogonality(without, under),
        *_resolution(without, under),
        *_effects(without, under),
    ]


def _levels(without: Diagnosis, under: Diagnosis) -> Iterator[str]:
    before = {one.factor: one for one in without.balance}
    for one in under.balance:
        gone = [level for level in one.missing if level not in before[one.factor].missing]
        if gone:
            yield (
                f"{one.factor}: {listed(gone)} is never run"
                if len(gone) == 1
                else (f"{one.factor}: {listed(gone)} are never run")
            )


def _balance(without: Diagnosis, under: Diagnosis) -> Iterator[str]:
    even = {one.factor for one in without.balance if one.even}
    if lost := [one.factor for one in under.balance if one.factor in even and not one.even]:
        yield f"the balance of {listed(lost)} is lost"


def _orthogonality(without: Diagnosis, under: Diagnosis) -> Iterator[str]:
    before = {pair.factors for pair in without.pairs if pair.orthogonal}
    for pair in under.pairs:
        if pair.factors in before and not pair.orthogonal:
            yield f"{pair.factors[0]} and {pair.factors[1]} are no longer orthogonal to each other"


def _resolution(without: Diagnosis, under: Diagnosis) -> Iterator[str]:
    if without.regular is None or without.regular.resolution is None:
        return
    was = ROMAN.get(without.regular.resolution, str(without.regular.resolution))
    if under.regular is None:
        yield f"it is no longer a regular fraction, which had resolution {was}"
    elif under.regular.resolution is not None and under.regular.resolution < without.regular.resolution:
        yield f"the resolution falls from {was} to {ROMAN.get(under.regular.resolution, '?')}"


def _effects(without: Diagnosis, under: Diagnosis) -> Iterator[str]:
    """Effects that were seen and clear, and are not any more."""
    before = {one.effect: one for one in without.clarity}
    shown = [one for one in under.clarity if one.effect in before]
    if lost := [one.effect for one in shown if one.lost > before[one.effect].lost]:
        yield f"{listed(lost)} can no longer be seen in full"
    for one in shown:
        new = [other for other in one.confounded_with if other not in before[one.effect].confounded_with]
        if new:
            yield f"{spoken(one.effect)} is now confounded with {listed(new)}"
    if muddied := [one.effect for one in shown if before[one.effect].clear and not (one.clear or one.lost)]:
        yield f"{listed(muddied)} {'is' if len(muddied) == 1 else 'are'} no longer clear of other effects"
