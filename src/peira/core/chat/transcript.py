"""The transcript of a trial: what was said to models and by them, tools, steps, notes, files, attempts.

It is made of what is recorded anyway: the calls in the ledger, and the trail, which says in which order an
attempt asked, stepped, logged and attached. The same value is made for every kind of agent.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import takewhile
from typing import Any

import msgspec

from peira.core.chat.messages import message_text, openai_messages
from peira.core.ids import Json

USER = "user"
"""The account of calls that a conversation's user makes; those of the agent have none."""
TOOL_STEP = "tool "
"""The beginning of the name of a step that is a tool call: "tool search"."""


# What is recorded


class TrailEntry(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """Something that an attempt did; of all of them, in order, its trail consists.

    `kind` is "call", "step", "note" or "file"; `key` is the call's or step's key, the note's or file's name.
    `at` is when it was done, in seconds since the attempt began, `took` how long it took, as far as that was
    noticed. `data` is what was logged, `account` who asked: "" for the agent.
    """

    kind: str
    key: str
    at: float = 0.0
    took: float = 0.0
    account: str = ""
    data: Json = None


def read_trail(data: bytes) -> list[TrailEntry]:
    """The trail in a blob."""
    return msgspec.json.decode(data, type=list[TrailEntry])


class CallSummary(msgspec.Struct, frozen=True, gc=False):
    """One call of a model, as people read it.

    `asked` is the request, `said` the reply's text, or what there is in its place. Tokens, seconds and cost
    (US dollars) are None where they are not known; `sends` counts how often it was sent.
    """

    key: str
    model: str
    status: str
    asked: Json
    said: str
    input: int | None = None
    output: int | None = None
    cost: float | None = None
    tool_calls: tuple[dict[str, Json], ...] = ()
    reasoning: str = ""
    finish: str = ""
    seconds: float | None = None
    sends: int = 1
    served: str = ""


class StepValue(msgspec.Struct, frozen=True, gc=False):
    """A recorded step: its name and its value."""

    name: str
    value: Json


# The transcript


class ToolUse(msgspec.Struct, frozen=True, gc=False):
    """A tool call of a model: `arguments` and `result` as JSON, the result null if none is known.

    `error` says that the tool failed, or refused its arguments: the result then is the message.
    """

    id: str
    name: str
    arguments: Json = None
    result: Json = None
    error: bool = False
    seconds: float | None = None


class TranscriptMessage(msgspec.Struct, frozen=True, tag_field="kind", tag="message", gc=False):
    """A message: of `role` system, user, assistant or tool.

    An assistant's message has the `model`, the key of its `call` in the ledger, its reasoning, its tool calls
    and what it took. `account` is "user" for what a conversation's simulated user asked its own model.
    """

    role: str
    text: str
    content: Json = None
    """The parts, if there is more than text."""
    model: str = ""
    call: str = ""
    reasoning: str = ""
    tool_calls: tuple[ToolUse, ...] = ()
    id: str = ""
    """Of a tool's result: the tool call that it belongs to."""
    status: str = ""
    """Of a call without an answer: what became of it."""
    finish: str = ""
    input: int | None = None
    output: int | None = None
    cost: float | None = None
    seconds: float | None = None
    sends: int = 1
    account: str = ""
    at: float | None = None


class TranscriptStep(msgspec.Struct, frozen=True, tag_field="kind", tag="step", gc=False):
    """A recorded step that is no tool call of a model."""

    name: str
    value: Json = None
    at: float | None = None


class TranscriptTool(msgspec.Struct, frozen=True, tag_field="kind", tag="tool", gc=False):
    """A tool that was executed without a message of this trial that calls it."""

    use: ToolUse
    at: float | None = None


class TranscriptNote(msgspec.Struct, frozen=True, tag_field="kind", tag="note", gc=False):
    """What the agent logged."""

    name: str
    data: Json = None
    at: float | None = None


class TranscriptFile(msgspec.Struct, frozen=True, tag_field="kind", tag="file", gc=False):
    """A file that the agent attached; its bytes are the blob of this digest."""

    name: str
    digest: str = ""
    size: int = 0
    media: str = ""
    at: float | None = None


class TranscriptAttempt(msgspec.Struct, frozen=True, tag_field="kind", tag="attempt", gc=False):
    """An earlier attempt that failed, after which the trial was tried again; or the end of the last one."""

    number: int
    state: str
    why: str = ""
    seconds: float | None = None


TranscriptEntry = (
    TranscriptMessage | TranscriptStep | TranscriptTool | TranscriptNote | TranscriptFile | TranscriptAttempt
)


class Transcript(msgspec.Struct, frozen=True):
    """What happened in a trial, in order. Each message stands here once, whichever requests repeat it."""

    trial: str
    entries: tuple[TranscriptEntry, ...] = ()

    @property
    def messages(self) -> tuple[TranscriptMessage, ...]:
        """The messages, without those of a simulated user's own model."""
        return tuple(e for e in self.entries if isinstance(e, TranscriptMessage) and not e.account)

    @property
    def tool_calls(self) -> tuple[ToolUse, ...]:
        """Every tool call, in order."""
        return tuple(
            use
            for entry in self.entries
            for use in (
                entry.tool_calls
                if isinstance(entry, TranscriptMessage)
                else (entry.use,)
                if isinstance(entry, TranscriptTool)
                else ()
            )
        )

    @property
    def cost(self) -> float | None:
        """US dollars of all its calls, the user's included; None if one of them is unknown."""
        costs = [e.cost for e in self.entries if isinstance(e, TranscriptMessage) and e.call]
        return None if any(cost is None for cost in costs) else sum(c for c in costs if c is not None)

    def __str__(self) -> str:
        return "\n".join(text_lines(self))

    def __len__(self) -> int:
        return len(self.entries)

    def openai(self) -> list[dict[str, Json]]:
        """The conversation as OpenAI's chat completions have messages."""
        return openai_messages(_plain_messages(self.messages))


def _plain_messages(messages: Iterable[TranscriptMessage]) -> Iterator[dict[str, Json]]:
    """Messages in peira's form, each tool result behind the message that called for it."""
    for one in messages:
        content = one.text if one.content is None else one.content
        if one.role == "tool":
            yield {"role": "tool", "id": one.id, "content": content}
            continue
        calls = [{"id": use.id, "name": use.name, "arguments": use.arguments} for use in one.tool_calls]
        yield {"role": one.role, "content": content, **({"tool_calls": calls} if calls else {})}
        for use in one.tool_calls:
            if use.result is not None:
                yield {"role": "tool", "id": use.id, "content": use.result}


def make_transcript(
    trial: str,
    trail: Sequence[TrailEntry],
    calls: Mapping[str, CallSummary],
    steps: Mapping[str, StepValue],
    files: Mapping[str, TranscriptFile],
    attempts: Sequence[TranscriptAttempt] = (),
) -> Transcript:
    """The transcript of a trail, with what its keys stand for. What is not known any more is left out."""
    return _Builder(trail, calls, steps, files).transcript(trial, attempts)


class _Builder:
    """Puts the entries of a transcript together."""

    def __init__(
        self,
        trail: Sequence[TrailEntry],
        calls: Mapping[str, CallSummary],
        steps: Mapping[str, StepValue],
        files: Mapping[str, TranscriptFile],
    ) -> None:
        self._trail, self._calls, self._steps, self._files = trail, calls, steps, files
        self._known: list[tuple[Json, list[Json]]] = []
        """The conversations so far: system prompt and messages of each."""
        self._shown: set[str] = set()
        self._order = [calls[entry.key] for entry in trail if entry.kind == "call" and entry.key in calls]
        found = [value for entry in trail if (value := self._tool_step(entry)) is not None]
        self._executed = {(str(value.get("of", "")), str(value["call"])): value for value in found}
        self._called = {str(call.get("id")) for one in self._order for call in one.tool_calls}

    def transcript(self, trial: str, attempts: Sequence[TranscriptAttempt]) -> Transcript:
        """The finished transcript."""
        entries: list[TranscriptEntry] = list(attempts[:-1])
        for entry in self._trail:
            entries += self._made(entry)
        return Transcript(trial, (*entries, *attempts[-1:]))

    def _made(self, entry: TrailEntry) -> Iterator[TranscriptEntry]:
        """The entries of the transcript that one of the trail stands for."""
        at = entry.at or None
        if entry.kind == "call" and entry.key in self._calls:
            yield from self._exchange(self._calls[entry.key], entry)
        elif entry.kind == "step" and entry.key in self._steps:
            value = self._tool_step(entry)
            if value is None:
                yield TranscriptStep(self._steps[entry.key].name, self._steps[entry.key].value, at)
            elif str(value["call"]) not in self._called:
                yield TranscriptTool(_tool_use(str(value["call"]), value), at)
        elif entry.kind == "note":
            yield TranscriptNote(entry.key, entry.data, at)
        elif entry.kind == "file" and entry.key in self._files:
            yield msgspec.structs.replace(self._files[entry.key], at=at)

    def _tool_step(self, entry: TrailEntry) -> dict[str, Any] | None:
        """The value of a step that is a tool call; None for anything else."""
        step = self._steps.get(entry.key) if entry.kind == "step" else None
        if step is None or not step.name.startswith(TOOL_STEP):
            return None
        value = step.value
        return value if isinstance(value, dict) and {"tool", "call"} <= value.keys() else None

    def _exchange(self, call: CallSummary, entry: TrailEntry) -> Iterator[TranscriptEntry]:
        """What is new in a request, and the reply."""
        asked = call.asked if isinstance(call.asked, Mapping) else {}
        messages: list[Json] = list(asked.get("messages", ()))
        system = asked.get("system")
        seen, fresh = self._seen(system, messages)
        if system is not None and fresh:
            yield TranscriptMessage("system", message_text(system), account=entry.account)
        for message in messages[seen:]:
            if isinstance(message, Mapping) and not self._stands_elsewhere(message, entry.account):
                made = _message(message, entry.account)
                self._shown.add(made.text)
                yield made
        self._shown.add(call.said)
        reply: dict[str, Json] = {"role": "assistant", "content": call.said}
        if call.tool_calls:
            reply["tool_calls"] = [dict(one) for one in call.tool_calls]
        self._known.append((system, [*messages, reply]))
        yield TranscriptMessage(
            role="assistant",
            text=call.said,
            model=call.served or call.model,
            call=call.key,
            reasoning=call.reasoning,
            tool_calls=self._uses(call, [*messages, reply]),
            status="" if call.status == "answered" else call.status,
            finish=call.finish,
            input=call.input,
            output=call.output,
            cost=call.cost,
            seconds=call.seconds,
            sends=call.sends,
            account=entry.account,
            at=entry.at or None,
        )

    def _seen(self, system: Json, messages: Sequence[Json]) -> tuple[int, bool]:
        """How many of the first messages an earlier conversation has already, and whether it is a new one."""
        best, known = 0, False
        for other, earlier in self._known:
            if other != system:
                continue
            known = True
            pairs = zip(messages, earlier, strict=False)
            same = next(
                (i for i, (a, b) in enumerate(pairs) if not _alike(a, b)), min(len(messages), len(earlier))
            )
            best = max(best, same)
        return best, not known

    def _stands_elsewhere(self, message: Mapping[str, Any], account: str) -> bool:
        """Whether a message is shown elsewhere: the result of a tool (beside its call), or an earlier message
        that a simulated user is given in other roles."""
        if account and message_text(message.get("content")) in self._shown:
            return True
        return message.get("role") == "tool" and str(message.get("id")) in self._called

    def _uses(self, call: CallSummary, so_far: Sequence[Json]) -> tuple[ToolUse, ...]:
        """The tool calls of a reply with their results: as recorded, or as a later request tells them."""
        if not call.tool_calls:
            return ()
        told = self._told(call, so_far)
        return tuple(self._use(call.key, one, told) for one in call.tool_calls)

    def _use(self, of: str, call: Mapping[str, Json], told: Mapping[str, Mapping[str, Any]]) -> ToolUse:
        id = str(call.get("id", ""))
        if (of, id) in self._executed:
            return _tool_use(id, self._executed[of, id])
        found = told.get(id, {})
        name, error = str(call.get("name", "")), bool(found.get("error"))
        return ToolUse(id, name, call.get("arguments"), found.get("content"), error)

    def _told(self, call: CallSummary, so_far: Sequence[Json]) -> dict[str, Mapping[str, Any]]:
        """The results of a reply's tool calls, by their ids, in the later request that goes on from it.

        If none does exactly, in any later one: agents may shorten what they send.
        """
        later = self._order[self._order.index(call) + 1 :]
        requests = [one.asked.get("messages", ()) for one in later if isinstance(one.asked, Mapping)]
        for messages in requests:
            if len(messages) > len(so_far) and all(map(_alike, messages, so_far)):
                rest = messages[len(so_far) :]
                own = takewhile(lambda message: message.get("role") == "tool", rest)
                return {str(message.get("id")): message for message in own}
        every = (m for messages in requests for m in messages if m.get("role") == "tool")
        return {str(m.get("id")): m for m in reversed(list(every))}


def _alike(one: Json, other: Json) -> bool:
    """Whether two messages are the same; the blocks of reasoning that providers want back do not count."""
    if not isinstance(one, Mapping) or not isinstance(other, Mapping):
        return bool(one == other)
    keys = ("role", "content", "tool_calls", "id")
    return all((one.get(key) or None) == (other.get(key) or None) for key in keys)


def _tool_use(id: str, value: Mapping[str, Any]) -> ToolUse:
    """A tool call as its step recorded it."""
    result, error = value.get("result"), bool(value.get("error"))
    return ToolUse(id, str(value["tool"]), value.get("arguments"), result, error, value.get("seconds"))


def _message(message: Mapping[str, Any], account: str) -> TranscriptMessage:
    """A message of a request that is no reply of a model of this trial."""
    content = message.get("content")
    uses = tuple(
        ToolUse(str(call.get("id", "")), str(call.get("name", "")), call.get("arguments"))
        for call in message.get("tool_calls") or ()
    )
    return TranscriptMessage(
        role=str(message.get("role", "user")),
        text=message_text(content),
        content=None if isinstance(content, str) else content,
        tool_calls=uses,
        id=str(message.get("id", "")),
        account=account,
    )


def masked_transcript(transcript: Transcript, mask: Callable[[Json], Json]) -> Transcript:
    """The transcript with `mask` applied to everything in it, to hide keys that are not to be shown."""
    return msgspec.convert(mask(msgspec.to_builtins(transcript)), Transcript)


# As text

MOST_TEXT = 4_000
"""The most characters of one message or result in the text of a transcript."""


def tool_line(use: ToolUse | Mapping[str, Json]) -> str:
    """A tool call as one line: name(arguments), and its result if there is one."""
    if not isinstance(use, ToolUse):
        use = ToolUse(str(use.get("id", "")), str(use.get("name")), use.get("arguments"), use.get("result"))
    line = f"{use.name}({'' if use.arguments in (None, {}) else as_text(use.arguments)})"
    if use.result is None:
        return line
    return f"{line} {'failed:' if use.error else '->'} {as_text(use.result)}"


def text_lines(transcript: Transcript, most: int = MOST_TEXT) -> Iterator[str]:
    """A transcript as lines of text for people."""
    for entry in transcript.entries:
        yield from _lines(entry, most)


def _lines(entry: TranscriptEntry, most: int) -> Iterator[str]:
    """The lines of one entry."""
    if isinstance(entry, TranscriptMessage):
        by = f" (the {entry.account}'s model)" if entry.account else ""
        who = f"{entry.model or entry.role}{by}"
        if entry.status and entry.text:
            who = f"{who} ({entry.status})"
        if entry.reasoning:
            yield _indented(f"{who} thinks: ", entry.reasoning, most)
        if entry.text or entry.status or not entry.tool_calls:
            yield _indented(f"{who}: ", entry.text or entry.status, most)
        for use in entry.tool_calls:
            yield _indented(f"  {who} calls " if not entry.text else "  calls ", tool_line(use), most)
    elif isinstance(entry, TranscriptTool):
        yield _indented("tool ", tool_line(entry.use), most)
    elif isinstance(entry, TranscriptStep):
        yield _indented(f"step {entry.name}: ", as_text(entry.value), most)
    elif isinstance(entry, TranscriptNote):
        yield _indented(f"log {entry.name}: ", as_text(entry.data), most)
    elif isinstance(entry, TranscriptFile):
        yield f"file {entry.name}: {entry.size:,} bytes{f', {entry.media}' if entry.media else ''}"
    else:
        yield f"attempt {entry.number}: {entry.state}{f', {entry.why}' if entry.why else ''}"


def _indented(title: str, text: str, most: int) -> str:
    """A text under a title, cut if it is long; further lines are indented."""
    if len(text) > most:
        text = f"{text[:most]} ... ({len(text) - most:,} more characters)"
    return title + text.replace("\n", "\n    ")


def as_text(value: Json) -> str:
    """A text as it is, any other value as JSON."""
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()
