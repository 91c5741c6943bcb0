"""The JSON schema of a study file, for completion and checks in editors."""

from __future__ import annotations

from typing import Any, Literal, get_args, get_origin

from pydantic import BaseModel
from pydantic.json_schema import models_json_schema

from peira.spec.case import Case
from peira.spec.constraints import Constraint
from peira.spec.factors import Block, Factor, Level
from peira.spec.fields.declaration import StudyField, bare, fields_of
from peira.spec.query import SOURCES, Query
from peira.spec.study import Study

Schema = dict[str, Any]
TEXT: Schema = {"type": "string"}
TEXTS: Schema = {"anyOf": [TEXT, {"type": "array", "items": TEXT}]}
ANY: Schema = {}
PLAIN: dict[Any, Schema] = {
    str: TEXT,
    tuple: TEXTS,
    bool: {"type": "boolean"},
    float: {"type": "number"},
    dict: {"type": "object"},
}


def schema(study: type[BaseModel] = Study) -> Schema:
    """The schema (JSON Schema 2020-12) of the shapes that TOML, YAML and JSON study files may have."""
    own, fields = _own(), fields_of(study)
    derived = [field.kind for field in fields if field.name not in own and field.kind is not None]
    models: list[type[BaseModel]] = [Level, Factor, Block, Constraint, *derived]
    _, defined = models_json_schema([(model, "validation") for model in models])
    parts: Schema = {name: _tidy(part) for name, part in defined["$defs"].items()}
    parts |= {"Case": _case(), "Cases": _cases(), "Query": _query()}
    parts |= {"Code": _code(), "Agent": _agent(), "Evaluator": _named_plugin(), "Transform": _named_plugin()}
    parts |= {f"{name}Fields": _unnamed(parts[name]) for name in ("Factor", "Block")}
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "peira study",
        "type": "object",
        "properties": {
            key: own[key] if key in own else _derived(field) for field in fields for key in field.keys
        },
        "required": ["cases"],
        "oneOf": [{"required": ["agent"]}, {"required": ["agents"]}],
        "additionalProperties": False,
        "$defs": parts,
    }


def _own() -> Schema:
    """The schemas of fields that have forms of their own."""
    labelled = {"type": "object", "additionalProperties": _ref("Agent"), "minProperties": 1}
    return {
        "cases": _either(_ref("Cases"), {"type": "object", "additionalProperties": _ref("Cases")}),
        "factors": _named("Factor"),
        "blocks": _named("Block"),
        "constraints": _list(_either(TEXT, _ref("Constraint"))),
        "design": _either(TEXT, {"type": "object", "properties": {"name": TEXT}, "required": ["name"]}),
        **dict.fromkeys(("agent", "agents"), _either(_ref("Agent"), labelled)),
        "transform": _either(_ref("Transform"), _list(_ref("Transform"))),
        "evaluators": _either(_ref("Evaluator"), _list(_ref("Evaluator"))),
        "stop": _either(TEXT, {"type": "object", "properties": {"rule": TEXT}}),
    }


def _derived(field: StudyField) -> Schema:
    """The schema of a field, derived from its declaration."""
    if field.kind is not None:
        part = _ref(field.kind.__name__)
        return part if field.shape == "table" else _list(part)
    kind = bare(field.info.annotation)
    if get_origin(kind) is Literal:
        return {"enum": list(get_args(kind))}
    if kind is int:
        limits = {"minimum": _limit(field, "ge"), "maximum": _limit(field, "le")}
        return {"type": "integer", **{name: at for name, at in limits.items() if at is not None}}
    return PLAIN[get_origin(kind) or kind]


def _limit(field: StudyField, which: str) -> int | None:
    """The bound (`ge`, `le`) that a field declares, if any."""
    return next((getattr(mark, which) for mark in field.info.metadata if hasattr(mark, which)), None)


def _ref(name: str) -> Schema:
    """A reference to a definition."""
    return {"$ref": f"#/$defs/{name}"}


def _either(*shapes: Schema) -> Schema:
    """Any of these."""
    return {"anyOf": list(shapes)}


def _list(items: Schema) -> Schema:
    """A list of these."""
    return {"type": "array", "items": items}


def _named(name: str) -> Schema:
    """A table of name and levels (or fields), or a list."""
    levels = {"type": "array", "minItems": 1}
    table = {"type": "object", "additionalProperties": _either(levels, _ref(f"{name}Fields"))}
    return _either(table, _list(_ref(name)))


def _unnamed(part: Schema) -> Schema:
    """The definition without its name, which is the key of a table."""
    fields = {key: value for key, value in part["properties"].items() if key != "name"}
    return {**part, "properties": fields, "required": ["levels"]}


def _tidy(part: Schema) -> Schema:
    """The definition without titles that only repeat the names."""
    fields = {n: {k: v for k, v in f.items() if k != "title"} for n, f in part["properties"].items()}
    return {**part, "properties": fields}


def _case() -> Schema:
    """The schema of a case."""
    label = {"type": ["string", "integer"]}
    fields: Schema = dict.fromkeys(Case.__struct_fields__, ANY)
    fields |= dict.fromkeys(("id", "cluster", "slice"), label)
    fields |= {"metadata": {"type": "object"}, "evaluators": _list(_ref("Evaluator"))}
    return {"type": "object", "properties": fields, "required": ["input"], "additionalProperties": False}


def _cases() -> Schema:
    """The schema of a case set: a file, a query or a list."""
    pair = {"type": "array", "minItems": 2, "maxItems": 2}
    return _either(TEXT, _ref("Query"), {**_list(_either(TEXT, pair, _ref("Case"))), "minItems": 1})


def _query() -> Schema:
    """The schema of a data query."""
    whole, yes = {"type": "integer"}, {"type": "boolean"}
    columns = {"anyOf": [*TEXTS["anyOf"], {"type": "object", "additionalProperties": TEXT}]}
    fields: Schema = dict.fromkeys(Query.model_fields, TEXT)
    fields |= {"file": TEXTS, "metadata": columns, "shuffle": yes, "seed": whole, "rows": {"type": "array"}}
    fields |= {"ids": {"type": ["array", "string", "integer"]}}
    fields |= {key: {"type": "integer", "minimum": 1} for key in ("first", "sample")}
    sources = [{"required": [name]} for name in SOURCES]
    return {"type": "object", "properties": fields, "oneOf": sources, "additionalProperties": False}


def _code() -> Schema:
    """The schema of a reference to a function."""
    return {**TEXT, "pattern": r".+\.py:[A-Za-z_][\w.]*$", "description": "file.py:name"}


def _agent() -> Schema:
    """The schema of an agent: code, or a kind of agent by its name, or in a table with its options."""
    kind = {**TEXT, "pattern": r"^\w+$"}
    named = {"type": "object", "properties": {"kind": kind}, "required": ["kind"]}
    words = {"type": "array", "items": TEXT, "minItems": 1}
    command = {"type": "object", "properties": {"command": words}, "required": ["command"]}
    return _either(_ref("Code"), kind, named, command)


def _named_plugin() -> Schema:
    """The schema of a plug-in: its name, or a table with its options."""
    return _either(TEXT, {"type": "object", "minProperties": 1})
