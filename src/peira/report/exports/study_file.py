"""The study of a run as a document for people, in Markdown: every field, as it was resolved."""

from __future__ import annotations

from pathlib import Path

from peira.analysis.export_formats import Makes
from peira.analysis.results import Results
from peira.core.registry import Registry
from peira.errors import Invalid
from peira.report.exports.csv_files import begins
from peira.report.study_document import study_document
from peira.results.background import StoredRun

START = "# The study "


class StudyMarkdown:
    """The whole study in Markdown: agents, factors, cases, evaluators, aims, limits and sources."""

    makes: Makes = "file"
    suffixes: tuple[str, ...] = (".study.md",)

    def write(self, results: Results, path: Path) -> None:
        """Write the document; raises Invalid without a stored run, whose plan has the study."""
        if results.origin is None:
            raise Invalid("the document of a study needs the results of a stored run")
        with results.origin() as origin:
            path.write_text(study_text(origin), encoding="utf-8")

    def owns(self, path: Path) -> bool:
        """Whether the file is such a document."""
        return begins(path, START)


def study_text(origin: StoredRun) -> str:
    """The document of the study of a stored run, in Markdown."""
    return study_document(origin.manifest, origin.store.get, store=origin.store).markdown() + "\n"


def register(registry: Registry) -> None:
    """Register the format."""
    registry.add("export", "study", StudyMarkdown)
