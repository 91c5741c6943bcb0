"""The graph of a work plan as SVG: units in rows, each below all that it needs, with their states."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from urllib.parse import quote

from markupsafe import Markup

from peira.report.writers.html import visible

WIDTH, HEIGHT, GAP, STEP = 150, 46, 18, 46
"""The size of a box, and the distances between boxes of a row and between rows."""
MOST_BOXES, MOST_NAME = 120, 19
MARKS = {
    "succeeded": "✓",
    "failed": "✗",
    "blocked": "⊘",
    "cancelled": "⊘",
    "exhausted": "✗",
    "running": "●",
    "interrupted": "⊘",
}
"""A sign for each state, for those who see no colours."""


@dataclass(frozen=True)
class GraphUnit:
    """A unit in the graph: its state, and the names of the units that it needs."""

    name: str
    state: str
    needs: tuple[str, ...]


def unit_graph(units: Sequence[GraphUnit], href: str = "") -> Markup:
    """The graph of units, each given after all that it needs; "" if there are too many to see anything.

    `href` is what the addresses of units begin with; without it there are no links.
    """
    if not units or len(units) > MOST_BOXES:
        return Markup("")
    places = _places(units)
    width = max(x for x, _ in places.values()) + WIDTH + 2
    height = max(y for _, y in places.values()) + HEIGHT + 2
    lines = [
        Markup('<path class="edge" d="M{0} {1} C{0} {2} {3} {2} {3} {4}"/>').format(
            _middle(places[need]),
            places[need][1] + HEIGHT,
            (places[need][1] + HEIGHT + places[one.name][1]) // 2,
            _middle(places[one.name]),
            places[one.name][1],
        )
        for one in units
        for need in one.needs
        if need in places
    ]
    role = "group" if href else "img"
    boxes = [_box(one, places[one.name], href) for one in units]
    return Markup(
        '<svg class="graph" viewBox="-1 -1 {0} {1}" width="{0}" height="{1}" role="{4}" aria-label="{2}">'
        "{3}</svg>"
    ).format(width, height, f"{len(units)} units and what they need", Markup("").join([*lines, *boxes]), role)


def _middle(place: tuple[int, int]) -> int:
    return place[0] + WIDTH // 2


def _box(unit: GraphUnit, place: tuple[int, int], href: str) -> Markup:
    x, y = place
    name = unit.name if len(unit.name) <= MOST_NAME else f"…{unit.name[1 - MOST_NAME :]}"
    box = Markup(
        '<g class="unit {}"><title>{}: {}</title><rect x="{}" y="{}" width="{}" height="{}" rx="8"/>'
        '<text x="{}" y="{}" class="of">{}</text><text x="{}" y="{}" class="is">{} {}</text></g>'
    ).format(
        unit.state,
        visible(unit.name),
        unit.state,
        *(x, y, WIDTH, HEIGHT),
        *(x + 10, y + 19, visible(name)),
        *(x + 10, y + 36, MARKS.get(unit.state, "○"), unit.state.replace("_", " ")),
    )
    if not href:
        return box
    return Markup('<a href="{}{}">{}</a>').format(href, quote(unit.name), box)


def _places(units: Sequence[GraphUnit]) -> dict[str, tuple[int, int]]:
    """Where each box is: its row is one below the lowest of its needs, its column near theirs."""
    rows = _rows(units)
    order: dict[str, float] = {}
    found: dict[str, tuple[int, int]] = {}
    widest = max(sum(row == level for row in rows.values()) for level in set(rows.values()))
    for level in sorted(set(rows.values())):
        names = [one for one in units if rows[one.name] == level]
        near = {
            one.name: sum(order[need] for need in one.needs if need in order) / len(one.needs)
            if one.needs
            else 0.0
            for one in names
        }
        names.sort(key=lambda one: near[one.name])
        offset = (widest - len(names)) * (WIDTH + GAP) // 2
        for at, one in enumerate(names):
            order[one.name] = at + (widest - len(names)) / 2
            found[one.name] = offset + at * (WIDTH + GAP), level * (HEIGHT + STEP)
    return found


def _rows(units: Sequence[GraphUnit]) -> Mapping[str, int]:
    rows: dict[str, int] = {}
    for one in units:
        rows[one.name] = max((rows[need] + 1 for need in one.needs if need in rows), default=0)
    return rows
