"""A folder of the files that agents attached to their trials, and `index.csv`, which lists them.

Each trial with attachments has a folder named by the first digits of its id. Characters that a file name may
not have everywhere are replaced, and names that then are equal are numbered; the index has the names as they
were given.
"""

from __future__ import annotations

import re
from pathlib import Path

from peira.analysis.export_formats import Makes
from peira.analysis.results import Results
from peira.core.ids import Json, short
from peira.core.registry import Registry
from peira.errors import Invalid
from peira.report.exports.csv_files import begins
from peira.results.rows import line, text

INDEX = "index.csv"
COLUMNS = ("run", "trial", "agent", "case", "condition", "repeat", "name", "media", "size", "sha256", "file")
UNSAFE = re.compile(r'[<>:"/\\|?*\x00-\x1f\x7f]')
"""Characters that some file system does not allow in names."""
LONGEST = 150
"""The most characters of a file's name."""


class AttachmentFolder:
    """The attached files of all trials; needs the results of a stored run."""

    makes: Makes = "folder"
    suffixes: tuple[str, ...] = ()

    def write(self, results: Results, path: Path) -> None:
        """Write the files and their index, streaming the trials."""
        if results.origin is None:
            raise Invalid("attached files are kept in the store: this needs the results of a stored run")
        path.mkdir()
        with results.origin() as origin, (path / INDEX).open("w", newline="", encoding="utf-8") as index:
            index.write(line(COLUMNS))
            for trial in results.stream():
                folder, taken = path / short(trial.id), set[str]()
                for artifact in trial.artifacts:
                    folder.mkdir(exist_ok=True)
                    name = file_name(artifact.name, taken)
                    (folder / name).write_bytes(origin.store.get(artifact.digest))
                    row: tuple[Json, ...] = (
                        *(results.run_id, trial.id, trial.agent, trial.case_id, dict(trial.condition)),
                        *(trial.repeat, artifact.name, artifact.media, artifact.size, artifact.digest),
                        f"{folder.name}/{name}",
                    )
                    index.write(line([text(value) for value in row]))

    def owns(self, path: Path) -> bool:
        """Whether the folder has an index of ours, and nothing beside the folders of trials."""
        index = path / INDEX
        if not index.is_file() or not begins(index, line(COLUMNS)):
            return False
        return all(file == index or (file.is_dir() and _digits(file.name)) for file in path.iterdir())


def file_name(name: str, taken: set[str]) -> str:
    """A file name for an attachment that differs from those `taken`, also where case does not count."""
    safe = UNSAFE.sub("_", name).strip(" .")[-LONGEST:] or "file"
    found, number = safe, 1
    while found.lower() in taken:
        number += 1
        stem, dot, suffix = safe.rpartition(".")
        found = f"{stem}-{number}{dot}{suffix}" if stem else f"{safe}-{number}"
    taken.add(found.lower())
    return found


def _digits(name: str) -> bool:
    """Whether it is a shortened id."""
    return re.fullmatch(r"[0-9a-f]{12}", name) is not None


def register(registry: Registry) -> None:
    """Register the format."""
    registry.add("export", "attachments", AttachmentFolder)
