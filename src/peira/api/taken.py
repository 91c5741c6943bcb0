"""What came of taking in results that were made elsewhere."""

from __future__ import annotations

from dataclasses import dataclass

from peira.analysis.results import Results
from peira.core.events import State
from peira.engine.recording import Origin, Recorder
from peira.spec.rows import Problems


@dataclass(frozen=True)
class Taken:
    """Results of one `stage`. `recorded` and `failed` are new, `same` were there already; what was `refused`
    is told line by line, the first of it."""

    results: Results
    stage: str
    recorded: int
    failed: int
    same: int
    refused: int
    problems: tuple[str, ...]
    origin: str


def taken(results: Results, stage: str, recorder: Recorder, problems: Problems, origin: Origin) -> Taken:
    recorded, failed = recorder.ended[State.succeeded], recorder.ended[State.failed]
    refused, lines = problems.count, tuple(problems.lines())
    return Taken(results, stage, recorded, failed, recorder.same, refused, lines, str(origin))
