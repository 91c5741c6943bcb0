from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from peira.core.models import Reply, Request, ToolCall, Usage
from peira.errors import CallFailed, Invalid, Unknown
from peira.models import ReplayModel, record, request_digest


def question(text: str, **parameters) -> Request:
    return Request(messages=({"role": "user", "content": text},), parameters=parameters)


def ask(model: ReplayModel, request: Request) -> Reply:
    return model.read(asyncio.run(model.send(request)))


def test_what_was_recorded_is_said_again(tmp_path: Path) -> None:
    path = tmp_path / "calls.jsonl"
    first = Reply("Paris", model="m-1", usage=Usage(3, 1), tool_calls=(ToolCall("c", "f", {"a": 1}),))
    record(path, question("Capital of France?"), first)
    record(path, question("Capital of France?", temperature=1), Reply("Lyon"))
    model = ReplayModel(str(path))
    model.check()
    assert ask(model, question("Capital of France?")) == first
    assert ask(model, question("Capital of France?", temperature=1.0)).text == "Lyon"


def test_an_unknown_request_is_named(tmp_path: Path) -> None:
    path = tmp_path / "calls.jsonl"
    path.write_text("")
    with pytest.raises(
        CallFailed, match=r"no answer recorded for request [0-9a-f]{12} \('Why\?'\)"
    ) as failed:
        ask(ReplayModel(str(path)), question("Why?"))
    assert not failed.value.free
    assert not failed.value.doubt


def test_outputs_from_elsewhere(tmp_path: Path) -> None:
    path = tmp_path / "calls.jsonl"
    lines = [
        {"request": {"messages": [{"role": "user", "content": "a"}]}, "text": "A"},
        {"digest": request_digest(question("b")), "reply": {"text": "B"}},
    ]
    path.write_text("\n\n".join(map(json.dumps, lines)))
    model = ReplayModel(str(path))
    assert [ask(model, question(q)).text for q in "ab"] == ["A", "B"]


def test_every_bad_line_is_named_at_once(tmp_path: Path) -> None:
    path = tmp_path / "calls.jsonl"
    key = request_digest(question("a"))
    same = json.dumps({"digest": key, "text": "A"})
    path.write_text("\n".join([same, same, "oops", json.dumps({"text": "A"}), same.replace("A", "B")]))
    with pytest.raises(Invalid) as refused:
        ReplayModel(str(path)).check()
    assert [problem.partition(": ")[0] for problem in refused.value.problems] == [
        f"calls.jsonl:{line}" for line in (3, 4)
    ]


def test_a_missing_file_is_named() -> None:
    with pytest.raises(Unknown, match=r"replay:nowhere\.jsonl: no recording"):
        ReplayModel("nowhere.jsonl").check()


def test_the_answers_are_the_identity(tmp_path: Path) -> None:
    for name in ("a", "b"):
        record(tmp_path / name, question("q"), Reply("x"))
    a, b = (ReplayModel(str(tmp_path / name)).identity for name in "ab")
    record(tmp_path / "b", question("r"), Reply("y"))
    assert a == b != ReplayModel(str(tmp_path / "b")).identity


@given(st.dictionaries(st.text(min_size=1), st.text(), max_size=5))
def test_any_text_survives(tmp_path_factory: pytest.TempPathFactory, texts: dict[str, str]) -> None:
    path = tmp_path_factory.mktemp("replay") / "calls.jsonl"
    path.touch()
    for asked, said in texts.items():
        record(path, question(asked), Reply(said))
    model = ReplayModel(str(path))
    assert {asked: ask(model, question(asked)).text for asked in texts} == texts


def test_several_answers_to_one_request_come_in_turn(tmp_path: Path) -> None:
    path = tmp_path / "calls.jsonl"
    for text in ("one", "two"):
        record(path, question("?"), Reply(text))
    model = ReplayModel(str(path))
    assert [ask(model, question("?")).text for _ in range(3)] == ["one", "two", "one"]
