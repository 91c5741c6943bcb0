"""`conversation`: an agent that talks with a user over several turns; the user is a script, a model, a person
or a function.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Protocol

import msgspec

from peira.agents.command.placeholders import CASE, filled, names_in, values_of
from peira.agents.function import chosen_arguments
from peira.agents.loop.agent import ToolLoop
from peira.agents.loop.toolbox import joined_fingerprint
from peira.core.ask import ask
from peira.core.code.fingerprint import Fingerprint, fingerprint
from peira.core.context import Trial, accounted_to, in_branch
from peira.core.contracts import Evaluator
from peira.core.expressions import Expression
from peira.core.ids import Json, normalise
from peira.core.models import output_of
from peira.core.people.questions import IS_RIGHT, question_of, value_of
from peira.core.registry import Registry, nearest
from peira.core.signature import Wants, wants
from peira.core.steps import recorded
from peira.core.transcript import USER, as_text
from peira.errors import ExpressionError, Invalid
from peira.spec.agents import AgentValue, read_kind
from peira.spec.modules import is_reference, reference, resolve_reference

KIND = "conversation"
GOAL, SCRIPT, LIMIT = "goal", "script", "limit"
"""How a conversation ends: its goal is reached, its script is over, or its turns are used up."""
DONE = "[done]"
"""What a simulated user says when its goal is reached."""
SAY = "What do you say next? (Write [done] when you are done.)"
"""What a person is asked who talks with the subject."""
STATE = ("reply", "replies", "said", "turn", "input", "messages")
"""What conditions and functions of a conversation may name, beside factors."""


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
        return ["script", *({**turn, "say": _code_of(turn["say"])} for turn in self._plain())]

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


@dataclass(frozen=True, eq=False)
class Conversation:
    """An agent that talks with a user; see `conversation`."""

    subject: Any
    user: Any
    turns: int = 8
    until: Any = None
    system: str | None = None
    label: str = KIND
    version: str | None = None
    kind = KIND
    asynchronous = False

    @property
    def takes(self) -> frozenset[str]:
        """The factors of its texts and conditions, and those of its subject."""
        texts = [*self.user.texts, self.system or ""]
        if isinstance(self.subject, str):
            texts.append(self.subject)
        named = (names_in(texts) | self._conditions()) - {*CASE, *STATE}
        return named | self._subject_wants().names

    @property
    def requires(self) -> frozenset[str]:
        """What its texts and its subject cannot do without."""
        return self.takes if not callable(self.subject) else self.takes - self._subject_wants().names

    def _conditions(self) -> frozenset[str]:
        """The names in its conditions."""
        found = [self.until] if isinstance(self.until, Expression) else []
        turns = self.user.turns if isinstance(self.user, ScriptedUser) else ()
        found += [one for turn in turns for one in (turn.when, turn.until) if one is not None]
        return frozenset(name.split(".")[0] for one in found for name in one.names)

    def _subject_wants(self) -> Wants:
        """The factors that the subject takes."""
        if isinstance(self.subject, str):
            return Wants(frozenset(), frozenset(), False)
        if isinstance(self.subject, AgentValue):
            takes = self.subject.made(KIND).takes or frozenset()
            return Wants(takes, takes, False)
        found = wants(self.subject)
        return Wants(
            found.names - {*STATE, "message", "case", "trial", "seed"}, found.required, found.anything
        )

    @property
    def models(self) -> tuple[str, ...]:
        """The models that it calls, as far as they are known without a trial."""
        found = [self.subject] if isinstance(self.subject, str) else list(getattr(self.subject, "models", ()))
        found += [self.user.model] if isinstance(self.user, SimulatedUser) else []
        return tuple(name for name in found if "{" not in name)

    @property
    def starts_processes(self) -> bool:
        """Whether agents in it start processes."""
        return any(getattr(one, "starts_processes", False) for one in [self.subject])

    def check(self) -> None:
        """Raise Invalid if an agent in it cannot work on this machine."""
        for one in [self.subject]:
            if (check := getattr(one, "check", None)) is not None:
                check()

    @cached_property
    def fingerprint(self) -> Fingerprint:
        """The code of its functions."""
        said = [turn.say for turn in getattr(self.user, "turns", ())]
        functions = [
            fn for fn in (self.subject, self.until, *said) if callable(fn) and not isinstance(fn, AgentValue)
        ]
        return joined_fingerprint([self.subject, self.user, *map(_Fingerprinted, functions)])

    @cached_property
    def identity(self) -> Json:
        """Everything that can change what is said."""
        subject = self.subject
        code: Json = (
            subject.made("subject").identity if isinstance(subject, AgentValue) else _code_of(subject)
        )
        until: Json = self.until.text if isinstance(self.until, Expression) else _code_of(self.until)
        if self.version is not None:
            code = {"version": self.version}
        return {
            "agent": KIND,
            "label": self.label,
            "subject": code,
            "user": self.user.identity,
            "turns": self.turns,
            "until": until,
            "system": self.system,
        }

    def made(self, label: str, version: str | None = None) -> Conversation:
        """The same under a label of a study."""
        return replace(self, label=label, version=version)

    def written(self, base: Path | None = None) -> dict[str, Json] | None:
        """The table that a study file has for it; None if code in it has no name in a file."""
        subject: Json = self.subject
        if isinstance(self.subject, AgentValue):
            subject = self.subject.written(base)
        elif callable(self.subject):
            subject = reference(self.subject, base)
        user = self.user.written(base)
        until = self.until.text if isinstance(self.until, Expression) else self.until
        until = reference(until, base) if callable(until) else until
        if subject is None or user is None or (self.until is not None and until is None):
            return None
        table: dict[str, Json] = {"kind": KIND, "subject": subject, "user": user, "turns": self.turns}
        return {
            **table,
            **{n: v for n, v in {"until": until, "system": self.system}.items() if v is not None},
        }

    def invoke(self, trial: Trial) -> dict[str, Json]:
        """Hold the conversation: how it ended, after how many turns, the last reply and all messages."""
        state, memory, ended = ConversationState(trial), dict[str, Any](), LIMIT
        for _ in range(self.turns):
            said, over = self.user.speak(state, memory)
            if said is None:
                ended = over
                break
            state.messages.append({"role": "user", "content": said})
            reply = self._answered(state)
            state.said.append(said)
            state.replies.append(reply)
            if self._reached(state):
                ended = GOAL
                break
        trial.report(turns=len(state.said))
        return {
            "ended": ended,
            "turns": len(state.said),
            "reply": state.replies[-1] if state.replies else "",
            "messages": normalise(state.messages, "messages"),
        }

    def _answered(self, state: ConversationState) -> str:
        """The subject's reply; its messages are added to the conversation."""
        values = state.values()
        if isinstance(self.subject, str):
            system = None if self.system is None else filled(self.system, values)
            reply = ask(filled(self.subject, values), state.messages, system=system)
            state.messages.append(reply.message)
            return reply.text
        if isinstance(self.subject, ToolLoop):
            output, state.messages = self.subject.run(state.trial, state.messages, values)
            return as_text(normalise(output_of(output), "reply"))
        found = normalise(output_of(self._called(state, values)), "reply")
        text = as_text(found)
        state.messages.append({"role": "assistant", "content": text})
        return text

    def _called(self, state: ConversationState, values: dict[str, Json]) -> Any:
        """What a function as subject, or an agent of another kind, says to the messages so far."""
        if isinstance(self.subject, AgentValue):
            case = state.trial.case.own()
            inner = replace_input(state.trial, case, [dict(message) for message in state.messages])
            return self.subject.made(KIND).invoke(inner)
        fn = self.subject
        told = {**values, "message": state.messages[-1]["content"]}
        wanted = wants(fn)
        given = {**chosen_arguments(wanted, state.trial)}
        given |= {
            name: told[name] for name in ("messages", "message", "reply", "turn") if name in wanted.names
        }
        return fn(**given)

    def _reached(self, state: ConversationState) -> bool:
        """Whether `until` says that it is over."""
        if self.until is None:
            return False
        if isinstance(self.until, Expression):
            return state.holds(self.until)
        return bool(self.until(**state.told(self.until)))


