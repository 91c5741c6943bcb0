"""Everything of a run in one compressed file: the artifact folder, the codebook, JSON lines, attached files.

The same results give the same bytes: members are sorted, and their times and owners are fixed.
"""

from __future__ import annotations

import gzip
import tarfile
import tempfile
from importlib.metadata import version
from pathlib import Path

import msgspec

from peira.analysis.export_formats import Makes
from peira.analysis.results import Results
from peira.core.ids import short
from peira.core.registry import Registry
from peira.report.exports.artifact import ArtifactFolder
from peira.report.exports.attachments import AttachmentFolder
from peira.report.exports.codebook import Codebook
from peira.report.exports.jsonl import JsonLines

ABOUT = "archive.json"
"""The first member, which says what the archive is."""
SOFTWARE = "peira"


class Archive:
    """A tar.gz file of a run for keeping or sending; needs the results of a stored run."""

    makes: Makes = "file"
    suffixes: tuple[str, ...] = (".tar.gz", ".tgz")

    def write(self, results: Results, path: Path) -> None:
        """Write the archive; its files are made in a temporary folder first."""
        with tempfile.TemporaryDirectory() as made:
            folder = Path(made)
            ArtifactFolder().write(results, folder / "artifact")
            Codebook().write(results, folder / "codebook.md")
            JsonLines().write(results, folder / "results.jsonl")
            AttachmentFolder().write(results, folder / "attachments")
            about = {
                "software": SOFTWARE,
                "version": version(SOFTWARE),
                "study": results.study,
                "run": results.run_id,
                "status": results.status,
            }
            (folder / ABOUT).write_bytes(msgspec.json.encode(about) + b"\n")
            _pack(folder, f"run-{short(results.run_id)}", path)

    def owns(self, path: Path) -> bool:
        """Whether the first member says that peira wrote the archive."""
        try:
            with tarfile.open(path, "r:gz") as archive:
                first = archive.next()
                file = archive.extractfile(first) if first and first.name.endswith(f"/{ABOUT}") else None
                found = msgspec.json.decode(file.read()) if file else None
        except (tarfile.TarError, OSError, EOFError, msgspec.DecodeError):
            return False
        return isinstance(found, dict) and found.get("software") == SOFTWARE


def _pack(folder: Path, name: str, path: Path) -> None:
    """Pack the files of a folder under a name, `ABOUT` first."""
    files = sorted((file for file in folder.rglob("*") if file.is_file()), key=lambda f: (f.name != ABOUT, f))
    with (
        path.open("wb") as raw,
        gzip.GzipFile("", "wb", fileobj=raw, mtime=0) as packed,
        tarfile.open(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT) as archive,
    ):
        for file in files:
            member = tarfile.TarInfo(f"{name}/{file.relative_to(folder).as_posix()}")
            member.size = file.stat().st_size
            with file.open("rb") as content:
                archive.addfile(member, content)


def register(registry: Registry) -> None:
    """Register the format."""
    registry.add("export", "archive", Archive)
