"""`agent`: a model with tools, asked until it is done."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from peira.agents.command.placeholders import CASE, filled, names_in, values_of
from peira.agents.loop.tool_calls import ToolOutcome, execute_calls, numbered
from peira.agents.loop.toolbox import Toolbox, joined_fingerprint, read_toolbox
from peira.core.ask import ask
from peira.core.chat.messages import read_messages
from peira.core.chat.tools import Tool, Toolset, tool_schema
from peira.core.chat.transcript import as_text
from peira.core.code.fingerprint import Fingerprint, fingerprint
from peira.core.code.signature import wants
from peira.core.context import SeenCase, Trial, current_trial
from peira.core.ids import Json, normalise
from peira.core.models import Reply, ToolCall, output_of
from peira.core.people.questions import question_of, value_of
from peira.core.registry import Registry, nearest
from peira.errors import Exhausted, Invalid
from peira.spec.modules import is_reference, reference, resolve_reference

KIND = "agent"
PEOPLE = "people"
MODEL, TOOLS = "model", "tools"
"""Factors that an agent takes if its own option leaves them open."""
GO_ON = "Go on. Call the tool `{tool}` when you are done."
"""What a model is told that stops before it has called the tool with which it is to end."""
CONTINUE = "Go on."


@dataclass(frozen=True, eq=False)
class ToolLoop:
    """An agent that is a model with tools; see `agent`. A study takes it as its agent, and other agents may
    call it: `bot("Find the file")` gives its reply."""

    model: str | None
    toolsets: Mapping[str, Toolbox]
    """The tools; by the levels of the factor `tools` if there is a choice, otherwise under ""."""
    system: str | None = None
    prompt: str = "{input}"
    most: int = 20
    until: Any = None
    approve: Any = None
    tokens: int | None = None
    money: float | None = None
    parameters: Mapping[str, Json] = field(default_factory=dict)
    label: str = KIND
    version: str | None = None
    kind = KIND
    asynchronous = False

    # As an agent

    @property
    def takes(self) -> frozenset[str]:
        """The factors in its texts, `model` if none is given, and `tools` if there are several sets."""
        texts = [text for text in (self.model, self.system, self.prompt) if text]
        open_names = {MODEL} if self.model is None else set()
        open_names |= set() if "" in self.toolsets else {TOOLS}
        return (names_in(texts) - {*CASE}) | open_names

    @property
    def requires(self) -> frozenset[str]:
        """It needs all the factors that it takes."""
        return self.takes

    @property
    def models(self) -> tuple[str, ...]:
        """The model that it calls, if that is known without a trial."""
        return (self.model,) if self.model and "{" not in self.model else ()

    @property
    def starts_processes(self) -> bool:
        """Whether its tools start processes: a sandbox, a server."""
        return any(isinstance(item, Toolset) for item in self._items())

    def _items(self) -> Iterator[Tool | Toolset]:
        return (item for box in self.toolsets.values() for item in box.items)

    def check(self) -> None:
        """Raise Invalid if its tools cannot work on this machine: no sandbox, no package."""
        problems: list[str] = []
        for item in self._items():
            try:
                if (check := getattr(item, "check", None)) is not None:
                    check()
            except Invalid as error:
                problems += error.problems
        if problems:
            raise Invalid(dict.fromkeys(problems))

    @cached_property
    def fingerprint(self) -> Fingerprint:
        """The code of its tools, of `until` and of `approve`."""
        return joined_fingerprint(
            [*self._items(), *(_Code(fn) for fn in (self.until, self.approve) if callable(fn))]
        )

    @cached_property
    def identity(self) -> Json:
        """Everything that can change what it does; a version stands for the code of its tools."""
        tools: Json = {name: box.identity for name, box in sorted(self.toolsets.items())}
        if self.version is not None:
            tools = {"version": self.version}
        return {
            "agent": KIND,
            "label": self.label,
            "model": self.model,
            "tools": tools,
            "system": self.system,
            "prompt": self.prompt,
            "most": self.most,
            "until": _identity(self.until),
            "approve": _identity(self.approve),
            "limits": [self.tokens, self.money],
            "parameters": normalise(dict(self.parameters), "parameters"),
        }

    def made(self, label: str, version: str | None = None) -> ToolLoop:
        """The same under a label of a study."""
        return replace(self, label=label, version=version)

    def written(self, base: Path | None = None) -> dict[str, Json] | None:
        """The table that a study file has for it; None if code in it has no name in a file."""
        boxes = {name: box.written(base) for name, box in self.toolsets.items()}
        until = reference(self.until, base) if callable(self.until) else self.until
        approve = reference(self.approve, base) if callable(self.approve) else self.approve
        unnamed = (self.until is not None and until is None) or (self.approve is not None and approve is None)
        if unnamed or any(box is None for box in boxes.values()):
            return None
        tools: Json = boxes.get("", boxes)
        plain = {
            f.name: getattr(self, f.name)
            for f in fields(self)
            if f.name in PLAIN and f.default != getattr(self, f.name)
        }
        more = {
            "tools": tools,
            "until": until,
            "approve": list(approve) if isinstance(approve, tuple) else approve,
        }
        options = {**plain, **more, **dict(self.parameters)}
        return {
            "kind": KIND,
            **{name: value for name, value in options.items() if value not in (None, [], {})},
        }

    def invoke(self, trial: Trial) -> Any:
        """Work on the trial; the text of the last reply, or what `until` ended with."""
        values = values_of(trial)
        return output_of(self.run(trial, self.opening(values), values)[0])

    def __call__(self, prompt: Any = None, /, **values: Any) -> Any:
        """Use it inside another agent: with a prompt, messages or a case; factors of its own by name."""
        trial = current_trial()
        known = {**values_of(trial), **values}
        if isinstance(prompt, SeenCase):
            known["input"] = prompt.input
        elif prompt is not None:
            known["input"] = prompt
        return self.run(trial, self.opening(known), known)[0]

    def opening(self, values: Mapping[str, Json]) -> list[dict[str, Json]]:
        """The messages to begin with: the prompt, or the input itself if that consists of messages."""
        given: Any = values["input"]
        given = given.get("messages", given) if isinstance(given, Mapping) else given
        if self.prompt == "{input}" and _are_messages(given):
            return read_messages(given)
        return [{"role": "user", "content": filled(self.prompt, values)}]

    # The loop

    def run(
        self, trial: Trial, messages: Sequence[Any], values: Mapping[str, Json]
    ) -> tuple[Any, list[dict[str, Json]]]:
        """Ask until it is done; the output, and the messages with all that was added.

        Raises Exhausted if `most` replies, its tokens or its money did not suffice.
        """
        tools = self._toolbox(values).tools(trial)
        loop = _Loop(self, trial, tools, list(read_messages(messages)), values)
        try:
            output = loop.run()
        except (Exception, Exhausted):
            loop.report()
            raise
        loop.report()
        return output, loop.messages

    def _toolbox(self, values: Mapping[str, Json]) -> Toolbox:
        """The tools of this trial."""
        if "" in self.toolsets:
            return self.toolsets[""]
        chosen = as_text(values.get(TOOLS))
        if chosen not in self.toolsets:
            raise Invalid(f"tools: the agent has no tool set {chosen!r}; it has {', '.join(self.toolsets)}")
        return self.toolsets[chosen]


PLAIN = ("model", "system", "prompt", "most", "tokens", "money")
"""The options of an agent that are written as they are."""


class _Loop:
    """One run of a tool loop."""

    def __init__(
        self,
        agent: ToolLoop,
        trial: Trial,
        tools: Mapping[str, Tool],
        messages: list[dict[str, Json]],
        values: Mapping[str, Json],
    ) -> None:
        self.agent, self.trial, self.tools, self.messages = agent, trial, tools, messages
        self.model = filled(agent.model or "{model}", values)
        self.system = None if agent.system is None else filled(agent.system, values)
        self.schemas = [tool_schema(tool) for tool in tools.values()]
        self.turns = self.errors = self.tokens = 0
        self.money = 0.0

    def run(self) -> Any:
        """The output of the loop."""
        while True:
            self._check_limits()
            reply = ask(
                self.model, self.messages, system=self.system, tools=self.schemas, **self.agent.parameters
            )
            self.turns += 1
            self.tokens += reply.usage.total
            self.money += reply.cost or 0.0
            calls = numbered(reply, self.turns)
            said = reply.message
            self.messages.append({**said, "tool_calls": [dict(call) for call in calls]} if calls else said)
            outcomes = (
                execute_calls(self.trial, self.tools, reply.call, calls, self._approval()) if calls else []
            )
            self.errors += sum(outcome.error for outcome in outcomes)
            self.messages += [outcome.message for outcome in outcomes]
            over, output = self._over(reply, outcomes)
            if over:
                return output
            if not calls:
                tool = self.agent.until
                told = GO_ON.format(tool=tool) if isinstance(tool, str) else CONTINUE
                self.messages.append({"role": "user", "content": told})

    def _check_limits(self) -> None:
        """Raise Exhausted if a limit of the agent is reached."""
        agent = self.agent
        if self.turns >= agent.most:
            raise Exhausted(f"agent: not done after {self.turns} replies (most = {agent.most})")
        if agent.tokens is not None and self.tokens >= agent.tokens:
            raise Exhausted(f"agent: {self.tokens:,} tokens used (tokens = {agent.tokens:,})")
        if agent.money is not None and self.money >= agent.money:
            raise Exhausted(f"agent: ${self.money:.4g} spent (money = {agent.money:g})")

    def _over(self, reply: Reply, outcomes: Sequence[ToolOutcome]) -> tuple[bool, Any]:
        """Whether the loop is over, and with which output."""
        until = self.agent.until
        if until is None:
            return not reply.tool_calls, reply
        if isinstance(until, str):
            done = [one.result for one in outcomes if one.call.name == until and not one.error]
            return bool(done), done[-1] if done else None
        facts = {
            "reply": reply,
            "messages": list(self.messages),
            "results": {one.call.name: one.result for one in outcomes},
            "turn": self.turns,
        }
        wanted = wants(until)
        given = facts if wanted.anything else {name: facts[name] for name in facts if name in wanted.names}
        return bool(until(**given)), reply

    def report(self) -> None:
        """Add what was counted to the metrics of the trial, which may run several loops."""
        self.trial.counts.update(turns=self.turns, tool_errors=self.errors)
        self.trial.report(**{name: self.trial.counts[name] for name in ("turns", "tool_errors")})

    # Approval

    def _approval(self) -> Callable[[Sequence[ToolCall]], Sequence[str]] | None:
        """What decides whether tool calls may be executed; None if all may."""
        approve = self.agent.approve
        if approve is None:
            return None
        return self._by_function if callable(approve) else self._by_people

    def _by_function(self, calls: Sequence[ToolCall]) -> list[str]:
        """Ask the user's function: True allows a call; False, or a text, refuses it."""
        found = []
        for call in calls:
            said = self.agent.approve(call.name, call.arguments)
            found.append(
                "" if said is True else said if isinstance(said, str) and said else "it is not allowed"
            )
        return found

    def _by_people(self, calls: Sequence[ToolCall]) -> list[str]:
        """Ask people about all calls that need it, at once."""
        approve = self.agent.approve
        asked = {n: call for n, call in enumerate(calls) if approve == PEOPLE or call.name in approve}
        questions = {
            n: question_of(
                f"May the agent call {call.name}?",
                show={"tool": call.name, "arguments": call.arguments},
                options=["allow", "refuse"],
                key=f"approve {self.turns}.{n} {call.name}",
            )
            for n, call in asked.items()
        }
        if not questions:
            return [""] * len(calls)
        answers = self.trial.channel.consult(list(questions.values()))
        said = {
            n: value_of(answer, question)
            for (n, question), answer in zip(questions.items(), answers, strict=True)
        }
        return [
            "" if said.get(n, "allow") == "allow" else "a person refused this call" for n in range(len(calls))
        ]


