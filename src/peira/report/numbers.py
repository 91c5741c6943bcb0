"""Numbers and labels as reports write them."""

from __future__ import annotations

from collections.abc import Sequence

from peira.analysis import layout
from peira.core.words import lasting
from peira.report.value import Point
from peira.stats.values import Estimate


def spread(found: Estimate | Point | None) -> str:
    """A mean with its interval."""
    return "-" if found is None else layout.interval(found.mean, found.low, found.high)


def change(found: Estimate | Point | None) -> str:
    """A difference with its interval, and its sign."""
    text = spread(found)
    return f"+{text}" if found is not None and found.mean is not None and found.mean > 0 else text


def chance(p: float | None) -> str:
    """A p-value in a sentence."""
    return "p unknown" if p is None else "p < 0.001" if p < 0.001 else f"p = {p:.3f}"


def took_for(seconds: float) -> str:
    """How long a trial took."""
    return lasting(seconds) if seconds >= 1 else f"{1000 * seconds:.3g} ms" if seconds >= 1e-3 else "< 1 ms"


def listed(words: Sequence[str], last: str = "and") -> str:
    """a, b and c."""
    if len(words) < 2:
        return "".join(words)
    return f"{', '.join(words[:-1])}{'' if last.startswith(',') else ' '}{last} {words[-1]}"
