"""What is to be taken in from outside: files, or rows, that can be gone through more than once, and their
digest."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from hashlib import sha256
from pathlib import Path
from typing import Any

from peira.core.ids import canonical, normalise
from peira.data.recorded import Recorded, Source, outputs_of
from peira.engine.recording import Origin
from peira.errors import Invalid
from peira.spec.rows import Problems

BLOCK = 1 << 20


@dataclass(frozen=True)
class Wanted:
    """The outputs that are asked for; they can be gone through more than once."""

    sources: tuple[Source, ...]
    fields: Mapping[str, str]
    factors: Sequence[str] | None

    def outputs(self, problems: Problems) -> Iterator[Recorded]:
        for source in self.sources:
            yield from outputs_of(source, problems, fields=self.fields, factors=self.factors)

    @cached_property
    def origin(self) -> Origin:
        """Where they come from, with the digest of their content."""
        names = [Path(s).name if isinstance(s, str | Path) else "rows" for s in self.sources]
        whole = sha256()
        for source in self.sources:
            if isinstance(source, str | Path):
                _add_file(whole, Path(source))
            else:
                whole.update(canonical(normalise(list(source), "rows")))
        return Origin(", ".join(names), whole.hexdigest())


def file_digest(path: Path) -> str:
    """The SHA-256 of a file's bytes."""
    whole = sha256()
    _add_file(whole, path)
    return whole.hexdigest()


def _add_file(whole: Any, path: Path) -> None:
    try:
        with path.open("rb") as file:
            while block := file.read(BLOCK):
                whole.update(block)
    except OSError as error:
        raise Invalid(f"cannot read {path}: {error.strerror or error}") from None


def sources_of(source: Source | Sequence[Source]) -> tuple[Source, ...]:
    """One source or several; rows that can be gone through only once are held."""
    if isinstance(source, str | Path):
        return (source,)
    several = list(source)
    if several and all(isinstance(one, str | Path) for one in several):
        return tuple(several)  # type: ignore[arg-type]
    return (several,)  # type: ignore[return-value]
