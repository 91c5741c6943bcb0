"""Effects, as a value: it prints as tables and says in words which effects are clear."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass

import msgspec

from peira.analysis import layout
from peira.analysis.variance import Variance
from peira.stats.values import Estimate


@dataclass(frozen=True)
class Effect:
    """How much a contrast of levels changes the score; `label` says which minus which."""

    term: str
    label: str
    estimate: Estimate
    p: float | None


@dataclass(frozen=True)
class TermTest:
    """The test that a factor or interaction makes no difference at all."""

    term: str
    f: float | None
    df: int
    df_error: int | None
    p: float | None


@dataclass(frozen=True)
class Marginal:
    """The mean at one level of a factor, averaged over the others."""

    factor: str
    level: str
    estimate: Estimate


@dataclass(frozen=True)
class Effects:
    """Main effects and interactions on one score, in the score's own units (or log odds, by such a model)."""

    score: str
    level: float
    effects: tuple[Effect, ...] = ()
    tests: tuple[TermTest, ...] = ()
    means: tuple[Marginal, ...] = ()
    variance: Variance | None = None
    paired: bool = False
    units: int = 0
    notes: tuple[str, ...] = ()

    def effect(self, term: str) -> Effect:
        """The first effect of this term."""
        return next(one for one in self.effects if one.term == term)

    @property
    def sentence(self) -> str:
        """What it says, a line for each term."""
        nothing = self.notes[0] if self.notes else "Too little varies: nothing can be said."
        return "\n".join(self._sentences()) or nothing

    def _sentences(self) -> Iterator[str]:
        alpha = 1 - self.level
        tests = {test.term: test.p for test in self.tests}
        for one in self.effects:
            if " - " not in one.label:
                continue
            found = one.estimate
            shown = layout.interval(found.mean, found.low, found.high)
            p = one.p if tests.get(one.term) is None else tests[one.term]
            clear = "nothing can be said" if p is None else "clear" if p <= alpha else "not clear"
            yield f"{one.term} ({one.label}) changes {self.score} by {shown}: {clear}."
        yield from (
            f"{test.term} makes {'a' if test.p <= alpha else 'no clear'} difference in {self.score}."
            for test in self.tests
            if test.p is not None and not any(e.term == test.term and " - " in e.label for e in self.effects)
        )

    def _effects(self) -> tuple[list[str], list[list[str]]]:
        rows = [
            [e.term, e.label, layout.interval(*_bounds(e.estimate)), "-" if e.p is None else f"{e.p:.3g}"]
            for e in self.effects
        ]
        return ["effect", "levels", f"change in {self.score} [{100 * self.level:g}% interval]", "p"], rows

    def _means(self) -> tuple[list[str], list[list[str]]]:
        rows = [[m.factor, m.level, layout.interval(*_bounds(m.estimate))] for m in self.means]
        return ["factor", "level", f"mean [{100 * self.level:g}% interval]"], rows

    @property
    def remarks(self) -> list[str]:
        said = [self.variance.sources, self.variance.sentence] if self.variance else []
        said = [line for line in said if line]
        if self.effects:
            how = "each case its own control" if self.paired else "cases as a sample"
            said = [f"{how}; {self.units:,} independent {'unit' if self.units == 1 else 'units'}", *said]
        return [*said, *(note for note in self.notes if note != self.sentence)]

    def __str__(self) -> str:
        tables = [layout.plain(*grid) + "\n" for grid in (self._effects(), self._means()) if grid[1]]
        return "\n".join([*tables, self.sentence, *self.remarks])

    def markdown(self) -> str:
        tables = [layout.markdown(*grid) for grid in (self._effects(), self._means()) if grid[1]]
        return "\n\n".join([*tables, *self.sentence.splitlines(), *self.remarks])

    def to_json(self) -> str:
        """One document: the fields of this value, its sentence and its notes."""
        document = {**asdict(self), "sentence": self.sentence, "notes": self.remarks}
        return msgspec.json.encode(document).decode()


def _bounds(found: Estimate) -> tuple[float, float | None, float | None]:
    return found.mean, found.low, found.high
