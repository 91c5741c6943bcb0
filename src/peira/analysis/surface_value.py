"""A response surface, as a value: where the score is best, how sure that is, and whether the model fits."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass

import msgspec

from peira.analysis import layout
from peira.stats.values import Estimate, Interval


@dataclass(frozen=True)
class Coefficient:
    """A term of the surface (temperature, temperature², temperature x length), in coded units."""

    term: str
    estimate: Estimate
    p: float | None


@dataclass(frozen=True)
class Setting:
    """A factor at its best: `low` and `high` are the range in which its best value lies with the level's
    chance, `edge` the chance that it lies at an end of what was run. `turns` is where the surface turns."""

    factor: str
    best: float
    low: float | None
    high: float | None
    edge: float | None
    turns: Interval | None


@dataclass(frozen=True)
class Direction:
    """How the surface curves along one direction, given as weights of the coded factors."""

    weights: tuple[float, ...]
    curvature: Interval


@dataclass(frozen=True)
class Fits:
    """Whether the surface leaves more than chance would: the test of lack of fit against replicates."""

    f: float | None
    df: int
    df_error: int
    p: float | None


@dataclass(frozen=True)
class Surface:
    """`kind` says what the turning point is (maximum, minimum, saddle point; empty where there is none).
    `share` is what the surface explains of the differences between the points that were run."""

    score: str
    level: float
    goal: str
    coefficients: tuple[Coefficient, ...] = ()
    settings: tuple[Setting, ...] = ()
    value: Estimate | None = None
    kind: str = ""
    inside: bool = False
    directions: tuple[Direction, ...] = ()
    fits: Fits | None = None
    share: float | None = None
    notes: tuple[str, ...] = ()

    @property
    def sentence(self) -> str:
        """What it says, for everybody."""
        if self.value is None:
            return self.notes[0]
        shown = layout.interval(self.value.mean, self.value.low, self.value.high)
        where = ", ".join(_where(one) for one in self.settings)
        return f"{self.score} is {self.goal} at {where}: {shown}."

    def _told(self) -> Iterator[str]:
        if self.kind:
            place = "within" if self.inside else "outside"
            yield f"The surface turns {place} the region that was run, at a {self.kind}{self._sure()}."
        if self.fits is not None and self.fits.p is not None:
            good = self.fits.p > 1 - self.level
            said = "A second-order surface fits" if good else "A second-order surface does NOT fit"
            yield f"{said} (lack of fit: p = {self.fits.p:.3g})."
        at_edge = [one.factor for one in self.settings if one.edge is not None and one.edge > 0.5]
        if at_edge:
            yield f"The best value of {', '.join(at_edge)} lies at an end of its range: look beyond it."

    def _sure(self) -> str:
        flat = [d for d in self.directions if _crosses(d.curvature)]
        return "; one of its curvatures may be 0: a ridge" if flat and self.directions else ""

    def _grid(self) -> tuple[list[str], list[list[str]]]:
        rows = [
            [
                c.term,
                layout.interval(c.estimate.mean, c.estimate.low, c.estimate.high),
                "-" if c.p is None else f"{c.p:.3g}",
            ]
            for c in self.coefficients
        ]
        return ["term", f"change in {self.score}, coded [{100 * self.level:g}% interval]", "p"], rows

    def _best(self) -> tuple[list[str], list[list[str]]]:
        rows = [
            [one.factor, layout.interval(one.best, one.low, one.high), _chance(one.edge), _turns(one)]
            for one in self.settings
        ]
        level = f"{100 * self.level:g}%"
        return ["factor", f"best [{level} range]", "P(at an end)", f"turns at [{level} interval]"], rows

    @property
    def remarks(self) -> list[str]:
        return [*self._told(), *(note for note in self.notes if note != self.sentence)]

    def __str__(self) -> str:
        tables = [layout.plain(*grid) + "\n" for grid in (self._grid(), self._best()) if grid[1]]
        return "\n".join([*tables, self.sentence, *self.remarks])

    def markdown(self) -> str:
        tables = [layout.markdown(*grid) for grid in (self._grid(), self._best()) if grid[1]]
        return "\n\n".join([*tables, self.sentence, *self.remarks])

    def to_json(self) -> str:
        """One document: the fields of this value, its sentence and its notes."""
        document = {**asdict(self), "sentence": self.sentence, "notes": self.remarks}
        return msgspec.json.encode(document).decode()


def _where(one: Setting) -> str:
    shown = layout.interval(one.best, one.low, one.high) if one.low is not None else f"{one.best:.4g}"
    return f"{one.factor} {shown}"


def _turns(one: Setting) -> str:
    return layout.interval(one.turns.value, one.turns.low, one.turns.high) if one.turns else "-"


def _chance(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f}"


def _crosses(found: Interval) -> bool:
    return found.low is None or found.high is None or found.low <= 0 <= found.high
