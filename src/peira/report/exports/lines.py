"""JSON lines: one object per trial, with everything that is known of it, as it is."""

from __future__ import annotations

from pathlib import Path

import msgspec

from peira.analysis.export import FIXED, write_jsonl
from peira.analysis.exporting import Makes
from peira.analysis.results import Results
from peira.core.registry import Registry


class JsonLines:
    makes: Makes = "file"
    suffixes: tuple[str, ...] = (".jsonl", ".ndjson")

    def write(self, results: Results, path: Path) -> None:
        write_jsonl(results.stream(), results.run_id, path)

    def owns(self, path: Path) -> bool:
        with path.open("rb") as file:
            first = file.readline()
        try:
            found = msgspec.json.decode(first or b"null")
        except msgspec.DecodeError:
            return False
        return not first or (isinstance(found, dict) and {*FIXED} - {"failed_scores"} <= {*found})


def register(registry: Registry) -> None:
    registry.add("export", "jsonl", JsonLines)
