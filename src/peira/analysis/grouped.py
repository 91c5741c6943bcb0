"""Observations by the labels they share, in the order in which these first come."""

from __future__ import annotations

from collections.abc import Sequence

from peira.analysis.groups import check_names, key_of, label_of
from peira.analysis.layout import cell
from peira.analysis.levels import LabelKey, unique
from peira.analysis.measures import Observation

Grouped = list[tuple[str, list[Observation]]]


def grouped(seen: Sequence[Observation], by: Sequence[str]) -> Grouped:
    """Each group with its label; without names all are one. Unknown for a name that is no factor."""
    check_names(by, {name for one in seen for name in one.trial.condition}, ())
    gathered: dict[tuple[LabelKey, ...], list[Observation]] = {}
    for one in seen:
        key = tuple(key_of(label_of(one.trial, name)) for name in by)
        gathered.setdefault(key, []).append(one)
    labels = unique(
        ", ".join(cell(label_of(group[0].trial, name)) for name in by) or "all" for group in gathered.values()
    )
    return list(zip(labels, gathered.values(), strict=True))
