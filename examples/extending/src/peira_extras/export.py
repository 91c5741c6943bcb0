"""`outputs`: a file with a line for each trial, its case and its output, separated by a tab."""

from __future__ import annotations

from pathlib import Path

from peira.analysis.export_formats import Makes
from peira.analysis.results import Results
from peira.core.ids import canonical
from peira.core.log.events import State
from peira.core.registry import Registry

HEADER = "case\toutput\n"


class Outputs:
    makes: Makes = "file"
    suffixes: tuple[str, ...] = (".outputs.tsv",)

    def write(self, results: Results, path: Path) -> None:
        """Write there, where nothing is yet; peira moves the file to its place when it is whole."""
        with path.open("w", encoding="utf-8") as file:
            file.write(HEADER)
            for trial in results.stream():
                if trial.state is State.succeeded:
                    file.write(f"{trial.case_id}\t{canonical(trial.output).decode()}\n")

    def owns(self, path: Path) -> bool:
        """Whether an earlier export is there, which may be replaced."""
        with path.open("rb") as file:
            return file.readline() == HEADER.encode()


def register(registry: Registry) -> None:
    registry.add("export", "outputs", Outputs)
