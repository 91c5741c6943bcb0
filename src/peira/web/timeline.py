"""What a trial spent its time on, and the images in its messages, for the page of a trial."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import msgspec

from peira.core.ids import Json
from peira.core.log.events import (
    CallIntended,
    Observed,
    Record,
    StepRecorded,
    TaskFinished,
    TaskRetried,
    TasksClaimed,
)

IMAGES = ("image/png", "image/jpeg", "image/gif", "image/webp")
"""Kinds of images that are shown; others could hold scripts."""
LARGEST_IMAGE, MOST_BARS = 1_500_000, 200
"""Characters of base64 of an image that is shown on a page, and bars of a time line."""


class TimelineBar(msgspec.Struct, frozen=True):
    """Something that took time in a trial; `start` and `end` are seconds since its first event."""

    kind: str
    label: str
    start: float
    end: float
    well: bool = True


def timeline(records: Sequence[Record], task: str, took: Mapping[str, float]) -> list[TimelineBar]:
    """What a trial spent its time on: attempts, calls, steps and observations, by their start.

    `took` are the seconds of calls that were answered, by their keys.
    """
    if not records:
        return []
    first = records[0].at
    bars: list[TimelineBar] = []
    claimed: dict[int, float] = {}
    sent: dict[str, tuple[float, str]] = {}
    for record in records:
        event, at = record.event, record.at - first
        if isinstance(event, TasksClaimed) and task in event.tasks:
            epoch = event.epochs[event.tasks.index(task)] if event.epochs else 1
            claimed[epoch] = at
        elif isinstance(event, TaskRetried | TaskFinished):
            well = isinstance(event, TaskFinished) and event.state.value == "succeeded"
            start = claimed.get(event.epoch, max(0.0, at - event.result.took))
            bars.append(TimelineBar("attempt", f"attempt {event.epoch}", start, at, well))
        elif isinstance(event, CallIntended):
            sent[event.key] = at, event.model
        elif isinstance(event, StepRecorded | Observed):
            kind = "step" if isinstance(event, StepRecorded) else "log"
            bars.append(TimelineBar(kind, event.name, at, at))
    for key, (start, model) in sent.items():
        bars.append(TimelineBar("call", model, start, start + took.get(key, 0.0), key in took))
    return sorted(bars, key=lambda bar: (bar.start, -bar.end))[:MOST_BARS]


def images(content: Json) -> Iterator[str]:
    """The images of a message as addresses that hold their data; those elsewhere are not loaded."""
    for part in content if isinstance(content, Sequence) and not isinstance(content, str) else ():
        if isinstance(part, Mapping) and part.get("type") == "image":
            data, media = str(part.get("data") or ""), str(part.get("media") or "image/png")
            plain = data.isascii() and all(sign.isalnum() or sign in "+/=" for sign in data)
            if data and plain and media in IMAGES and len(data) <= LARGEST_IMAGE:
                yield f"data:{media};base64,{data}"
