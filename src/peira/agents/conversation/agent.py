"""`conversation`: an agent that talks with a user over several turns; the user is a script, a model, a person
or a function.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import msgspec

from peira.agents.command.placeholders import CASE, filled, names_in
from peira.agents.conversation.users import (
    GOAL,
    LIMIT,
    ConversationState,
    ScriptedUser,
    SimulatedUser,
    code_of,
    user_of,
)
from peira.agents.function import chosen_arguments
from peira.agents.loop.agent import ToolLoop
from peira.agents.loop.toolbox import joined_fingerprint
from peira.core.ask import ask
from peira.core.chat.transcript import as_text
from peira.core.code.fingerprint import Fingerprint, fingerprint
from peira.core.code.signature import TakenArguments, wants
from peira.core.context import Trial
from peira.core.expressions import Expression
from peira.core.ids import Json, normalise
from peira.core.models import output_of
from peira.core.registry import Registry
from peira.errors import ExpressionError, Invalid
from peira.spec.agents import AgentValue, read_kind
from peira.spec.modules import is_reference, reference, resolve_reference

KIND = "conversation"
STATE = ("reply", "replies", "said", "turn", "input", "messages")
"""What conditions and functions of a conversation may name, beside factors."""


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

    def _subject_wants(self) -> TakenArguments:
        """The factors that the subject takes."""
        if isinstance(self.subject, str):
            return TakenArguments(frozenset(), frozenset(), False)
        if isinstance(self.subject, AgentValue):
            takes = self.subject.made(KIND).takes or frozenset()
            return TakenArguments(takes, takes, False)
        found = wants(self.subject)
        return TakenArguments(
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
        """Everything that can change the conversation."""
        subject = self.subject
        code: Json = subject.made("subject").identity if isinstance(subject, AgentValue) else code_of(subject)
        until: Json = self.until.text if isinstance(self.until, Expression) else code_of(self.until)
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


# What users write


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
    user, wrong = user_of(user)
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
