"""Data queries: where rows come from, how they are selected, and how they are mapped to cases.

This module only declares the query; the package `data` executes it, through the registry.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import BeforeValidator, Field, SkipValidation, model_validator

from peira.core.chat.templates import Template, is_template
from peira.core.expressions import Expression
from peira.core.ids import Json
from peira.core.registry import registry
from peira.errors import ExpressionError, Invalid
from peira.spec.case import Case
from peira.spec.data_files import READERS
from peira.spec.values import MAX_SEED, Name, Texts, Value

SOURCES = ("file", "folder", "dataset", "rows")
DATA_FILES = (*READERS, ".parquet")
FIELDS = ("input", "expected", "id", "cluster", "slice")


def _files(value: object) -> object:
    """One file or several, as a tuple."""
    if isinstance(value, str | Path):
        return (str(value),)
    return tuple(map(str, value)) if isinstance(value, list | tuple) else value


def _folder(value: object) -> object:
    """A folder as text."""
    return str(value) if isinstance(value, Path) else value


def _columns(value: object) -> object:
    """The metadata columns: a list of them, or a table of names and fields, as a table."""
    if isinstance(value, str):
        return {value: value}
    return {name: name for name in value} if isinstance(value, list | tuple) else value


def _labels(value: object) -> object:
    """Ids as texts, as a tuple."""
    several = value if isinstance(value, list | tuple) else [value]
    return tuple(str(one) if type(one) is int else one for one in several)


class Query(Value):
    """Cases from data: `{file = "x.jsonl", input = "question", where = "level > 3", sample = 100}`.

    The source is one of `file` (or several), `folder` (its files, by `pattern`), `dataset` (a Hugging Face
    data set, with its `config`, `split` and `revision`) and `rows` (a list). `input`, `expected`, `id`,
    `cluster`, `slice` and the `metadata` are each a field of a row, or a template over its fields; a part
    that is not mapped is the field of its own name. Without any mapping a row must be a case. `each` makes a
    row of every item of a list in a row, with the `item` and its position `nth` as further fields.

    Of the rows that `where` admits, `ids` are selected by name; then the `first` so many, or a random
    `sample` of at most so many (in proportion to the values of `stratify`). They keep their order, unless
    `shuffle`. The `seed` determines sampling and shuffling.
    """

    file: Annotated[tuple[Name, ...], BeforeValidator(_files)] = ()
    folder: Annotated[str, BeforeValidator(_folder)] = ""
    pattern: Name = "**/*"
    dataset: str = ""
    config: str = ""
    split: Name = "test"
    revision: str = ""
    each: str = ""
    rows: SkipValidation[Sequence[Any] | None] = Field(default=None, repr=False)
    input: Name | None = None
    expected: Name | None = None
    id: Name | None = None
    cluster: Name | None = None
    slice: Name | None = None
    metadata: Annotated[dict[str, Name], BeforeValidator(_columns)] = Field(default_factory=dict)
    where: str = ""
    ids: Annotated[Texts, BeforeValidator(_labels)] = ()
    first: int | None = Field(default=None, ge=1)
    sample: int | None = Field(default=None, ge=1)
    stratify: str = ""
    shuffle: bool = False
    seed: int = Field(default=0, ge=-MAX_SEED, le=MAX_SEED)

    if TYPE_CHECKING:

        def __init__(self, **fields: Any) -> None: ...

    @model_validator(mode="after")
    def _makes_sense(self) -> Query:
        """Raise every problem at once."""
        if problems := list(self._problems()):
            raise Invalid(problems)
        return self

    def _problems(self) -> Iterator[str]:
        """Problems of the combination of fields, one line each."""
        given = [name for name in SOURCES if getattr(self, name) not in ((), "", None)]
        if len(given) != 1:
            shown = " and ".join(given) or "none"
            yield f"file: give one source ({', '.join(SOURCES)}), not {shown}"
        if self.first is not None and self.sample is not None:
            yield "sample: give first or sample, not both"
        if self.stratify and self.sample is None:
            yield "stratify: needs a sample to divide"
        if self.where:
            try:
                Expression(self.where)
            except ExpressionError as error:
                yield f"where: {error.reason}, in {self.where!r}"
        for name, text in self.mapping.items():
            try:
                is_template(text) and Template(text)
            except Invalid as error:
                yield from (f"{name}: {problem}" for problem in error.problems)

    @property
    def mapping(self) -> dict[str, str]:
        """The field or template of each part of a case; empty if rows are cases without any mapping."""
        parts = {name: getattr(self, name) for name in FIELDS}
        own = {name: text for name, text in parts.items() if text is not None}
        return own | {f"metadata.{name}": text for name, text in self.metadata.items()}


class Loaded(Value):
    """The cases that a query found, and the recorded facts about their origin."""

    cases: SkipValidation[Sequence[Case]]
    origin: dict[str, Json]


def is_query(raw: object) -> bool:
    """Whether this is a data query: a Query, or a table that names a source."""
    if not isinstance(raw, Mapping):
        return isinstance(raw, Query)
    if any(isinstance(raw.get(name), str | Path) for name in SOURCES):
        return True
    # A list may also be cases under a label of that name: distinguish by the form of its items.
    files, rows = raw.get("file"), raw.get("rows")
    several = isinstance(files, list | tuple) and bool(files) and all(map(_is_file_name, files))
    listed = isinstance(rows, list | tuple) and len(raw) > 1 and set(raw) <= set(Query.model_fields)
    return several or listed


def _is_file_name(value: object) -> bool:
    """Whether it is a path, or a text with the ending of a data file."""
    return isinstance(value, Path) or (isinstance(value, str) and value.lower().endswith(DATA_FILES))


def ask_for(query: Query, folders: Sequence[Path]) -> Loaded:
    """Execute a query, with its files in these folders; Invalid holds every problem."""
    found: Loaded = registry.make("data", "query", query=query, folders=folders)
    return found
