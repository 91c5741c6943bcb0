"""What a stopping rule found, said beside a run's numbers.

An interval for a fixed number of cases is too narrow where one stopped because of what one saw, and the mean
it is around too far from 0. The rule's own interval holds at every look, so it holds here.
"""

from __future__ import annotations

from peira.core.ids import Json
from peira.core.looks import Look
from peira.core.words import counted


def remarks(stop: Json, look: Look | None, spared: int) -> list[str]:
    """What a run with this rule has to say beside every number."""
    if not stop:
        return []
    name = stop if isinstance(stop, str) else stop.get("rule", "decided")
    if look is None:
        return [f"stopping rule {name}: not followed in this run"]
    looks = counted(look.number, "look")
    if not look.answer and not spared:
        return [f"stopping rule {name}, {looks}, not decided {look}"]
    how = "stopped by its rule" if look.answer else "narrowed by its rule"
    return [
        f"{how} ({name}) at look {look.number}, {look}; {counted(spared, 'trial')} not needed",
        "intervals of tables and comparisons are for a fixed number of cases: after stopping they are too "
        "narrow, and means too far apart; what the rule says holds at every look",
    ]
