"""JSON lines: one object per trial, with everything that is known of it."""

from __future__ import annotations

from pathlib import Path

import msgspec

from peira.analysis.export_formats import Makes
from peira.analysis.results import Results
from peira.core.registry import Registry
from peira.results.rows import OLDEST, write_jsonl


class JsonLines:
    """JSON lines: everything about a trial, as one object each."""

    makes: Makes = "file"
    suffixes: tuple[str, ...] = (".jsonl", ".ndjson")

    def write(self, results: Results, path: Path) -> None:
        """Write the results, streaming the trials."""
        write_jsonl(results.stream(), results.run_id, path)

    def owns(self, path: Path) -> bool:
        """Whether the file is empty, or its first line is a record of a trial."""
        with path.open("rb") as file:
            first = file.readline()
        try:
            found = msgspec.json.decode(first or b"null")
        except msgspec.DecodeError:
            return False
        return not first or (isinstance(found, dict) and {*OLDEST} - {"failed_scores"} <= {*found})


def register(registry: Registry) -> None:
    """Register the format."""
    registry.add("export", "jsonl", JsonLines)
