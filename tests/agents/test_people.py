"""People in agents: approval of tools, pauses of graphs, a person as the user of a conversation."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import peira
from peira import agent, conversation, graph, person, study
from peira.cli import main
from peira.core.log.events import State, StepRecorded
from peira.errors import Invalid
from peira.stores.sqlite import SqliteStore

executed: list[Any] = []


def add(a: int, b: int) -> int:
    """Add."""
    executed.append((a, b))
    return a + b


def begin(input: str) -> str:
    executed.append("begin")
    return input


def end(output: str, outputs: dict[str, Any]) -> str:
    return f"{outputs['begin']}: {output}"


@pytest.fixture(autouse=True)
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    executed.clear()


def waiting(capfd: Any) -> list[dict[str, Any]]:
    """The open questions."""
    capfd.readouterr()
    assert main(["inbox", "list", "--json", "--store", "s.db"]) == 0
    found: list[dict[str, Any]] = json.loads(capfd.readouterr().out)["questions"]
    return found


def answer(key: str, value: str) -> None:
    assert main(["inbox", "answer", key, value, "--store", "s.db"]) == 0


def once(made: Any) -> Any:
    return peira.run(made, store="s.db", progress=False).trials[0]


def asked_tools(endpoint: Any) -> None:
    calls = [{"id": f"c{n}", "name": "add", "arguments": {"a": n, "b": 1}} for n in (1, 2)]
    endpoint.script({"text": "", "tool_calls": calls, "finish": "tool_calls"}, {"text": "done"})
    Path("peira.toml").write_text(
        f'[models.fast]\nmodel = "openai:{endpoint.model}"\nbase_url = "{endpoint.base}/v1"\n'
    )


@pytest.mark.parametrize("approve", ["people", ["add"]])
def test_people_approve_tool_calls_and_nothing_is_repeated(endpoint: Any, capfd: Any, approve: Any) -> None:
    asked_tools(endpoint)
    made = study(name="t", agent=agent("fast", tools=[add], approve=approve), cases=["go"])
    assert once(made).state is State.waiting
    first, second = waiting(capfd)
    assert executed == []
    answer(first["key"], "allow")
    assert once(made).state is State.waiting
    answer(second["key"], "refuse")
    trial = once(made)
    assert (trial.state, trial.output) == (State.succeeded, "done")
    assert len(executed) == 1
    assert endpoint.bills() == 2
    told = [use.result for use in peira.open("s.db").results().transcript(trial).tool_calls]
    assert sorted(map(str, told)) in (
        ["2", "a person refused this call"],
        ["3", "a person refused this call"],
    )


def test_a_pause_of_a_graph_asks_a_person(capfd: Any) -> None:
    nodes = {"begin": begin, "review": {"prompt": "Good?", "options": ["yes", "no"]}, "end": end}
    edges = [("begin", "review"), ("review", "begin", "output == 'no'"), ("review", "end")]
    made = study(
        name="g", agent=graph(nodes, edges, start="begin", ends="end", pauses=["review"]), cases=["go"]
    )
    assert once(made).state is State.waiting
    (question,) = waiting(capfd)
    assert (question["prompt"], question["options"]) == ("Good?", ["yes", "no"])
    answer(question["key"], "no")
    assert once(made).state is State.waiting
    (question,) = waiting(capfd)
    answer(question["key"], "yes")
    trial = once(made)
    assert trial.output == "go: yes"
    assert executed == ["begin", "begin"], "each visit once, whatever was waited for"
    store = SqliteStore(Path("s.db"), readonly=True)
    names = [r.event.name for r in store.about([trial.id]) if isinstance(r.event, StepRecorded)]
    store.close()
    assert sorted(names) == ["node begin 1", "node begin 2", "node end 1"]


@pytest.mark.parametrize("user", ["person", person()])
def test_a_person_is_the_user_of_a_conversation(capfd: Any, user: Any) -> None:
    made = study(name="c", agent=conversation("scripted:echo", user), cases=["help"])
    assert once(made).state is State.waiting
    for said in ("hello", "and you?", "[done]"):
        (question,) = waiting(capfd)
        answer(question["key"], said)
        trial = once(made)
    assert trial.output["ended"] == "goal"
    assert [m["content"] for m in trial.output["messages"]] == ["hello", "hello", "and you?", "and you?"]


def test_names_of_tools_that_need_approval_are_checked() -> None:
    with pytest.raises(Invalid, match=r"approve: there is no tool 'ad'.*did you mean 'add'"):
        agent("m", tools=[add], approve=["ad"])
