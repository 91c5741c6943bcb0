"""A diagnosis as text: the plain words first, then what each effect is clear of and how well it is seen."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from peira.analysis.layout import plain
from peira.design.clarity import Clarity
from peira.design.coverage import Coverage
from peira.design.diagnostics import Diagnosis
from peira.design.plain import listed

MOST_ROWS = 60
MOST_WORDS = 8


def design_text(diagnosis: Diagnosis) -> str:
    """The tables, without the plain words."""
    parts = [_effects(diagnosis), _levels(diagnosis), "\n".join(_facts(diagnosis))]
    return "\n\n".join(part for part in parts if part)


def _effects(d: Diagnosis) -> str:
    """Every effect that was looked at, and what can be seen of those in the model."""
    powers = {power.effect: power for power in d.powers}
    header = ["effect", "df", "not clear of", "error", f"smallest at {100 * d.assumed.power:g}%"]
    header += [f"power at {d.assumed.effect:g}"] if d.assumed.effect is not None else []
    rows = []
    for one in d.clarity[:MOST_ROWS]:
        own = powers.get(one.effect)
        seen = [own.error, own.smallest] if own else [None, None]
        seen += [own.power if own else None] if d.assumed.effect is not None else []
        rows.append([one.effect, str(own.df) if own else "-", _muddied(one), *map(_number, seen)])
    more = len(d.clarity) - MOST_ROWS
    return plain(header, rows) + (f"\n... and {more:,} more effects" if more > 0 else "")


def _muddied(one: Clarity) -> str:
    """What an effect is not clear of, in a few words; "-" if it is clear of all."""
    if one.confounded_with:
        return listed(one.confounded_with, 4)
    kinds = {"main effects": one.with_main, "interactions": one.with_interactions, "blocks": one.with_blocks}
    found = [f"{name} ({largest:.2g})" for name, largest in kinds.items() if largest > 0]
    return ", ".join([*(["not seen in full"] if one.lost else []), *found]) or "-"


def _levels(d: Diagnosis) -> str:
    rows = [
        [one.factor, ", ".join(f"{level} {count:,}" for level, count in _first(one.counts))]
        for one in d.balance
    ]
    return plain(["factor", "runs at each level"], rows)


def _first(counts: tuple[tuple[str, int], ...]) -> Iterable[tuple[str, int]]:
    return counts if len(counts) <= MOST_WORDS else (*counts[:MOST_WORDS], ("...", counts[-1][1]))


def _facts(d: Diagnosis) -> Iterator[str]:
    if d.regular is not None and d.regular.words:
        words = [f"{'-' if sign < 0 else ''}{':'.join(word)}" for word, sign in d.regular.words]
        words = words if len(words) <= MOST_WORDS else [*words[:MOST_WORDS], "..."]
        yield f"defining relation: {' = '.join(['I', *words])}"
    yield f"model: {d.formula}, {d.parameters} parameters, correlated up to {d.correlation:.2g}"
    if (e := d.efficiency) is not None:
        shares = {"D": e.d, "A": e.a, "G": e.g, "I": e.i}
        shown = ", ".join(f"{name} {share:.4g}%" for name, share in shares.items() if share is not None)
        yield f"efficiency: {shown}; condition number {e.condition:.4g}"
    if told := list(_coverage(d.coverage)):
        yield f"coverage: {', '.join(told)}"


def _coverage(c: Coverage) -> Iterator[str]:
    if c.combinations is not None:
        yield f"{100 * c.combinations:.3g}% of all combinations"
    if c.nearest is not None:
        yield f"the closest two runs {c.nearest:.3g} apart (1 is the most)"
    if c.discrepancy is not None:
        yield f"discrepancy {c.discrepancy:.3g}"


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.3g}"
