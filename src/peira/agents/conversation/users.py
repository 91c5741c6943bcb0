"""Who talks with the subject of a conversation: a script, a model, a function or a person."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from peira.agents.command.placeholders import filled, values_of
from peira.core.ask import ask
from peira.core.chat.transcript import USER, as_text
from peira.core.code.fingerprint import Fingerprint, fingerprint
from peira.core.code.signature import wants
from peira.core.context import Trial, accounted_to, in_branch
from peira.core.contracts import Evaluator
from peira.core.expressions import Expression
from peira.core.ids import Json, normalise
from peira.core.models import output_of
from peira.core.people.questions import IS_RIGHT, question_of, value_of
from peira.core.registry import nearest
from peira.core.steps import recorded
from peira.errors import ExpressionError, Invalid
from peira.spec.modules import is_reference, reference, resolve_reference

GOAL, SCRIPT, LIMIT = "goal", "script", "limit"
"""How a conversation ends: its goal is reached, its script is over, or its turns are used up."""
DONE = "[done]"
"""What a simulated user says when its goal is reached."""
SAY = "What do you say next? (Write [done] when you are done.)"
"""What a person is asked who talks with the subject."""


@dataclass
class ConversationState:
    """A conversation so far: the messages, and the replies of its subject."""

    trial: Trial
    messages: list[dict[str, Json]] = field(default_factory=list)
    replies: list[str] = field(default_factory=list)
    said: list[str] = field(default_factory=list)

    @property
    def turn(self) -> int:
        """The number of the user's next turn, from 1."""
        return len(self.said) + 1

    def values(self) -> dict[str, Json]:
        """What texts and conditions may name."""
        return {
            **values_of(self.trial),
            "reply": self.replies[-1] if self.replies else "",
            "replies": list(self.replies),
            "said": self.said[-1] if self.said else "",
            "turn": self.turn,
            "messages": [dict(message) for message in self.messages],
        }

    def holds(self, condition: Expression) -> bool:
        """Whether a condition is true now."""
        values = self.values()
        try:
            return condition.evaluate({name: _looked_up(name, values) for name in condition.names})
        except ExpressionError as problem:
            raise Invalid(f"conversation: {problem}") from None

    def told(self, fn: Callable[..., Any]) -> dict[str, Any]:
        """The arguments that a function of the user gets, by name."""
        known = {**self.values(), "case": self.trial.case, "trial": self.trial}
        wanted = wants(fn)
        return known if wanted.anything else {name: known[name] for name in known if name in wanted.names}


def _looked_up(name: str, values: Mapping[str, Any]) -> Any:
    """The value of a dotted name; None if there is none such inside a value."""
    first, *rest = name.split(".")
    found: Any = values.get(first, None)
    for part in rest:
        found = found.get(part) if isinstance(found, Mapping) else None
    return found


# Users


class ConversationUser(Protocol):
    """Who talks with the subject: says the next thing, or how the conversation is over."""

    @property
    def identity(self) -> Json:
        """What it says, as far as that is known."""
        ...

    @property
    def texts(self) -> tuple[str, ...]:
        """Its texts, which may contain factors."""
        ...

    def written(self, base: Path | None) -> Json:
        """How a study file names it; None if it cannot."""
        ...

    def speak(self, state: ConversationState, memory: dict[str, Any]) -> tuple[str | None, str]:
        """What it says next, and otherwise None with how the conversation ended.

        `memory` is its own for the time of one conversation.
        """
        ...


@dataclass(frozen=True)
class ScriptedTurn:
    """A turn of a script: what is said, under which condition, how often, until what."""

    say: Any
    when: Expression | None = None
    repeat: int = 1
    until: Expression | None = None


@dataclass(frozen=True)
class ScriptedUser:
    """A user with a script: see `script`."""

    turns: tuple[ScriptedTurn, ...]

    @property
    def identity(self) -> Json:
        return ["script", *({**turn, "say": code_of(turn["say"])} for turn in self._plain())]

    @property
    def texts(self) -> tuple[str, ...]:
        return tuple(turn.say for turn in self.turns if isinstance(turn.say, str))

    def _plain(self) -> Iterator[dict[str, Any]]:
        """The turns as tables, without defaults."""
        for turn in self.turns:
            conditions = {"when": turn.when, "until": turn.until}
            found = {name: one.text for name, one in conditions.items() if one is not None}
            yield {"say": turn.say, **found, **({"repeat": turn.repeat} if turn.repeat != 1 else {})}

    def written(self, base: Path | None) -> Json:
        found: list[Json] = []
        for turn in self._plain():
            say = turn["say"] if isinstance(turn["say"], str) else reference(turn["say"], base)
            if say is None:
                return None
            found.append(say if turn.keys() == {"say"} else {**turn, "say": say})
        return {"script": found}

    def speak(self, state: ConversationState, memory: dict[str, Any]) -> tuple[str | None, str]:
        """The next turn whose condition holds."""
        number, times = memory.get("at", (0, 0))
        while number < len(self.turns):
            turn = self.turns[number]
            over = times >= turn.repeat or (times > 0 and turn.until is not None and state.holds(turn.until))
            if not over and (turn.when is None or state.holds(turn.when)):
                said = self._text(turn, state)
                memory["at"] = (number, times + 1)
                if said is not None:
                    return said, ""
                times += 1
                continue
            number, times = number + 1, 0
        memory["at"] = (number, 0)
        return None, SCRIPT

    def _text(self, turn: ScriptedTurn, state: ConversationState) -> str | None:
        """What a turn says; None if its function says nothing."""
        if isinstance(turn.say, str):
            return filled(turn.say, state.values())
        return _spoken(turn.say, state)


