"""Tools that models may call: what a tool is, and typed Python functions as tools.

The JSON schema of a function tool comes from its signature and docstring. Arguments are validated strictly
against it before the function is called; what is wrong with them is told to the model.
"""

from __future__ import annotations

import inspect
import re
import typing
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

import msgspec

from peira.core.code.fingerprint import Fingerprint, fingerprint
from peira.core.ids import Json
from peira.errors import Invalid, ToolRefused

if TYPE_CHECKING:
    from pydantic import BaseModel

    from peira.core.context import Trial

NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")
"""What providers accept as the name of a tool."""


@runtime_checkable
class Tool(Protocol):
    """Something a model may call."""

    @property
    def name(self) -> str:
        """The name by which the model calls it."""
        ...

    @property
    def description(self) -> str:
        """What the model reads about it."""
        ...

    @property
    def parameters(self) -> dict[str, Json]:
        """The JSON schema of its arguments, an object."""
        ...

    @property
    def identity(self) -> Json:
        """What it does, as far as that is known: configuration and code."""
        ...

    def call(self, arguments: Json) -> Any:
        """The result for these arguments; ToolRefused if they do not fit."""
        ...


@runtime_checkable
class Toolset(Protocol):
    """Tools that exist for the time of a trial: a server, a sandbox with its files."""

    @property
    def identity(self) -> Json:
        """What the tools are made of, without starting anything."""
        ...

    def written(self) -> Json:
        """How a study file names it; None if it cannot."""
        ...

    def open(self, trial: Trial) -> AbstractContextManager[tuple[Tool, ...]]:
        """The tools, usable until the context ends."""
        ...


def tool_schema(given: Any) -> Any:
    """A tool as a request has it: {"name", "description", "parameters"}; of a function, made from it.

    A mapping stays as it is: it may be in a provider's own form.
    """
    if isinstance(given, Mapping):
        return given
    tool = given if isinstance(given, Tool) else function_tool(given)
    return {"name": tool.name, "description": tool.description, "parameters": tool.parameters}


@dataclass(frozen=True)
class FunctionTool:
    """A Python function as a tool. `arguments` is the pydantic model that its arguments must fit."""

    fn: Callable[..., Any]
    name: str
    description: str
    parameters: dict[str, Json] = field(compare=False, repr=False)
    arguments: type[BaseModel] = field(compare=False, repr=False)
    names: tuple[str, ...] = ()

    @cached_property
    def fingerprint(self) -> Fingerprint:
        """The fingerprint of the function's code."""
        return fingerprint(self.fn)

    @property
    def identity(self) -> Json:
        """Name, description, schema and code: the model sees the first three."""
        seen = {"name": self.name, "description": self.description, "parameters": self.parameters}
        return {"tool": "function", **seen, "code": self.fingerprint.digest}

    def call(self, arguments: Json) -> Any:
        """Call the function with the arguments, or raise ToolRefused with everything that is wrong."""
        return self.fn(**self.checked(arguments))

    def checked(self, arguments: Json) -> dict[str, Any]:
        """The arguments as the function takes them; those that were not given keep their defaults."""
        from pydantic import ValidationError

        if not isinstance(arguments, Mapping):
            shown = msgspec.json.encode(arguments).decode()[:200]
            raise ToolRefused(f"{self.name}: the arguments must be a JSON object, not {shown}")
        try:
            found = self.arguments.model_validate_json(msgspec.json.encode(arguments), strict=True)
        except ValidationError as error:
            problems = [f"{_place(one['loc'])}: {one['msg']}" for one in error.errors(include_url=False)]
            raise ToolRefused(f"{self.name}: " + "; ".join(problems)) from None
        given = found.model_fields_set
        return {name: getattr(found, f"p{i}") for i, name in enumerate(self.names) if f"p{i}" in given}


def _place(where: tuple[int | str, ...]) -> str:
    """The path to a wrong argument."""
    return ".".join(map(str, where)) or "arguments"


def function_tool(fn: Any, name: str = "") -> FunctionTool:
    """The tool of a function; Invalid if no JSON schema can be made of its signature."""
    if not callable(fn):
        raise Invalid(f"a tool is a function, mcp(...), shell(), python() or files(), not {fn!r}")
    inner = fn.func if isinstance(fn, partial) else fn
    name = name or str(getattr(inner, "__name__", type(inner).__name__))
    if not NAME.fullmatch(name):
        raise Invalid(f"tool {name!r}: a tool's name has up to 64 letters, digits, _ and -")
    said = inspect.getdoc(inner) or ""
    summary, about = _documented(said)
    model, names = _arguments(fn, name, about)
    schema = _bare(model.model_json_schema(by_alias=True))
    schema.pop("description", None)
    return FunctionTool(fn, name, summary, schema, model, names)


