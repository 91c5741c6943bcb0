"""A field of a study is declared once: these declare some, and all that is derived knows them."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Annotated, Any, Literal

import pytest
from jsonschema import Draft202012Validator
from pydantic import Field

from peira.errors import Invalid
from peira.plan.diff.changes import PARTS, parts_of
from peira.spec.fields.declaration import About, StudyField, fields_of, keys_of
from peira.spec.fields.schema import schema
from peira.spec.study import Study, StudyFields
from peira.spec.study_files import StudyWriter
from peira.spec.values import Name, Texts, Value


class Review(Value):
    rounds: int = Field(default=1, ge=1)
    strict: bool = False


class SiteVisit(Value):
    name: Name
    days: int = 1


class Wider(Study):
    colour: Annotated[str, About()] = ""
    speed: int = Field(default=3, ge=1)
    mood: Literal["calm", "hurried"] = "calm"
    places: Texts = ()
    review: Review = Field(default_factory=Review)
    site_visits: tuple[SiteVisit, ...] = ()


def answer(case):
    return case.input


SAID: dict[str, Any] = {
    "name": "wide",
    "cases": [{"input": "a"}],
    "colour": "red",
    "speed": 4,
    "mood": "hurried",
    "places": ["here"],
    "review": {"rounds": 2},
    "site_visits": [{"name": "first", "days": 2}],
}


def made(**other: Any) -> Wider:
    study = Wider.assemble({**SAID, "agent": answer, **other}, [Path()])
    assert isinstance(study, Wider)
    return study


def test_it_is_read() -> None:
    study = made()
    assert (study.colour, study.speed, study.mood, study.places) == ("red", 4, "hurried", ("here",))
    assert study.review == Review(rounds=2)
    assert study.site_visits == (SiteVisit(name="first", days=2),)


def test_what_is_wrong_is_told_at_its_path() -> None:
    with pytest.raises(Invalid) as refused:
        made(speed=0, mood="calmm", review={"rounds": 0}, site_visits=[{"days": 1}], site_visit=[])
    paths = [problem.split(":")[0] for problem in refused.value.problems]
    assert sorted(paths) == ["mood", "review.rounds", "site_visit", "site_visits[0].name", "speed"]
    assert any("site_visits" in problem for problem in refused.value.problems if "site_visit:" in problem)


def test_it_is_written_as_it_was_read() -> None:
    written = StudyWriter(None).study(made())
    assert {key: written[key] for key in SAID} == SAID
    plain = StudyWriter(None).study(Wider.assemble({"cases": SAID["cases"], "agent": answer}, [Path()]))
    assert plain.keys() == {"name", "cases", "agent"}


def test_editors_know_it() -> None:
    known = Draft202012Validator(schema(Wider))
    document = {**SAID, "agent": "file.py:answer"}
    assert list(known.iter_errors(document)) == []
    for wrong in ({"speed": 0}, {"mood": "calmm"}, {"review": {"rounds": 0}}, {"site_visits": [{"days": 1}]}):
        assert list(known.iter_errors({**document, **wrong})), wrong


def told(was: dict[str, Any], now: dict[str, Any]) -> list[tuple[str, str]]:
    """What is told of the new fields, and of what is about the study."""
    both: list[Any] = [SimpleNamespace(manifest=SimpleNamespace(snapshot=one)) for one in (was, now)]
    looks = {part: look for part, look in parts_of(Wider).items() if part not in PARTS or part == "about"}
    return [(part, said) for part, look in looks.items() for said in look(*both)]


def test_a_change_of_it_is_told() -> None:
    before = StudyWriter(None).study(Wider.assemble({"cases": SAID["cases"], "agent": answer}, [Path()]))
    assert told(before, before) == []
    assert told(before, {**StudyWriter(None).study(made()), "name": before["name"]}) == [
        ("speed", "speed changed from 3 to 4"),
        ("mood", "mood changed from calm to hurried"),
        ("places", 'places changed from [] to ["here"]'),
        ("review", "review.rounds changed from unset to 2"),
        ("site visits", "site visit first added"),
        ("about", "colour changed (no trial depends on that)"),
    ]


def test_every_field_of_a_study_is_told_when_it_changes() -> None:
    def covered(field: StudyField) -> bool:
        within = {"blocks": "factors", "case_sets": "cases", "labelled": "agents", "version": "agents"}
        name = within.get(field.name, field.name)
        return field.about or name.replace("_", " ") in PARTS

    assert all(map(covered, fields_of(Study)))


def test_the_keywords_that_editors_complete_are_the_keys() -> None:
    assert set(StudyFields.__annotations__) == set(keys_of(Study))
