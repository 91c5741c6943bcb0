"""Conversations: scripts, simulated users, functions; how they end, and what the user costs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

import peira
from peira import Reply, agent, ask, conversation, run, script, simulated, study
from peira.core.chat.transcript import Transcript
from peira.core.context import SeenCase, Trial, enter
from peira.core.contracts import Agent
from peira.core.models import Request
from peira.errors import Invalid
from peira.testing import AgentSuite, MemoryChannel


def held(
    made: Any, replies: Sequence[Reply] | Callable[[Request], Reply], steps: Any = None, **condition: Any
) -> tuple[dict[str, Any], MemoryChannel]:
    channel = MemoryChannel(steps, replies)
    case = SeenCase("a refund", "c", metadata={"name": "Ann"})
    trial = Trial(
        id="cd" * 32, case=case, condition=condition, repeat=0, attempt=1, agent="x", channel=channel
    )
    enter(trial)
    try:
        return made.invoke(trial), channel
    finally:
        enter(None)
        trial.finish()


def texts(output: dict[str, Any]) -> list[str]:
    return [message["content"] for message in output["messages"]]


def test_a_script_of_fixed_and_chained_turns() -> None:
    made = conversation(
        "m", script(["I want {input}", "You said: {reply}", "first: {replies.0}"]), system="Be kind."
    )
    output, channel = held(made, [Reply("one"), Reply("two"), Reply("three")])
    assert texts(output) == ["I want a refund", "one", "You said: one", "two", "first: one", "three"]
    assert (output["ended"], output["turns"], output["reply"]) == ("script", 3, "three")
    assert channel.asked[0][1].system == "Be kind."
    assert channel.accounts == ["", "", ""]


def test_turns_are_conditional_repeated_and_dynamic() -> None:
    def polite(reply: str, turn: int) -> str | None:
        return None if "bye" in reply else f"turn {turn}: thanks for {reply}"

    made = conversation(
        "m",
        script(
            [
                "hello",
                {"say": "how much?", "when": "'price' not in reply"},
                {"say": "never", "when": "'price' in reply and turn > 99"},
                {"say": "again", "repeat": 5, "until": "'stop' in reply"},
                polite,
                polite,
            ]
        ),
        turns=20,
    )
    replies = ["hi", "the price is 3", "no", "please stop", "bye"]
    output, _ = held(made, [Reply(text) for text in replies])
    assert texts(output)[::2] == ["hello", "how much?", "again", "again", "turn 5: thanks for please stop"]
    assert output["ended"] == "script"


def test_until_and_the_limit() -> None:
    made = conversation("m", script([{"say": "go on", "repeat": 99}]), turns=3)
    assert held(made, [Reply("x")] * 9)[0]["ended"] == "limit"
    made = conversation("m", script([{"say": "go on", "repeat": 99}]), until="'yes' in reply or turn > 90")
    output, _ = held(made, [Reply("no"), Reply("yes!")])
    assert (output["ended"], output["turns"]) == ("goal", 2)
    made = conversation("m", lambda turn: "hi", until=lambda replies: len(replies) == 2)
    assert held(made, [Reply("x")] * 9)[0]["ended"] == "goal"


def test_a_simulated_user_talks_until_its_goal_and_is_accounted_apart() -> None:
    user = simulated("u", persona="{metadata.name}, who is in a hurry", goal="get {input}", temperature=1)
    made = conversation("m", user)

    def reply(request: Request) -> Reply:
        if "You play the user" in (request.system or ""):
            return Reply("[DONE]" if len(request.messages) > 2 else "I want a refund!")
        return Reply("Here it is.")

    output, channel = held(made, reply)
    assert texts(output) == ["I want a refund!", "Here it is."]
    assert (output["ended"], output["turns"]) == ("goal", 1)
    assert channel.accounts == ["user", "", "user"]
    asked = channel.asked[2][1]
    assert "Ann, who is in a hurry" in asked.system
    assert "get a refund" in asked.system
    assert [message["role"] for message in asked.messages] == ["user", "assistant", "user"]
    assert asked.parameters == {"temperature": 1}


def test_a_tool_loop_as_subject_keeps_its_tool_calls() -> None:
    def look(word: str) -> str:
        """Look up."""
        return word.upper()

    calls = Reply("", tool_calls=({"id": "1", "name": "look", "arguments": {"word": "ann"}},))  # type: ignore[arg-type]
    made = conversation(agent("m", tools=[look]), script(["who?", "sure?"]))
    output, channel = held(made, [calls, Reply("ANN"), Reply("yes")])
    assert [message["role"] for message in output["messages"]] == [
        "user",
        "assistant",
        "tool",
        "assistant",
        "user",
        "assistant",
    ]
    assert len(channel.asked[2][1].messages) == 5


def test_functions_as_subject_and_user_with_their_calls_recorded_once() -> None:
    said: list[int] = []

    def user(turn: int, reply: str) -> str | None:
        said.append(turn)
        return ask("u", f"what next after {reply}?").text if turn < 3 else None

    def subject(messages: list[Any], message: str, style: str) -> str:
        return ask("m", messages, system=style).text

    made = conversation(subject, user)
    assert made.takes == {"style"}
    output, channel = held(made, [Reply("q1"), Reply("a1"), Reply("q2"), Reply("a2")], style="brief")
    assert texts(output) == ["q1", "a1", "q2", "a2"]
    assert output["ended"] == "goal"
    assert channel.accounts == ["user", "", "user", ""]
    assert said == [1, 2, 3]
    again, channel = held(made, [Reply("a1"), Reply("a2")], channel.steps, style="brief")
    assert again == output
    assert said == [1, 2, 3], "the user's recorded turns are not made again"


def test_what_is_wrong_is_said_at_once() -> None:
    with pytest.raises(Invalid) as wrong:
        conversation(
            3, script(["a", {"say": 3, "wen": "x", "repeat": 0}, {"say": "x", "when": "a ="}]), turns=0
        )
    assert "script[1]: no 'wen'" in str(wrong.value)
    assert "script[2]: when" in str(wrong.value)
    with pytest.raises(Invalid) as wrong:
        conversation(3, 4, turns=0, until="a =")
    assert len(wrong.value.problems) == 4


def whole(transcript: Transcript, output: Any) -> dict[str, float]:
    mine = [m for m in transcript.messages if m.role == "assistant"]
    theirs = [e for e in transcript.entries if getattr(e, "account", "") == "user"]
    return {"replies": len(mine), "user": len(theirs), "turns": output["turns"]}


def test_in_a_study_the_users_cost_is_apart_and_evaluators_see_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "peira.toml").write_text(
        '[models.subject]\nmodel = "scripted:echo"\nprice = {input = 0, output = 1000}\n'
        '[models.user]\nmodel = "scripted:user"\nprice = {input = 0, output = 500000}\n'
    )
    made = study(
        name="talk",
        agent=conversation("subject", simulated("user", opening="Hello there {input}"), turns=2),
        cases=["friend"],
        evaluators=[whole],
    )
    results = run(made, store="s.db", progress=False)
    (trial,) = results.trials
    assert trial.output["ended"] == "limit"
    assert trial.metrics["calls"] == 2
    assert trial.metrics["user_calls"] == 1
    assert trial.cost == pytest.approx(trial.metrics["cost"])
    assert trial.metrics["user_cost"] > trial.cost > 0
    scores = trial.scores["whole"].value
    assert scores["replies"] == 2
    assert scores["turns"] == 2
    assert scores["user"] >= 2
    assert "the user's model" in str(results.transcript(trial))


def test_a_file_names_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "s.toml").write_text(
        'name = "s"\ncases = ["hello"]\n[agent]\nkind = "conversation"\nsubject = "scripted:echo"\n'
        'user = {script = ["{input}", {say = "more", when = "turn == 2"}]}\n'
    )
    results = run("s.toml", store="s.db", progress=False)
    assert texts(results.trials[0].output) == ["hello", "hello", "more", "more"]
    made = conversation("m", simulated("u", persona="p"), turns=3, until="turn > 2", system="s")
    again = peira.spec.agents.read_kind(made.written()).made("conversation")
    assert again.identity == made.identity


class TestSuite(AgentSuite):
    @pytest.fixture
    def agent(self) -> Agent:
        return conversation("m", script(["one", {"say": "two {reply}", "repeat": 2}])).made("talk")

    @pytest.fixture
    def twin(self) -> Agent:
        return conversation("m", script(["one", {"say": "two {reply}", "repeat": 2}])).made("talk")

    def trial(self, name: str = "trial", channel: MemoryChannel | None = None) -> Trial:
        return super().trial(name, channel or MemoryChannel(replies=lambda request: Reply("yes")))
