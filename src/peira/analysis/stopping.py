"""What a stopping rule found, as part of a run's results: said beside its numbers, and for its hypotheses.

An interval for a fixed number of cases is too narrow where one stopped because of what one saw, and the mean
it is around too far from 0. The rule's own interval holds at every look, so it holds here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from peira.analysis.contrast import Contrast
from peira.analysis.findings import Finding, Findings, Verdict
from peira.core.ids import Json
from peira.core.looks import Look, Standing
from peira.core.words import counted
from peira.stats.values import Estimate

VERDICTS: Mapping[str, Verdict] = {"supported": "supported", "rejected": "rejected"}


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


def sequentially(findings: Findings, look: Look | None) -> Findings:
    """The findings, with those that the rule followed as it saw them."""
    if look is None:
        return findings
    followed: dict[str, list[Standing]] = {}
    for standing in look.standings:
        followed.setdefault(standing.about, []).append(standing)
    found = [_seen(one, followed[one.hypothesis], look) if one.hypothesis in followed else one
             for one in findings.found]  # fmt: skip
    return replace(findings, found=tuple(found))


def _seen(finding: Finding, standings: Sequence[Standing], look: Look) -> Finding:
    verdict = standings[0].verdict
    futile = ", and going on is futile" if verdict == "futile" else ""
    shown = "; ".join(map(str, standings))
    return replace(
        finding,
        verdict=VERDICTS.get(verdict, "undecided"),
        p=None,
        adjusted=None,
        opposite=None,
        reason=f"{shown} after {counted(look.units, look.unit)}, which holds at every look{futile}",
        contrasts=tuple(_contrast(one, look) for one in standings),
    )


def _contrast(one: Standing, look: Look) -> Contrast:
    mean = one.mean if one.mean is not None else (one.low + one.high) / 2
    return Contrast(
        first=one.first,
        second=one.second,
        paired=True,
        pairing=look.unit,
        n=look.units,
        units=look.units,
        unit=look.unit,
        unmatched=0,
        shared=0.0,
        shared_what="",
        difference=Estimate(mean, one.low, one.high, look.units, "sequential"),
        test="sequential",
    )
