"""The fields of a study, from which reading, writing, the JSON schema and comparison are derived.

A field is *plain* (text, a number, one of several words, a table of anything: taken as it is written), a
*table* (a Value of its own) or a *list* of such Values. A few fields are written in other forms; reader,
writer, schema and comparison each handle those themselves.
"""

from __future__ import annotations

from functools import cache
from typing import Annotated, Any, get_args, get_origin

import msgspec
from pydantic import BaseModel
from pydantic.fields import FieldInfo

from peira.spec.values import Value


class WrittenAs(msgspec.Struct, frozen=True):
    """Marks a field that is written under other keys than its own name."""

    keys: tuple[str, ...]


class About(msgspec.Struct, frozen=True):
    """Marks a field that does not affect any trial."""


class StudyField(msgspec.Struct, frozen=True):
    """One field: its name, the keys it is written under, and its shape.

    `kind` is the class of a table, or of each element of a list; `about` says that no trial depends on it.
    """

    name: str
    keys: tuple[str, ...]
    shape: str
    kind: type[Value] | None
    about: bool
    info: FieldInfo

    @property
    def default(self) -> Any:
        """The default value."""
        return self.info.get_default(call_default_factory=True)


@cache
def fields_of(study: type[BaseModel]) -> tuple[StudyField, ...]:
    """The fields of a class of studies, in its order."""
    return tuple(_field(name, info) for name, info in study.model_fields.items())


@cache
def keys_of(study: type[BaseModel]) -> tuple[str, ...]:
    """The keys that a study file may have."""
    return tuple(key for field in fields_of(study) for key in field.keys)


def shaped(study: type[BaseModel], shape: str) -> tuple[StudyField, ...]:
    """The fields of this shape."""
    return tuple(field for field in fields_of(study) if field.shape == shape)


def _field(name: str, info: FieldInfo) -> StudyField:
    """The field that a pydantic field declares."""
    written = [mark.keys for mark in info.metadata if isinstance(mark, WrittenAs)]
    about = any(isinstance(mark, About) for mark in info.metadata)
    shape, kind = _shape(info.annotation)
    return StudyField(name, written[0] if written else (name,), shape, kind, about, info)


def _shape(annotation: Any) -> tuple[str, type[Value] | None]:
    """The shape of an annotation, and the class of a table or of an element."""
    if _is_value(annotation):
        return "table", annotation
    arguments = get_args(annotation)
    if get_origin(annotation) is tuple and _is_value(arguments[0]):
        return "list", arguments[0]
    return "plain", None


def _is_value(annotation: Any) -> bool:
    """Whether the annotation is a class of Values."""
    return isinstance(annotation, type) and issubclass(annotation, Value)


def bare(annotation: Any) -> Any:
    """The type without its annotations and without None."""
    if get_origin(annotation) is Annotated:
        return bare(get_args(annotation)[0])
    options = [each for each in get_args(annotation) if each is not type(None)]
    if type(None) in get_args(annotation) and len(options) == 1:
        return bare(options[0])
    return annotation
