"""Shared by imports: sources and their digests, progress on standard error, the result."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from hashlib import sha256
from pathlib import Path
from typing import Any

from peira.analysis.results import Results
from peira.core.clock import SystemClock
from peira.core.files import check_source
from peira.core.ids import canonical, normalise
from peira.core.log.events import State
from peira.data.outputs import RecordedOutput, Source, outputs_of
from peira.engine.imports import ImportOrigin, Recorder
from peira.engine.progress import Progress
from peira.errors import Invalid
from peira.report.progress import display
from peira.spec.data_files import Problems
from peira.spec.project import Project


class ImportProgress:
    """Shows progress from time to time, unless the project or the caller disables it."""

    def __init__(self, study: str, wanted: bool | None, project: Project, total: int | None = None) -> None:
        self._display = display(study, False if wanted is None and project.progress == "none" else wanted)
        self._total, self._since = total, SystemClock().monotonic()

    def __enter__(self) -> ImportProgress:
        self._display.__enter__()
        return self

    def __exit__(self, *problem: Any) -> None:
        self._display.__exit__(*problem)

    def __call__(self, done: int, same: int = 0, failed: int = 0) -> None:
        """Report the progress: `done` in all, of which `same` were there and `failed` failed."""
        elapsed = SystemClock().monotonic() - self._since
        self._display(Progress(self._total, done, same, failed, 0, 0, elapsed))


@dataclass(frozen=True)
class ImportResult:
    """The outcome of an import of one `stage`.

    `recorded` and `failed` results are new, `same` were there already; `problems` describes the first of the
    `refused` lines. `scores` are new scores that came with outputs, `unscored` those that did not come;
    `offers` has evaluators that score as the other tool did, by the name of its score.
    """

    results: Results
    stage: str
    recorded: int
    failed: int
    same: int
    refused: int
    problems: tuple[str, ...]
    origin: str
    scores: int = 0
    unscored: int = 0
    offers: Mapping[str, str] = field(default_factory=dict)


def import_result(
    results: Results, stage: str, recorder: Recorder, problems: Problems, origin: ImportOrigin
) -> ImportResult:
    """The outcome from the counts of the recorder."""
    recorded, failed = recorder.ended[State.succeeded], recorder.ended[State.failed]
    refused, lines = problems.count, tuple(problems.lines())
    return ImportResult(results, stage, recorded, failed, recorder.same, refused, lines, str(origin))


BLOCK = 1 << 20


@dataclass(frozen=True)
class ImportSource:
    """The outputs to import; they can be iterated more than once."""

    sources: tuple[Source, ...]
    fields: Mapping[str, str]
    factors: Sequence[str] | None
    wide: Mapping[str, Sequence[str]] = field(default_factory=dict)

    def outputs(self, problems: Problems) -> Iterator[RecordedOutput]:
        """The outputs of all sources; `problems` collects what cannot be read."""
        for source in self.sources:
            yield from outputs_of(source, problems, fields=self.fields, factors=self.factors, wide=self.wide)

    @cached_property
    def origin(self) -> ImportOrigin:
        """Where they come from, with the digest of their content."""
        names = [Path(s).name if isinstance(s, str | Path) else "rows" for s in self.sources]
        hasher = sha256()
        for source in self.sources:
            if isinstance(source, str | Path):
                _add_file(hasher, Path(source))
            else:
                hasher.update(canonical(normalise(list(source), "rows")))
        return ImportOrigin(", ".join(names), hasher.hexdigest())


def file_digest(path: Path) -> str:
    """The SHA-256 of a file's bytes."""
    hasher = sha256()
    _add_file(hasher, path)
    return hasher.hexdigest()


def _add_file(hasher: Any, path: Path) -> None:
    """Add a file's content to a hash; Invalid if it cannot be read."""
    check_source(path)
    try:
        with path.open("rb") as file:
            while block := file.read(BLOCK):
                hasher.update(block)
    except OSError as error:
        raise Invalid(f"cannot read {path}: {error.strerror or error}") from None


def sources_of(source: Source | Sequence[Source]) -> tuple[Source, ...]:
    """One source or several as a tuple; rows of an iterator are held in memory."""
    if isinstance(source, str | Path):
        return (source,)
    several = list(source)
    if several and all(isinstance(one, str | Path) for one in several):
        return tuple(several)  # type: ignore[arg-type]
    return (several,)  # type: ignore[return-value]
