from __future__ import annotations

import json

from peira.spec.aims import AnalysisPlan, Hypothesis, Outcome
from peira.spec.case import Case
from peira.spec.factors import Block, Factor
from peira.spec.fields.declaration import keys_of
from peira.spec.fields.schema import schema
from peira.spec.limits import Budget, Policy, Storage
from peira.spec.study import Study


def references(part):
    if isinstance(part, dict):
        yield from (value for key, value in part.items() if key == "$ref")
        for value in part.values():
            yield from references(value)
    elif isinstance(part, list):
        for value in part:
            yield from references(value)


def test_the_schema_has_every_part_of_a_study_and_no_other():
    assert set(schema()["properties"]) == set(keys_of(Study))
    assert schema()["additionalProperties"] is False


def test_the_schema_has_every_field_of_every_part():
    parts = schema()["$defs"]
    for kind in (Factor, Block, Outcome, Hypothesis, AnalysisPlan, Budget, Policy, Storage):
        assert set(parts[kind.__name__]["properties"]) == set(kind.model_fields)
        assert parts[kind.__name__]["additionalProperties"] is False
    assert set(parts["Case"]["properties"]) == set(Case.__struct_fields__)
    assert "name" not in parts["FactorFields"]["properties"]


def test_every_reference_of_the_schema_leads_somewhere():
    document = schema()
    known = {f"#/$defs/{name}" for name in document["$defs"]}
    assert set(references(document)) <= known
    assert json.loads(json.dumps(document)) == document


def test_durations_and_shares_are_what_people_write():
    policy = schema()["$defs"]["Policy"]["properties"]
    assert {"number", "string", "null"} <= set(kinds(policy["timeout"]))
    assert {"integer", "number", "null"} <= set(kinds(policy["max_failures"]))


def kinds(part):
    yield part.get("type")
    for inner in part.get("anyOf", ()):
        yield from kinds(inner)
