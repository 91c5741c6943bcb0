"""A split-plot table, as a value: which term was tested against which error, and what is clear."""

from __future__ import annotations

from dataclasses import asdict, dataclass

import msgspec

from peira.analysis import layout

ALPHA = 0.05


@dataclass(frozen=True)
class Line:
    """A term in its stratum; `df_error` need not be whole. F and p are None where there is no error."""

    stratum: str
    term: str
    df: int
    squares: float
    f: float | None = None
    df_error: float | None = None
    p: float | None = None


@dataclass(frozen=True)
class Error:
    """What is left of a stratum: the error of the terms in it."""

    stratum: str
    df: int
    squares: float


@dataclass(frozen=True)
class Strata:
    score: str
    lines: tuple[Line, ...] = ()
    errors: tuple[Error, ...] = ()
    notes: tuple[str, ...] = ()

    def line(self, term: str) -> Line:
        return next(one for one in self.lines if one.term == term)

    @property
    def sentence(self) -> str:
        return "\n".join(_said(one, self.score) for one in self.lines) or self.notes[0]

    def _grid(self) -> tuple[list[str], list[list[str]]]:
        rows = []
        for error in self.errors:
            own = [one for one in self.lines if one.stratum == error.stratum]
            rows += [
                [
                    error.stratum,
                    one.term,
                    str(one.df),
                    f"{one.squares:.6g}",
                    _shown(one.f),
                    _shown(one.df_error),
                    _shown(one.p),
                ]
                for one in own
            ]
            rows.append([error.stratum, "error", str(error.df), f"{error.squares:.6g}", "-", "-", "-"])
        return ["stratum", "source", "df", "sum of squares", "F", "df of error", "p"], rows

    @property
    def remarks(self) -> list[str]:
        return [note for note in self.notes if note != self.sentence]

    def __str__(self) -> str:
        table = [layout.plain(*self._grid()), ""] if self.lines else []
        return "\n".join([*table, self.sentence, *self.remarks])

    def markdown(self) -> str:
        table = [layout.markdown(*self._grid())] if self.lines else []
        return "\n\n".join([*table, *self.sentence.splitlines(), *self.remarks])

    def to_json(self) -> str:
        """One document: score, lines, errors, sentence, notes."""
        return msgspec.json.encode({**asdict(self), "sentence": self.sentence}).decode()


def _said(one: Line, score: str) -> str:
    if one.p is None:
        return f"Nothing can be said about {one.term}: there is no error to test it against."
    clear = "makes a difference" if one.p <= ALPHA else "makes no clear difference"
    how = "against whole plots" if one.stratum == "whole plots" else "within plots"
    return f"{one.term} {clear} in {score}: p = {one.p:.3g}, tested {how}."


def _shown(value: float | None) -> str:
    return "-" if value is None else f"{value:.4g}"
