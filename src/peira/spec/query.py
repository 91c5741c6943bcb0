"""A data query: where rows come from, which of them are wanted, and what of a row is what of a case.

Only the question stands here; the room that reads data answers it, through the registry.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import BeforeValidator, Field, SkipValidation, model_validator

from peira.core.expressions import Expression, ExpressionError
from peira.core.ids import Json
from peira.core.registry import registry
from peira.core.templates import Template, is_template
from peira.errors import Invalid
from peira.spec.case import Case
from peira.spec.rows import READERS
from peira.spec.values import MAX_SEED, Name, Texts, Value

SOURCES = ("file", "folder", "dataset", "rows")
DATA_FILES = (*READERS, ".parquet")
FIELDS = ("input", "expected", "id", "cluster", "slice")


def _files(value: object) -> object:
    if isinstance(value, str | Path):
        return (str(value),)
    return tuple(map(str, value)) if isinstance(value, list | tuple) else value


def _folder(value: object) -> object:
    return str(value) if isinstance(value, Path) else value


def _columns(value: object) -> object:
    """Which columns are metadata: a list of them, or a table of names and fields."""
    if isinstance(value, str):
        return {value: value}
    return {name: name for name in value} if isinstance(value, list | tuple) else value


def _labels(value: object) -> object:
    several = value if isinstance(value, list | tuple) else [value]
    return tuple(str(one) if type(one) is int else one for one in several)


class Query(Value):
    """Cases out of data: `{file = "x.jsonl", input = "question", where = "level > 3", sample = 100}`.

    The source is one of `file` (or several), `folder` (its files, by `pattern`), `dataset` (a Hugging Face
    data set, with its `config`, `split` and `revision`) and `rows` (a list). `input`, `expected`, `id`,
    `cluster`, `slice` and the `metadata` are each a field of a row, or a template over its fields; a part
    that is not mapped is the field of its own name. Without any mapping a row is a case as it stands. `each`
    makes a row of every item of a list in a row, with the `item` and its place, `nth`, beside the rest.

    Of the rows that `where` admits, `ids` are taken by name; then the `first` so many, or a random `sample`
    of at most so many (in proportion to the values of `stratify`). They keep their order, unless `shuffle`.
    The `seed` decides both chances.
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
        if problems := list(self._problems()):
            raise Invalid(problems)
        return self

    def _problems(self) -> Iterator[str]:
        given = [name for name in SOURCES if getattr(self, name) not in ((), "", None)]
        if len(given) != 1:
            said = " and ".join(given) or "none"
            yield f"file: give one source ({', '.join(SOURCES)}), not {said}"
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
        """What each part of a case is made of; empty if rows are cases as they stand."""
        parts = {name: getattr(self, name) for name in FIELDS}
        own = {name: text for name, text in parts.items() if text is not None}
        return own | {f"metadata.{name}": text for name, text in self.metadata.items()}


class Loaded(Value):
    """The cases that a query found, and what is recorded of where they came from."""

    cases: SkipValidation[tuple[Case, ...]]
    origin: dict[str, Json]


def is_query(raw: object) -> bool:
    """Whether this asks for data: a Query, or a table that names a source."""
    if not isinstance(raw, Mapping):
        return isinstance(raw, Query)
    if any(isinstance(raw.get(name), str | Path) for name in SOURCES):
        return True
    # A list may also be cases under a label of that name: these are told by how they look.
    files, rows = raw.get("file"), raw.get("rows")
    several = isinstance(files, list | tuple) and bool(files) and all(map(_is_file_name, files))
    listed = isinstance(rows, list | tuple) and len(raw) > 1 and set(raw) <= set(Query.model_fields)
    return several or listed


def _is_file_name(value: object) -> bool:
    return isinstance(value, Path) or (isinstance(value, str) and value.lower().endswith(DATA_FILES))


def ask_for(query: Query, folders: Sequence[Path]) -> Loaded:
    """The cases of a query, whose files lie in these folders; Invalid holds every problem."""
    found: Loaded = registry.make("data", "query", query=query, folders=folders)
    return found
