"""Graphs: the way through them, limits, problems, and going on at the node that was reached."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import peira
from peira import Reply, agent, ask, graph, run, study
from peira.core.context import SeenCase, Trial, enter
from peira.core.contracts import Agent
from peira.core.log.events import State
from peira.errors import AttemptFailed, Exhausted, Invalid
from peira.testing import AgentSuite, MemoryChannel

visited: list[tuple[str, int]] = []


def plan(input: str, visit: int) -> dict[str, Any]:
    visited.append(("plan", visit))
    return {"plan": f"{input} {visit}"}


def act(output: Any, visit: int, steps: int) -> dict[str, Any]:
    visited.append(("act", visit))
    return {"again": visit < 3, "did": output["plan"], "steps": steps}


def finish(outputs: dict[str, Any]) -> Any:
    visited.append(("finish", 1))
    return outputs["act"]["did"]


NODES = {"plan": plan, "act": act, "finish": finish}
EDGES = [("plan", "act"), ("act", "plan", "output.again"), ("act", "finish")]


@pytest.fixture(autouse=True)
def _fresh() -> None:
    visited.clear()


def went(made: Any, replies: Any = (), steps: Any = None, **condition: Any) -> tuple[Any, MemoryChannel]:
    channel = MemoryChannel(steps, replies)
    trial = Trial(
        id="ef" * 32,
        case=SeenCase("go", "c"),
        condition=condition,
        repeat=0,
        attempt=1,
        agent="x",
        channel=channel,
    )
    enter(trial)
    try:
        return made.invoke(trial), channel
    finally:
        enter(None)
        trial.finish()


def test_edges_and_their_conditions_lead_to_the_end() -> None:
    output, channel = went(graph(NODES, EDGES, start="plan", ends=["finish"]))
    assert output == "go 3"
    assert visited == [
        ("plan", 1),
        ("act", 1),
        ("plan", 2),
        ("act", 2),
        ("plan", 3),
        ("act", 3),
        ("finish", 1),
    ]
    assert channel.metrics == {"nodes": 7}
    assert len(channel.steps) == 7


@pytest.mark.parametrize("done", range(8))
def test_a_resumed_trial_goes_on_at_the_node_it_had_reached(done: int) -> None:
    made = graph(NODES, EDGES, start="plan", ends="finish")
    output, channel = went(made)
    visited.clear()
    again, _ = went(made, steps=dict(list(channel.steps.items())[:done]))
    assert again == output
    assert len(visited) == 7 - done


def test_limits_of_visits_and_of_all_nodes() -> None:
    endless = [("plan", "act"), ("act", "plan", "true"), ("act", "finish")]
    with pytest.raises(Exhausted, match=r"plan was visited 4 times \(visits = 4\)"):
        went(graph(NODES, endless, start="plan", ends="finish", visits=4))
    with pytest.raises(Exhausted, match=r"after 5 nodes \(most = 5\)"):
        went(graph(NODES, endless, start="plan", ends="finish", visits=9, most=5))


def test_no_edge_that_holds_is_a_failure() -> None:
    made = graph(NODES, [("plan", "act"), ("act", "finish", "output.never")], start="plan", ends="finish")
    with pytest.raises(AttemptFailed, match="no edge leads on from act"):
        went(made)


def test_several_entry_points_share_one_graph() -> None:
    made = graph(NODES, EDGES, start={"whole": "plan", "last": "act"}, ends="finish")
    assert made.takes == made.requires == {"start"}
    with pytest.raises(TypeError):
        went(made, start="last")  # act needs a plan
    assert went(made, start="whole")[0] == "go 3"


def test_agents_are_nodes_and_equal_calls_keep_their_own_answers() -> None:
    def draft(output: Any) -> str:
        return ask("m", "write").text

    def judge(output: Any, visit: int) -> dict[str, Any]:
        return {"bad": visit < 2, "text": output}

    def over(output: Any) -> Any:
        return output["text"]

    polish = agent("polisher", system="Polish.")
    made = graph(
        {"draft": draft, "polish": polish, "judge": judge, "over": over},
        [("draft", "polish"), ("polish", "judge"), ("judge", "draft", "output.bad"), ("judge", "over")],
        start="draft",
        ends="over",
    )
    replies = [Reply("d1"), Reply("p1"), Reply("d2"), Reply("p2")]
    output, channel = went(made, replies)
    assert output == "p2"
    keys = [key for _, request, key in channel.asked if request.messages[0]["content"] == "write"]
    assert len(set(keys)) == 2, "each visit names its own call"
    # resumed within the second visit: the equal call of the first visit is not taken for it
    _, again = went(made, replies[2:], dict(list(channel.steps.items())[:3]))
    assert [key for _, _, key in again.asked] == [key for _, _, key in channel.asked[2:]]


def test_everything_that_is_wrong_is_said_at_once() -> None:
    with pytest.raises(Invalid) as wrong:
        graph(
            {**NODES, "lonely": plan, "odd": 3},
            [("plan", "acct"), ("act", "plan", "output ="), ("act",), ("act", "plan"), ("act", "finish")],
            start="pla",
            ends=["finsh"],
            pauses=["review"],
            visits=0,
        )
    said = str(wrong.value)
    for part in (
        "edges: there is no node 'acct'",
        "did you mean 'act'",
        "edges[1]:",
        "edges[2]: must be (from, to)",
        "start: there is no node 'pla'",
        "ends: there is no node 'finsh'",
        "pauses: there is no node 'review'",
        "visits: must be",
        "nodes.odd: must be a function or an agent",
        "nodes.lonely: no edge leads on",
        "is never taken",
    ):
        assert part in said, part


@given(
    st.lists(st.tuples(st.integers(0, 4), st.integers(0, 4), st.booleans()), max_size=10),
    st.integers(0, 4),
    st.integers(0, 4),
)
def test_a_graph_is_refused_or_ends(edges: list[tuple[int, int, bool]], start: int, end: int) -> None:
    """Whatever the edges: what is not refused comes to an end, or is exhausted within its limits."""
    nodes = {f"n{i}": (lambda visit: visit) for i in range(5)}
    written = [(f"n{a}", f"n{b}", *(("output > 1",) if when else ())) for a, b, when in edges]
    try:
        made = graph(nodes, written, start=f"n{start}", ends=f"n{end}", visits=3, most=12)
    except Invalid:
        return
    try:
        _, channel = went(made)
        assert channel.metrics["nodes"] <= 12
    except (Exhausted, AttemptFailed):
        pass


def test_exhausted_is_no_success_in_a_study(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    endless = [("plan", "act"), ("act", "plan", "true"), ("act", "finish")]
    made = study(name="g", agent=graph(NODES, endless, start="plan", ends="finish", visits=2), cases=["go"])
    results = run(made, store="s.db", progress=False)
    assert results.trials[0].state is State.exhausted
    assert not results.ok
    assert "visits = 2" in results.trials[0].failure.message
    assert len(results.transcript(results.trials[0]).entries) == 5


def test_a_file_names_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "nodes.py").write_text("def up(output):\n    return output + 'x'\n")
    (tmp_path / "s.toml").write_text(
        'name = "s"\ncases = ["a"]\n[agent]\nkind = "graph"\nstart = "up"\nends = ["last"]\n'
        'edges = [["up", "up", "visit < 3"], ["up", "last"]]\n'
        '[agent.nodes]\nup = "nodes.py:up"\nlast = {kind = "agent", model = "scripted:echo"}\n'
    )
    results = run("s.toml", store="s.db", progress=False)
    assert results.trials[0].output == "axxx", results.failures
    made = graph(NODES, EDGES, start="plan", ends="finish")
    again = peira.spec.agents.read_kind(made.written()).made("graph")
    assert again.identity == made.identity


class TestSuite(AgentSuite):
    case = "go"

    @pytest.fixture
    def agent(self) -> Agent:
        return graph(NODES, EDGES, start="plan", ends="finish").made("g")

    @pytest.fixture
    def twin(self) -> Agent:
        return graph(NODES, EDGES, start="plan", ends="finish").made("g")