def _spoken(fn: Callable[..., Any], state: ConversationState) -> str | None:
    """What a function says, recorded as a step; None if it says nothing."""
    told = state.told(fn)
    plain = {name: value for name, value in told.items() if name not in ("case", "trial")}

    def compute() -> Json:
        found = output_of(fn(**told))
        return None if found is None else as_text(normalise(found, "what the user says"))

    name = f"user turn {state.turn}"
    with accounted_to(USER), in_branch(name):
        found: str | None = recorded(state.trial, name, fingerprint(fn).digest, plain, compute)
    return found


@dataclass(frozen=True)
class SimulatedUser:
    """A model that plays the user: see `simulated`."""

    model: str
    persona: str = ""
    goal: str = "{input}"
    opening: str | None = None
    parameters: Mapping[str, Json] = field(default_factory=dict)

    @property
    def identity(self) -> Json:
        return ["simulated", self.model, self.persona, self.goal, self.opening, dict(self.parameters)]

    @property
    def texts(self) -> tuple[str, ...]:
        return tuple(filter(None, (self.model, self.persona, self.goal, self.opening)))

    def written(self, base: Path | None) -> Json:
        given = {"model": self.model, "persona": self.persona, "goal": self.goal, "opening": self.opening}
        return {"simulated": {**{n: v for n, v in given.items() if v}, **dict(self.parameters)}}

    def speak(self, state: ConversationState, memory: dict[str, Any]) -> tuple[str | None, str]:
        """Ask the model what the user says; over when it says that its goal is reached."""
        values = state.values()
        if self.opening is not None and state.turn == 1:
            return filled(self.opening, values), ""
        system = _played(filled(self.persona, values), filled(self.goal, values))
        swapped = [
            {"role": "assistant" if message["role"] == "user" else "user", "content": message["content"]}
            for message in state.messages
            if message["role"] in ("user", "assistant") and message.get("content")
        ]
        begin = {"role": "user", "content": "(The conversation begins. Write your first message.)"}
        with accounted_to(USER), in_branch(f"user {state.turn}"):
            reply = ask(filled(self.model, values), [begin, *swapped], system=system, **self.parameters)
        text = reply.text.strip()
        if DONE in text.lower():
            return None, GOAL
        return text, ""


def _played(persona: str, goal: str) -> str:
    """The system prompt of a simulated user."""
    who = f"You are {persona}.\n" if persona else ""
    return (
        "You play the user in a conversation with an assistant. Write only the user's next message: short, "
        f"as people write, without quotation marks and never as the assistant.\n{who}Your goal: {goal}\n"
        f"When the goal is reached, or cannot be reached any more, write only {DONE}"
    )


@dataclass(frozen=True)
class FunctionUser:
    """A function that says what the user says; None ends the conversation, its goal reached."""

    fn: Callable[..., Any]
    texts: tuple[str, ...] = ()

    @property
    def fingerprint(self) -> Fingerprint:
        return fingerprint(self.fn)

    @property
    def identity(self) -> Json:
        return ["function", self.fingerprint.digest]

    def written(self, base: Path | None) -> Json:
        return reference(self.fn, base)

    def speak(self, state: ConversationState, memory: dict[str, Any]) -> tuple[str | None, str]:
        """Call the function."""
        said = _spoken(self.fn, state)
        return said, "" if said is not None else GOAL


@dataclass(frozen=True)
class PersonUser:
    """A person who says what the user says, asked by the inbox; an empty answer ends the conversation."""

    prompt: str = SAY
    to: str = ""
    within: float | None = None
    texts: tuple[str, ...] = ()

    @property
    def identity(self) -> Json:
        return ["person", self.prompt, self.to]

    def written(self, base: Path | None) -> Json:
        given: dict[str, Json] = {"prompt": self.prompt, "to": self.to, "within": self.within}
        usual = {"prompt": SAY, "to": "", "within": None}
        return {"person": {name: value for name, value in given.items() if value != usual[name]}}

    def speak(self, state: ConversationState, memory: dict[str, Any]) -> tuple[str | None, str]:
        """Ask a person what the user says next."""
        shown: Json = [dict(message) for message in state.messages] or state.trial.case.input
        question = question_of(
            self.prompt, show=shown, to=self.to, within=self.within, key=f"user turn {state.turn}"
        )
        [answer] = state.trial.channel.consult([question])
        said = str(value_of(answer, question)).strip()
        return (said, "") if said and said.lower() != DONE else (None, GOAL)