def _arguments(fn: Any, name: str, about: Mapping[str, str]) -> tuple[type[BaseModel], tuple[str, ...]]:
    """A pydantic model of the parameters. Its fields are p0, p1, ..., so that no name is in the way."""
    from pydantic import ConfigDict, Field, PydanticUserError, create_model
    from pydantic.errors import PydanticSchemaGenerationError

    try:
        parameters = inspect.signature(fn).parameters
        called: Any = fn.func if isinstance(fn, partial) else fn
        hints = typing.get_type_hints(
            called if inspect.isroutine(called) else called.__call__, include_extras=True
        )
    except (TypeError, ValueError, NameError) as problem:
        raise Invalid(f"tool {name}: its parameters cannot be read: {problem}") from None
    fields: dict[str, Any] = {}
    for number, parameter in enumerate(parameters.values()):
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD, parameter.POSITIONAL_ONLY):
            raise Invalid(f"tool {name}: its parameter {parameter.name!r} cannot be described; name each one")
        default = ... if parameter.default is parameter.empty else parameter.default
        described = Field(default, alias=parameter.name, description=about.get(parameter.name))
        fields[f"p{number}"] = (hints.get(parameter.name, Any), described)
    try:
        model = create_model(name, __config__=ConfigDict(extra="forbid"), **fields)
        model.model_json_schema()
    except (PydanticUserError, PydanticSchemaGenerationError, TypeError) as problem:
        line = str(problem).split("\n")[0]
        raise Invalid(f"tool {name}: no JSON schema can be made of its parameters: {line}") from None
    return model, tuple(parameters)


SECTION = re.compile(
    r"^(args|arguments|parameters|params|returns?|yields?|raises?|examples?|notes?):?$", re.I
)
ITEM = re.compile(r"^\s*:?(?:param\s+)?(?P<name>\*{0,2}\w+)\s*(?:\([^)]*\))?\s*:\s*(?P<text>.*)$")


def _documented(said: str) -> tuple[str, dict[str, str]]:
    """A docstring's text before its sections, and what it says of each parameter.

    Understood are sections (`Args:`, `Parameters`) with `name: text` or `name (type): text` in them, and
    `:param name: text`.
    """
    text: list[str] = []
    about: dict[str, str] = {}
    section = last = ""
    for line in said.splitlines():
        bare = line.strip()
        if SECTION.fullmatch(bare):
            section, last = bare.rstrip(":").lower(), ""
            continue
        field_line = bare.startswith(":param")
        if bare.startswith((":return", ":raise")):
            section, last = "returns", ""
        elif field_line or section in ("args", "arguments", "parameters", "params"):
            found = ITEM.match(line) if field_line or line.startswith((" ", "\t")) or ":" in line else None
            if found:
                last = found["name"].lstrip("*")
                about[last] = found["text"].strip()
            elif last and bare and not set(bare) <= {"-", "="}:
                about[last] = f"{about[last]} {bare}".strip()
        elif not section:
            text.append(line)
    return "\n".join(text).strip(), about


def _bare(schema: Any) -> Any:
    """The schema without the titles that pydantic makes up."""
    if isinstance(schema, list):
        return [_bare(part) for part in schema]
    if not isinstance(schema, dict):
        return schema
    kept = {key: value for key, value in schema.items() if key != "title" or not isinstance(value, str)}
    return {
        key: {name: _bare(part) for name, part in value.items()}
        if key in ("properties", "$defs") and isinstance(value, dict)
        else _bare(value)
        for key, value in kept.items()
    }


# Tools that change more than they return


@dataclass(frozen=True)
class ToolEffects:
    """The result of a tool that also changed something of the trial: `changes` are recorded with it, and
    given to `restore` when the call is replayed."""

    result: Any
    changes: Json = None


@runtime_checkable
class RestoringTool(Protocol):
    """A tool whose changes are made again when its recorded call is replayed."""

    def restore(self, changes: Json) -> None:
        """Make the changes of a recorded call."""
        ...