class _Code:
    """Something with a fingerprint: that of a function."""

    def __init__(self, fn: Callable[..., Any]) -> None:
        self.fingerprint = fingerprint(fn)


def _identity(given: Any) -> Json:
    """A function by its code, anything else as it is."""
    if callable(given):
        return {"code": fingerprint(given).digest}
    return list(given) if isinstance(given, tuple) else given


def _are_messages(given: Any) -> bool:
    return (
        isinstance(given, list) and bool(given) and all(isinstance(m, Mapping) and "role" in m for m in given)
    )


def agent(
    model: str | None = None,
    tools: Any = (),
    *,
    system: str | None = None,
    prompt: str = "{input}",
    most: int = 20,
    until: Any = None,
    approve: Any = None,
    tokens: int | None = None,
    money: float | None = None,
    **parameters: Any,
) -> ToolLoop:
    """A model with tools, asked until it is done: `study(agent=agent("openai:gpt-5", tools=[search]), ...)`.

    `tools` are typed Python functions, `shell()`, `python()`, `files()`, `mcp(...)`; a table of such lists,
    by name, is chosen from by the factor `tools`. Without a `model`, the factor `model` is it. `system`,
    `prompt` and `model` may contain {input}, {id}, {metadata.x} and factors; an input that is a list of
    messages is taken as the beginning of the conversation.

    Every tool call is a recorded step: a resumed trial repeats none. Calls of one reply are executed together
    and recorded in order. A tool that fails, or does not take its arguments, is told to the model, and
    counted (`tool_errors`). It is over when a reply calls no tool; with `until`, when the tool of that name
    has been called (its result is the output), or when the function `until`, of any of reply, messages,
    results and turn, says so. After `most` replies, or when the trial has used so many `tokens` or so much
    `money`, the trial is exhausted, which is no success.

    `approve="people"` asks a person before each tool call, a list of names before those of these tools; a
    function of a tool's name and arguments may decide as well. Other `parameters` are given to the model.
    """
    problems = []
    given_model: Any = model
    if given_model is not None and not isinstance(given_model, str):
        problems.append(f"model: must be the name of a model, not {model!r}")
    if type(most) is not int or most < 1:
        problems.append(f"most: must be a whole number of at least 1, not {most!r}")
    if tokens is not None and (type(tokens) is not int or tokens < 1):
        problems.append(f"tokens: must be a whole number of at least 1, not {tokens!r}")
    if money is not None and not money > 0:
        problems.append(f"money: must be more than 0, not {money!r}")
    boxes: dict[str, Toolbox] = {}
    named = isinstance(tools, Mapping) and "name" not in tools
    for name, given in tools.items() if named else (("", tools),):
        try:
            boxes[str(name)] = read_toolbox(given, f"tools.{name}" if name else "tools")
        except Invalid as error:
            problems += error.problems
    until, wrong = _code(until, "until")
    problems += wrong
    approve, wrong = _code(approve, "approve")
    problems += wrong
    problems += _until_problems(until, boxes) if boxes else []
    if isinstance(approve, list | tuple) and all(isinstance(name, str) for name in approve):
        approve = tuple(approve)
        problems += _unknown_tools(approve, boxes)
    elif approve is not None and approve != PEOPLE and not callable(approve):
        problems.append(f'approve: must be "people", a list of tools or a function, not {approve!r}')
    if problems:
        raise Invalid(problems)
    return ToolLoop(
        model, boxes, system, prompt, most, until, approve, tokens, money, normalise(parameters, "parameters")
    )