# The conversation


def code_of(given: Any) -> Json:
    """A function by its code, anything else as it is."""
    return {"code": fingerprint(given).digest} if callable(given) else given


# What users write


def script(turns: Sequence[Any]) -> ScriptedUser:
    """The user of a conversation, with a script: `script(["Hello", "And {input}?"])`.

    A turn is a text, a function, or a table {"say": text or function, "when": condition, "repeat": n,
    "until": condition}. Texts may contain {input}, {reply} (the last reply), {replies.0} and factors. A
    function of any of reply, replies, said, turn, input, messages, case says the text, or None to be silent.
    Conditions are safe expressions on the same names: "'price' in reply". A turn whose `when` does not hold
    is left out; one with `repeat` is said again, at most so often, until its `until` holds.
    """
    written: Any = turns
    if not isinstance(written, list | tuple) or not written:
        raise Invalid(f"script: must be a list of turns, not {turns!r}")
    made, problems = [], []
    for number, given in enumerate(turns):
        try:
            made.append(_turn(given))
        except Invalid as error:
            problems += [f"script[{number}]: {problem}" for problem in error.problems]
    if problems:
        raise Invalid(problems)
    return ScriptedUser(tuple(made))


def _turn(given: Any) -> ScriptedTurn:
    """A turn from what was written; Invalid with every problem."""
    table = dict(given) if isinstance(given, Mapping) else {"say": given}
    known = ("say", "when", "repeat", "until")
    problems = [f"no {name!r}{nearest(name, known)}" for name in table if name not in known]
    say, repeat = table.get("say"), table.get("repeat", 1)
    if isinstance(say, str) and is_reference(say):
        try:
            say = resolve_reference(say, Path())
        except Invalid as error:
            problems += error.problems
    if not (isinstance(say, str) and say) and not callable(say):
        problems.append(f"say: must be a text or a function, not {say!r}")
    if type(repeat) is not int or repeat < 1:
        problems.append(f"repeat: must be a whole number of at least 1, not {repeat!r}")
    conditions: dict[str, Expression | None] = {}
    for name in ("when", "until"):
        try:
            conditions[name] = None if table.get(name) is None else Expression(str(table[name]))
        except ExpressionError as error:
            problems.append(f"{name}: {error}")
    if problems:
        raise Invalid(problems)
    return ScriptedTurn(say, conditions["when"], repeat, conditions["until"])


def simulated(
    model: str, *, persona: str = "", goal: str = "{input}", opening: str | None = None, **parameters: Any
) -> SimulatedUser:
    """The user of a conversation, played by a model with a `persona` and a `goal`.

    Texts may contain {input}, {metadata.x} and factors. `opening` is what it says first; otherwise the model
    begins. What it costs is counted apart (`user_cost`). Other `parameters` are given to the model.
    """
    texts: dict[str, Any] = {"model": model, "persona": persona, "goal": goal}
    wrong = [
        f"{name}: must be text, not {text!r}" for name, text in texts.items() if not isinstance(text, str)
    ]
    if wrong or not model:
        raise Invalid([f"simulated: {problem}" for problem in wrong] or ["simulated: model: is missing"])
    return SimulatedUser(model, persona, goal, opening, normalise(parameters, "parameters"))


def user_of(given: Any) -> tuple[Any, list[str]]:
    """The user from what was written, and what is wrong with it."""
    if isinstance(given, str) and is_reference(given):
        given = resolve_reference(given, Path())
    try:
        if isinstance(given, Mapping) and set(given) == {"script"}:
            return script(given["script"]), []
        if isinstance(given, Mapping) and set(given) == {"simulated"}:
            return simulated(**given["simulated"]), []
        if isinstance(given, Mapping) and set(given) == {"person"}:
            return PersonUser(**given["person"]), []
    except Invalid as error:
        return None, [f"user: {problem}" for problem in error.problems]
    if isinstance(given, list | tuple):
        return user_of({"script": given})
    if hasattr(given, "speak"):
        return given, []
    if given == "person":
        return PersonUser(), []
    if isinstance(given, Evaluator) and type(given).__name__ == "Person":  # what person() makes
        asked = getattr(given, "prompt", IS_RIGHT)
        prompt = SAY if asked == IS_RIGHT else asked
        return PersonUser(prompt, getattr(given, "to", ""), getattr(given, "within", None)), []
    if callable(given):
        return FunctionUser(given), []
    return None, [f"user: must be script(...), simulated(...), person() or a function, not {given!r}"]
