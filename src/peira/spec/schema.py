"""The JSON schema of a study file, for editors that complete and check while one types."""

from __future__ import annotations

from typing import Any

from pydantic.json_schema import models_json_schema

from peira.spec.aims import AnalysisPlan, Hypothesis, Outcome
from peira.spec.case import Case
from peira.spec.constraints import Constraint
from peira.spec.factors import Block, Factor, Level
from peira.spec.limits import Budget, Policy, Storage
from peira.spec.query import SOURCES, Query

Schema = dict[str, Any]
MODELS = (Level, Factor, Block, Constraint, Outcome, Hypothesis, AnalysisPlan, Budget, Policy, Storage)
TEXT: Schema = {"type": "string"}
TEXTS: Schema = {"anyOf": [TEXT, {"type": "array", "items": TEXT}]}
ANY: Schema = {}


def schema() -> Schema:
    """The schema (JSON Schema 2020-12) of the shapes that TOML, YAML and JSON study files may have."""
    _, defined = models_json_schema([(model, "validation") for model in MODELS])
    parts: Schema = {name: _tidy(part) for name, part in defined["$defs"].items()}
    parts |= {"Case": _case(), "Cases": _cases(), "Query": _query()}
    parts |= {"Code": _code(), "Evaluator": _named_plugin(), "Transform": _named_plugin()}
    parts |= {f"{name}Fields": _unnamed(parts[name]) for name in ("Factor", "Block")}
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "peira study",
        "type": "object",
        "properties": _properties(),
        "required": ["cases"],
        "oneOf": [{"required": ["agent"]}, {"required": ["agents"]}],
        "additionalProperties": False,
        "$defs": parts,
    }


def _properties() -> Schema:
    labelled = {"type": "object", "additionalProperties": _ref("Code"), "minProperties": 1}
    return {
        **dict.fromkeys(("name", "title", "description", "rationale", "notes", "version"), TEXT),
        **dict.fromkeys(("authors", "tags"), TEXTS),
        "cases": _either(_ref("Cases"), {"type": "object", "additionalProperties": _ref("Cases")}),
        "factors": _named("Factor"),
        "blocks": _named("Block"),
        "constraints": _list(_either(TEXT, _ref("Constraint"))),
        "design": _either(TEXT, {"type": "object", "properties": {"name": TEXT}, "required": ["name"]}),
        **dict.fromkeys(("agent", "agents"), _either(_ref("Code"), labelled)),
        "transform": _either(_ref("Transform"), _list(_ref("Transform"))),
        "evaluators": _either(_ref("Evaluator"), _list(_ref("Evaluator"))),
        "repeats": {"type": "integer", "minimum": 1},
        "seed": {"type": "integer"},
        "order": {"enum": ["random", "interleaved", "cases", "given"]},
        "anchors": {"type": "integer", "minimum": 0},
        "outcomes": _list(_ref("Outcome")),
        "hypotheses": _list(_ref("Hypothesis")),
        "analysis_plans": _list(_ref("AnalysisPlan")),
        "stop": _either(TEXT, {"type": "object", "properties": {"rule": TEXT}}),
        **{key: _ref(key.capitalize()) for key in ("budget", "policy", "storage")},
        "data": {"type": "object"},
    }


def _ref(name: str) -> Schema:
    return {"$ref": f"#/$defs/{name}"}


def _either(*shapes: Schema) -> Schema:
    return {"anyOf": list(shapes)}


def _list(items: Schema) -> Schema:
    return {"type": "array", "items": items}


def _named(name: str) -> Schema:
    """A table of name and levels (or fields), or a list."""
    levels = {"type": "array", "minItems": 1}
    table = {"type": "object", "additionalProperties": _either(levels, _ref(f"{name}Fields"))}
    return _either(table, _list(_ref(name)))


def _unnamed(part: Schema) -> Schema:
    fields = {key: value for key, value in part["properties"].items() if key != "name"}
    return {**part, "properties": fields, "required": ["levels"]}


def _tidy(part: Schema) -> Schema:
    """Without the titles that only repeat the names."""
    fields = {n: {k: v for k, v in f.items() if k != "title"} for n, f in part["properties"].items()}
    return {**part, "properties": fields}


def _case() -> Schema:
    label = {"type": ["string", "integer"]}
    fields: Schema = dict.fromkeys(Case.__struct_fields__, ANY)
    fields |= dict.fromkeys(("id", "cluster", "slice"), label)
    fields |= {"metadata": {"type": "object"}, "evaluators": _list(_ref("Evaluator"))}
    return {"type": "object", "properties": fields, "required": ["input"], "additionalProperties": False}


def _cases() -> Schema:
    pair = {"type": "array", "minItems": 2, "maxItems": 2}
    return _either(TEXT, _ref("Query"), {**_list(_either(TEXT, pair, _ref("Case"))), "minItems": 1})


def _query() -> Schema:
    whole, yes = {"type": "integer"}, {"type": "boolean"}
    columns = {"anyOf": [*TEXTS["anyOf"], {"type": "object", "additionalProperties": TEXT}]}
    fields: Schema = dict.fromkeys(Query.model_fields, TEXT)
    fields |= {"file": TEXTS, "metadata": columns, "shuffle": yes, "seed": whole, "rows": {"type": "array"}}
    fields |= {"ids": {"type": ["array", "string", "integer"]}}
    fields |= {key: {"type": "integer", "minimum": 1} for key in ("first", "sample")}
    sources = [{"required": [name]} for name in SOURCES]
    return {"type": "object", "properties": fields, "oneOf": sources, "additionalProperties": False}


def _code() -> Schema:
    return {**TEXT, "pattern": r".+\.py:[A-Za-z_][\w.]*$", "description": "file.py:name"}


def _named_plugin() -> Schema:
    return _either(TEXT, {"type": "object", "minProperties": 1})
