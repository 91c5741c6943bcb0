"""Tool loops: steps, parallel calls, errors, limits, approval, and what a study sees of them."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

import peira
from peira import Reply, agent, ask, current_trial, run, study
from peira.agents.loop.agent import ToolLoop
from peira.core.context import SeenCase, Trial, enter
from peira.core.contracts import Agent
from peira.core.models import ToolCall, Usage
from peira.errors import Exhausted, Invalid, ToolRefused
from peira.testing import AgentSuite, MemoryChannel

done: list[Any] = []


def add(a: int, b: int) -> int:
    """Add two numbers."""
    done.append(("add", a, b))
    return a + b


def fail(why: str) -> str:
    """Fail."""
    raise ValueError(why)


def submit(answer: str) -> str:
    """Give the final answer."""
    return answer.upper()


@pytest.fixture(autouse=True)
def _fresh() -> None:
    done.clear()


def calls(*made: tuple[str, Any], text: str = "", ids: bool = True) -> Reply:
    found = tuple(ToolCall(f"id{n}" if ids else "", name, given) for n, (name, given) in enumerate(made))
    return Reply(text, tool_calls=found, call=f"call {text}", usage=Usage(5, 5), cost=0.01)


def trial(channel: MemoryChannel, **condition: Any) -> Trial:
    case = SeenCase("What is 1 + 2?", "c1")
    return Trial(
        id="ab" * 32, case=case, condition=condition, repeat=0, attempt=1, agent="x", channel=channel
    )


def worked(
    bot: ToolLoop, replies: Sequence[Reply], steps: Any = None, **condition: Any
) -> tuple[Any, MemoryChannel]:
    channel = MemoryChannel(steps, replies)
    made = trial(channel, **condition)
    enter(made)
    try:
        return bot.invoke(made), channel
    finally:
        enter(None)
        made.finish()


def test_the_model_gets_results_until_it_calls_no_tool() -> None:
    bot = agent("m", tools=[add], system="Help with {id}.", temperature=0)
    output, channel = worked(bot, [calls(("add", {"a": 1, "b": 2})), Reply("It is 3.")])
    assert output == "It is 3."
    (model, first, _), (_, second, _) = channel.asked
    assert (model, first.system, first.parameters) == ("m", "Help with c1.", {"temperature": 0})
    assert [tool["name"] for tool in first.tools] == ["add"]
    assert first.messages == ({"role": "user", "content": "What is 1 + 2?"},)
    assert second.messages[1:] == (
        {
            "role": "assistant",
            "content": "",
            "tool_calls": [{"id": "id0", "name": "add", "arguments": {"a": 1, "b": 2}}],
        },
        {"role": "tool", "id": "id0", "content": "3"},
    )
    assert channel.metrics == {"turns": 2, "tool_errors": 0}


def test_errors_go_to_the_model_and_are_counted() -> None:
    wrong = calls(("fail", {"why": "no"}), ("add", {"a": "1"}), ("ad", {}), ("add", "x"))
    output, channel = worked(agent("m", tools=[add, fail]), [wrong, Reply("sorry")])
    assert output == "sorry"
    told = [m for m in channel.asked[1][1].messages if m["role"] == "tool"]
    assert all(message["error"] for message in told)
    texts = [message["content"] for message in told]
    assert texts[0] == "ValueError: no"
    assert "a: Input should be a valid integer; b: Field required" in texts[1]
    assert "did you mean 'add'" in texts[2]
    assert "must be a JSON object" in texts[3]
    assert channel.metrics["tool_errors"] == 4
    assert done == []


def test_a_recorded_call_is_not_executed_again() -> None:
    replies = [calls(("add", {"a": 1, "b": 2}), ("add", {"a": 1, "b": 2})), Reply("3")]
    bot = agent("m", tools=[add])
    _, first = worked(bot, replies)
    assert len(done) == len(first.steps) == 2
    _, again = worked(bot, replies, first.steps)
    assert len(done) == 2
    assert again.asked == first.asked
    _, half = worked(bot, replies, dict(list(first.steps.items())[:1]))
    assert len(done) == 3
    assert half.asked == first.asked


def test_calls_of_one_reply_run_together_and_are_recorded_in_order() -> None:
    both = threading.Barrier(3, timeout=20)

    def wait(n: int) -> int:
        """Wait for the others."""
        both.wait()
        return n

    reply = calls(*(("wait", {"n": n}) for n in range(3)))
    _, channel = worked(agent("m", tools=[wait]), [reply, Reply("done")])
    told = [m["content"] for m in channel.asked[1][1].messages if m["role"] == "tool"]
    assert told == ["0", "1", "2"]
    assert [value.count(b'"result"') for value in channel.steps.values()] == [1, 1, 1]
    assert [int(value.split(b'"n":')[1][:1]) for value in channel.steps.values()] == [0, 1, 2]


def test_calls_without_ids_get_some() -> None:
    reply = calls(("add", {"a": 1, "b": 2}), ("add", {"a": 2, "b": 2}), ids=False)
    _, channel = worked(agent("m", tools=[add]), [reply, Reply("done")])
    told = {m["id"]: m["content"] for m in channel.asked[1][1].messages if m["role"] == "tool"}
    assert sorted(told.values()) == ["3", "4"]


def test_most_replies_and_then_it_is_exhausted() -> None:
    again = calls(("add", {"a": 1, "b": 2}))
    with pytest.raises(Exhausted, match=r"not done after 3 replies \(most = 3\)"):
        worked(agent("m", tools=[add], most=3), [again] * 9)
    with pytest.raises(Exhausted, match="20 tokens used"):
        worked(agent("m", tools=[add], tokens=15), [again] * 9)
    with pytest.raises(Exhausted, match="spent"):
        worked(agent("m", tools=[add], money=0.02), [again] * 9)
    assert worked(agent("m", tools=[add], most=2), [again, Reply("ok")])[0] == "ok"


def test_until_a_tool_was_called_or_a_function_says_so() -> None:
    bot = agent("m", tools=[add, submit], until="submit")
    output, channel = worked(bot, [Reply("I think it is 3."), calls(("submit", {"answer": "three"}))])
    assert output == "THREE"
    assert "`submit`" in channel.asked[1][1].messages[-1]["content"]
    bot = agent("m", until=lambda reply, turn: "3" in reply.text or turn > 8)
    output, channel = worked(bot, [Reply("one"), Reply("3")])
    assert (output, len(channel.asked)) == ("3", 2)


def test_a_function_approves_calls() -> None:
    def careful(name: str, arguments: Any) -> bool | str:
        return True if arguments.get("a") == 1 else "only one is added here"

    bot = agent("m", tools=[add], approve=careful)
    _, channel = worked(bot, [calls(("add", {"a": 1, "b": 2}), ("add", {"a": 2, "b": 2})), Reply("ok")])
    told = [(m["content"], m.get("error")) for m in channel.asked[1][1].messages if m["role"] == "tool"]
    assert told == [("3", None), ("only one is added here", True)]


def test_factors_choose_the_model_the_tools_and_words_of_texts() -> None:
    bot = agent(tools={"none": [], "sums": [add]}, system="Be {style}.", prompt="Solve: {input}")
    assert bot.takes == bot.requires == {"model", "tools", "style"}
    _, channel = worked(bot, [Reply("x")], model="m2", tools="none", style="brief")
    ((model, request, _),) = channel.asked
    assert (model, request.system, request.tools) == ("m2", "Be brief.", ())
    assert request.messages[0]["content"] == "Solve: What is 1 + 2?"
    _, channel = worked(bot, [Reply("x")], model="m2", tools="sums", style="brief")
    assert len(channel.asked[0][1].tools) == 1


def test_what_is_wrong_is_said_at_once_when_it_is_declared() -> None:
    with pytest.raises(Invalid) as wrong:
        agent("m", tools=[add, add, 3, "shel"], most=0, until="submit", approve="nobody", money=-1)
    said = str(wrong.value)
    for part in (
        "tools[2]",
        "tools[3]: no tool 'shel'",
        "did you mean 'shell'",
        "most:",
        "money:",
        "approve:",
    ):
        assert part in said
    with pytest.raises(Invalid, match="two of them are called 'add'"):
        agent("m", tools=[add, add])
    with pytest.raises(Invalid, match="no tool 'submit'"):
        agent("m", tools=[add], until="submit")


def test_tools_may_ask_models_and_other_agents() -> None:
    inner = agent("inner", tools=[add])

    def expert(question: str) -> str:
        """Ask an expert."""
        return inner(question).text + ask("small", "why?").text

    replies = [
        calls(("expert", {"question": "1+2"})),
        calls(("add", {"a": 1, "b": 2})),
        Reply("3"),
        Reply("!"),
        Reply("ok"),
    ]
    bot = agent("outer", tools=[expert])
    output, first = worked(bot, replies)
    assert output == "ok"
    assert [model for model, _, _ in first.asked] == ["outer", "inner", "inner", "small", "outer"]
    assert first.asked[-1][1].messages[-1]["content"] == "3!"
    # resumed after the outer call was recorded: nothing inside it is asked again
    _, again = worked(bot, [replies[0], replies[-1]], first.steps)
    assert [model for model, _, _ in again.asked] == ["outer", "outer"]


def test_a_study_takes_it_and_others_call_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    made = study(name="sums", agent=agent("scripted:echo", tools=[add]), cases=["hello"])
    results = run(made, store="s.db", progress=False)
    assert results.trials[0].output == "hello"
    assert results.trials[0].metrics["turns"] == 1

    bot = agent("scripted:echo", tools=[add])

    def uses(case: Any) -> str:
        return f"{bot(case)} {bot('again')} {current_trial().counts['turns']}"

    results = run(study(uses, cases=["hello"]), store="s.db", progress=False)
    assert results.trials[0].output == "hello again 2"


def test_a_file_names_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "tools.py").write_text('def add(a: int, b: int) -> int:\n    """Add."""\n    return a + b\n')
    (tmp_path / "s.toml").write_text(
        'name = "s"\ncases = ["hello"]\n[agent]\nkind = "agent"\nmodel = "scripted:echo"\n'
        'tools = ["tools.py:add", "files"]\nmost = 4\n'
    )
    results = run("s.toml", store="s.db", progress=False)
    assert results.trials[0].output == "hello"
    again = run(results.run_id, store="s.db", progress=False)
    assert again.trials[0].reused
    elsewhere = run("s.toml", store="other.db", runner="process", progress=False)
    assert elsewhere.trials[0].output == "hello", elsewhere.failures


def test_written_and_read_again_it_is_the_same() -> None:
    bot = agent("m", tools=[add, "files"], system="x", most=7, until=None, tokens=9, temperature=0.5)
    again = peira.spec.agents.read_kind(bot.written()).made("agent")
    assert again.identity == bot.identity


def test_its_identity_has_everything_that_changes_what_it_does() -> None:
    one = agent("m", tools=[add]).identity
    assert agent("m", tools=[add]).identity == one
    others = [
        agent("n", tools=[add]),
        agent("m"),
        agent("m", tools=[add], most=3),
        agent("m", tools=[add], system="x"),
        agent("m", tools=[add], temperature=1),
    ]
    assert all(other.identity != one for other in others)


class TestSuite(AgentSuite):
    @pytest.fixture
    def agent(self) -> Agent:
        return peira.agent("m", tools=[add]).made("bot")

    @pytest.fixture
    def twin(self) -> Agent:
        return peira.agent("m", tools=[add]).made("bot")

    def trial(self, name: str = "trial", channel: MemoryChannel | None = None) -> Trial:
        def reply(request: Any) -> Reply:
            asks = request.messages[-1]["role"] == "user"
            return calls(("add", {"a": 1, "b": 2})) if asks else Reply("It is 3.")

        return super().trial(name, channel or MemoryChannel(replies=reply))


def test_a_refusal_is_no_failure_of_the_trial() -> None:
    def refuses(n: int) -> int:
        """Refuse."""
        raise ToolRefused("not today")

    _, channel = worked(agent("m", tools=[refuses]), [calls(("refuses", {"n": 1})), Reply("ok")])
    assert channel.asked[1][1].messages[-1]["content"] == "not today"
