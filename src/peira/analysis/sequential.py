"""Hypotheses that a stopping rule followed, as it saw them: by an interval that holds at every look."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from peira.analysis.contrast import Contrast
from peira.analysis.findings import Finding, Findings, Verdict
from peira.core.looks import Look, Standing
from peira.core.words import counted
from peira.stats.values import Estimate

VERDICTS: Mapping[str, Verdict] = {"supported": "supported", "rejected": "rejected"}


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