def _code(given: Any, name: str) -> tuple[Any, list[str]]:
    """A function that "file.py:name" names, or the value itself; and what is wrong with it."""
    if isinstance(given, str) and is_reference(given):
        try:
            return resolve_reference(given, Path()), []
        except Invalid as error:
            return None, [f"{name}: {problem}" for problem in error.problems]
    return given, []


def _until_problems(until: Any, boxes: Mapping[str, Toolbox]) -> list[str]:
    """What is wrong with `until`: it names no tool, as far as the tools are known yet."""
    if until is None or callable(until):
        return []
    if not isinstance(until, str):
        return [f"until: must be the name of a tool or a function, not {until!r}"]
    for name, box in boxes.items():
        known = [item.name for item in box.items if isinstance(item, Tool)]
        if len(known) == len(box.items) and until not in known:
            where = f" in the tool set {name!r}" if name else ""
            return [f"until: there is no tool {until!r}{where}"]
    return []


def _unknown_tools(names: Sequence[str], boxes: Mapping[str, Toolbox]) -> list[str]:
    """Names of no tool, as far as the tools are known yet."""
    items = [item for box in boxes.values() for item in box.items]
    known = {item.name for item in items if isinstance(item, Tool)}
    if len([item for item in items if isinstance(item, Tool)]) < len(items):
        return []
    return [
        f"approve: there is no tool {name!r}{nearest(name, known)}" for name in names if name not in known
    ]


def _made(label: str, version: str | None = None, **options: Any) -> ToolLoop:
    """A model with tools, asked until it is done."""
    return agent(**options).made(label, version)


def register(registry: Registry) -> None:
    """Register the kind of agent."""
    registry.add("agent", KIND, _made)