def replace_input(trial: Trial, case: Any, given: Json) -> Trial:
    """The trial, with another input of its case."""
    changed = msgspec.structs.replace
    inner = changed(trial, case=changed(case, input=given))
    inner.__dict__.update(
        ordinals=trial.ordinals, counts=trial.counts, parts=trial.parts, lasting=trial.lasting
    )
    return inner


class _Fingerprinted:
    """Something with a fingerprint: that of a function."""

    def __init__(self, fn: Callable[..., Any]) -> None:
        self.fingerprint = fingerprint(fn)


def _code_of(given: Any) -> Json:
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


def conversation(
    subject: Any,
    user: Any,
    *,
    turns: int = 8,
    until: Any = None,
    system: str | None = None,
) -> Conversation:
    """An agent that is a conversation between a `subject` and a `user`, of at most `turns` turns of the user.

    The subject is an `agent(...)`, the name of a model (with a `system` prompt), or a function of any of
    messages, message (the user's last), case, trial and factors. The user is `script([...])`,
    `simulated(model, persona=, goal=)`, `person()`, or a function of any of reply, replies, said, turn,
    messages, input, case that says the next message, or None when it is done. `until` is a condition on the
    same names ("'bye' in reply"), or a function.

    The output is {"ended", "turns", "reply", "messages"}: it ended because the `goal` was reached (by `until`
    or in the user's eyes), because the `script` was over, or because of the `limit` of turns. The user's
    calls are counted apart: `user_calls`, `user_cost`.
    """
    problems = []
    subject, wrong = _subject(subject)
    problems += wrong
    user, wrong = _user(user)
    problems += wrong
    if type(turns) is not int or turns < 1:
        problems.append(f"turns: must be a whole number of at least 1, not {turns!r}")
    until, wrong = _condition(until, "until")
    problems += wrong
    if problems:
        raise Invalid(problems)
    return Conversation(subject, user, turns, until, system)


def _subject(given: Any) -> tuple[Any, list[str]]:
    """The subject from what was written, and what is wrong with it."""
    if isinstance(given, str) and is_reference(given):
        given = resolve_reference(given, Path())
    if isinstance(given, Mapping) and "kind" in given:
        made = read_kind(given)
        given = made.made(made.kind)
    if isinstance(given, (str, AgentValue)) or callable(given):
        return given, []
    return None, [f"subject: must be an agent, a function or the name of a model, not {given!r}"]


def _user(given: Any) -> tuple[Any, list[str]]:
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
        return _user({"script": given})
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


def _condition(given: Any, name: str) -> tuple[Any, list[str]]:
    """A condition from a text, or a function; and what is wrong with it."""
    if isinstance(given, str) and is_reference(given):
        return resolve_reference(given, Path()), []
    if isinstance(given, str):
        try:
            return Expression(given), []
        except ExpressionError as error:
            return None, [f"{name}: {error}"]
    if given is None or callable(given):
        return given, []
    return None, [f"{name}: must be a condition or a function, not {given!r}"]


def _made(label: str, version: str | None = None, **options: Any) -> Conversation:
    """A conversation between an agent and a user."""
    return conversation(**options).made(label, version)


def register(registry: Registry) -> None:
    """Register the kind of agent."""
    registry.add("agent", KIND, _made)
