"""What became of the hypotheses, as a value: a verdict for each, with the evidence and how it was judged."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Literal

import msgspec

from peira.analysis import layout
from peira.analysis.contrast import Contrast

Verdict = Literal["supported", "rejected", "undecided"]


@dataclass(frozen=True)
class Finding:
    """One hypothesis. `adjusted` is p after the declared correction, `opposite` that of the opposite (None
    for a hypothesis without a direction); `reason` says why nothing could be tested."""

    hypothesis: str
    statement: str
    plan: str
    alpha: float
    correction: str
    outcome: str = ""
    verdict: Verdict = "undecided"
    p: float | None = None
    adjusted: float | None = None
    opposite: float | None = None
    reason: str = ""
    contrasts: tuple[Contrast, ...] = ()

    @property
    def sentence(self) -> str:
        said = f" ({self.statement})" if self.statement else ""
        return f"{self.hypothesis}{said} is {self.verdict}: {self._why()}."

    def _why(self) -> str:
        if self.reason:
            return self.reason
        corrected = f", {self.correction} over the plan" if self.correction not in ("", "none") else ""
        how = "; ".join(dict.fromkeys(one.test for one in self.contrasts if one.test))
        return f"p = {self.adjusted:.3g} at alpha {self.alpha:g} ({how}{corrected})"


@dataclass(frozen=True)
class Findings:
    found: tuple[Finding, ...]
    notes: tuple[str, ...] = ()

    @property
    def sentence(self) -> str:
        return "\n".join(one.sentence for one in self.found) or "The study declares no hypothesis."

    def _grid(self) -> tuple[list[str], list[list[str]]]:
        return ["hypothesis", "plan", "verdict", "difference", "p", "alpha"], [
            [
                layout.cell(one.hypothesis),
                layout.cell(one.plan or None),
                one.verdict,
                "; ".join(map(_difference, one.contrasts)) or "-",
                "-" if one.adjusted is None else f"{one.adjusted:.3g}",
                f"{one.alpha:g}",
            ]
            for one in self.found
        ]

    def __str__(self) -> str:
        table = [layout.plain(*self._grid()), ""] if self.found else []
        return "\n".join([*table, self.sentence, *self.notes])

    def markdown(self) -> str:
        table = [layout.markdown(*self._grid())] if self.found else []
        return "\n\n".join([*table, *self.sentence.splitlines(), *self.notes])

    def to_json(self) -> str:
        """One document: found, sentence, notes."""
        found = [{**asdict(one), "sentence": one.sentence} for one in self.found]
        document = {"found": found, "sentence": self.sentence, "notes": self.notes}
        return msgspec.json.encode(document).decode()


def _difference(one: Contrast) -> str:
    found = one.difference
    shown = layout.interval(found.mean, found.low, found.high) if found else "-"
    return f"{one.first} - {one.second} {shown}"
