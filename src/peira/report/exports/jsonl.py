"""JSON lines: one object per trial, with everything that is known of it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path

import msgspec

from peira.analysis.export_formats import Makes
from peira.analysis.results import Results
from peira.core.ids import Json
from peira.core.registry import Registry
from peira.results.rows import OLDEST, write_jsonl
from peira.results.trials import TrialResult


class JsonLines:
    """JSON lines: everything about a trial, as one object each."""

    makes: Makes = "file"
    suffixes: tuple[str, ...] = (".jsonl", ".ndjson")

    def write(self, results: Results, path: Path) -> None:
        """Write the results, streaming the trials."""
        write_jsonl(results.stream(), results.run_id, path, partial(_transcripts, results))

    def owns(self, path: Path) -> bool:
        """Whether the file is empty, or its first line is a record of a trial."""
        with path.open("rb") as file:
            first = file.readline()
        try:
            found = msgspec.json.decode(first or b"null")
        except msgspec.DecodeError:
            return False
        return not first or (isinstance(found, dict) and {*OLDEST} - {"failed_scores"} <= {*found})


def _transcripts(results: Results, trials: Sequence[TrialResult]) -> Iterator[Sequence[Json]]:
    """What happened in each trial, in order; read in one query."""
    known = results.background.transcripts([trial.id for trial in trials]) if results.background else {}
    for trial in trials:
        found = known.get(trial.id)
        yield [] if found is None else list(msgspec.to_builtins(found.entries))


def register(registry: Registry) -> None:
    """Register the format."""
    registry.add("export", "jsonl", JsonLines)
