"""Live experiments and goals of streams: what is compared, how it stands, and how it came to that."""

from __future__ import annotations

from typing import Any

import msgspec

from peira.app.streams.experiment_status import ArmDifference
from peira.engine.streams.declaration import arm_labels, compares
from peira.spec.streams.goals import FAILED
from peira.web import stream_queries
from peira.web.charts import sequence_chart, shares_chart
from peira.web.pages.page import Page, PageRequest
from peira.web.pages.streams import stream_parts
from peira.web.rest.routes import NoQuery, read_query
from peira.web.stream_queries import ExperimentDocument, ExperimentQuery, GoalDocument

MOST_CHARTS, MOST_LISTED, LATEST = 12, 50, 10
DRAWN = {
    "random": "each job gets one arm, all with the same probability",
    "thompson": "each job gets one arm, with that arm's probability of being the best",
    "successive rejects": "each job gets one arm; the worst so far is given up from time to time",
    "all": "each job is done under every arm; the first one answers, the others are shadows",
}
"""How arms are assigned, as pages say it."""


async def experiment(asked: PageRequest) -> Page:
    """The live experiment of a stream: at once what it is, then the evidence, which may take a while."""
    query, reader, name = read_query(asked.request, ExperimentQuery), asked.site.reader, asked.parts["stream"]
    run, declaration = await reader.short(stream_queries.opening, reader, name)
    _, labels = arm_labels(declaration.arms)
    winner = labels[run.traffic.winner] if run.traffic is not None and run.traffic.winner >= 0 else None
    more: dict[str, Any] = {
        "stream": name,
        "labels": list(labels) if compares(run, declaration) else [],
        "chosen": query.arm or winner or labels[0],
        "assigned": DRAWN.get(declaration.assign, ""),
        "deciding": declaration.deciding,
        "winner": winner,
        "parts": await stream_parts(reader, name),
        "query": msgspec.structs.asdict(query),
    }
    document: Any = None
    if asked.form in ("file", "json") and more["labels"]:
        document = await stream_queries.experiment(asked.site, name, query)
        more |= _evidence(document)
        more["reported"] = await stream_queries.outcomes(asked.site, name)
    about = "Arms at work on what comes in: their shares, their differences at every look, and the decision."
    return Page("experiment.html.j2", f"Experiment of {name}", about, document, more, tab="streams")


async def evidence(asked: PageRequest) -> Page:
    """The arms and differences of an experiment, for its page."""
    query, name = read_query(asked.request, ExperimentQuery), asked.parts["stream"]
    found = await stream_queries.experiment(asked.site, name, query)
    more = {
        "stream": name,
        "reported": await stream_queries.outcomes(asked.site, name),
        **_evidence(found),
    }
    about = "What the jobs so far say about the arms."
    return Page("evidence.html.j2", "Evidence", about, found, more, tab="streams")


def _evidence(found: ExperimentDocument) -> dict[str, Any]:
    """What the template of the evidence needs."""
    unit = "jobs"
    charts = [
        (
            f"{one.first} - {one.second}",
            sequence_chart(f"{one.first} - {one.second}: the difference at every look", one.path, 0.0, unit),
        )
        for one in found.differences[:MOST_CHARTS]
        if any(point.low is not None for point in one.path)
    ]
    splits = [(one.jobs, one.shares) for one in found.splits]
    jobs = max([one.n for one in found.differences], default=0)
    ends = [abs(end) for one in found.differences for end in (one.low, one.high) if end is not None]
    reach = 1.05 * (max(ends, default=1.0) or 1.0)
    return {
        "found": found,
        "sentences": [_sentence(found, one) for one in found.differences],
        "charts": charts,
        "shares": shares_chart(splits, jobs) if len(splits) > 1 else "",
        "reach": reach,
        "most": MOST_LISTED,
        "latest": LATEST,
    }


def _sentence(found: ExperimentDocument, one: ArmDifference) -> str:
    """The difference of two arms in a sentence; levels carry the name of their factor."""
    before = f"{found.factors[0]}=" if len(found.factors) == 1 else ""
    first, second = before + one.first, before + one.second
    if one.mean is None or one.low is None or one.high is None:
        return f"{first} and {second}: too few jobs to say anything"
    said = f"{one.mean:+.3f} [{one.low:+.3f}, {one.high:+.3f}] after {one.n:,} jobs"
    if one.low > 0 or one.high < 0:
        word = "higher" if one.low > 0 else "lower"
        verdict = f", which is {'worse' if one.low > 0 else 'better'}" if found.minimize else ""
        return f"{first} scores {word} than {second} on {found.score}{verdict}: {said}"
    return f"It is not clear yet which of {first} and {second} scores higher on {found.score}: {said}"


async def goals(asked: PageRequest) -> Page:
    """The goals of a stream: verdicts at once where they are known, with how they came about."""
    read_query(asked.request, NoQuery)
    reader, name = asked.site.reader, asked.parts["stream"]
    parts = await stream_parts(reader, name)
    more: dict[str, Any] = {"stream": name, "parts": parts, "goals": None}
    document: Any = None
    if asked.form in ("file", "json") or not parts["goals"]:
        document = await stream_queries.goals(asked.site, name)
        more |= _shown(document.goals)
    about = (
        "What this stream should achieve, and whether it does: verdicts that hold however often one looks."
    )
    return Page("goals.html.j2", f"Goals of {name}", about, document, more, tab="streams")


async def verdicts(asked: PageRequest) -> Page:
    """The verdicts on goals, for their page."""
    read_query(asked.request, NoQuery)
    name = asked.parts["stream"]
    found = await stream_queries.goals(asked.site, name)
    more = {"stream": name, **_shown(found.goals)}
    return Page("verdicts.html.j2", "Verdicts", "What is known about the goals.", found, more, tab="streams")


def _shown(found: list[GoalDocument]) -> dict[str, Any]:
    """What the template of verdicts needs: each goal with its chart."""
    shown = []
    for one in found:
        label = f"{one.goal}: the mean at every look, and the limit"
        known = any(point.low is not None for point in one.path)
        ends = (0.0, 1.0) if one.score == FAILED else ()
        chart = sequence_chart(label, one.path, one.limit, "jobs", ends) if known else ""
        shown.append({"goal": one, "chart": chart})
    return {"goals": shown}
