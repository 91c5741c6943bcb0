"""Transcripts of trials, read from a store: from a result, its trail, and the calls and steps they name."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import msgspec

from peira.core.chat.dialects import readable
from peira.core.chat.transcript import (
    CallSummary,
    StepValue,
    TrailEntry,
    Transcript,
    TranscriptAttempt,
    TranscriptFile,
    make_transcript,
    masked_transcript,
    read_trail,
)
from peira.core.codec import decode
from peira.core.contracts import Store
from peira.core.ids import Json
from peira.core.log.events import Artifact, Result, State
from peira.core.log.state import Call
from peira.core.models import Answer, Model, Reply, Request
from peira.core.registry import registry
from peira.core.text.secrets import value_without_keys
from peira.core.text.words import HIDDEN
from peira.errors import NotKept, Unknown

CHUNK = 500
"""Calls that are read from the store together."""
WORDS = {
    "answered": "answered",
    "in_doubt": "in doubt",
    "intended": "cut off",
    "lost": "no answer",
    "void": "discarded",
}
"""The states of calls as people read them."""
_answer = msgspec.json.Decoder(Answer).decode


def read_transcript(
    store: Store, trial: str, result: Result, attempts: Sequence[TranscriptAttempt] = ()
) -> Transcript:
    """The transcript of a trial with this result."""
    return read_transcripts(store, {trial: result}, {trial: attempts})[trial]


def read_transcripts(
    store: Store,
    results: Mapping[str, Result],
    attempts: Mapping[str, Sequence[TranscriptAttempt]] | None = None,
) -> dict[str, Transcript]:
    """The transcripts of several trials; their calls and steps are read together."""
    trails = {trial: _trail(store, result) for trial, result in results.items()}
    keys = [entry.key for trail in trails.values() for entry in trail if entry.kind in ("call", "step")]
    calls, steps = _recorded(store, list(dict.fromkeys(keys)))
    return {
        trial: make_transcript(
            trial,
            trails[trial],
            {e.key: calls[e.key] for e in trails[trial] if e.key in calls},
            {e.key: steps[e.key] for e in trails[trial] if e.key in steps},
            {one.name: _file(one) for one in result.artifacts},
            (attempts or {}).get(trial) or _last_attempt(result),
        )
        for trial, result in results.items()
    }


def shown_transcripts(
    store: Store,
    results: Mapping[str, Result],
    attempts: Mapping[str, Sequence[TranscriptAttempt]] | None = None,
) -> dict[str, Transcript]:
    """As `read_transcripts`, for people: keys of the environment that stand in them are masked."""
    found = read_transcripts(store, results, attempts)
    return {trial: masked_transcript(one, value_without_keys) for trial, one in found.items()}


def _last_attempt(result: Result) -> tuple[TranscriptAttempt, ...]:
    """The end of the trial, if it did not succeed."""
    if result.failure is None:
        return ()
    why = f"{result.failure.type}: {result.failure.message}"
    return (TranscriptAttempt(0, State.failed.value, why, result.took),)


def _trail(store: Store, result: Result) -> list[TrailEntry]:
    """The trail of a result; without one, its calls in order."""
    if result.trail:
        try:
            return read_trail(store.get(result.trail))
        except Unknown:  # deleted by hand: the calls are still known
            pass
    files = [TrailEntry("file", one.name) for one in result.artifacts]
    return [*(TrailEntry("call", key) for key in result.calls), *files]


def _file(artifact: Artifact) -> TranscriptFile:
    return TranscriptFile(artifact.name, artifact.digest, artifact.size, artifact.media)


def _recorded(store: Store, keys: Sequence[str]) -> tuple[dict[str, CallSummary], dict[str, StepValue]]:
    """The calls and the steps of these keys, those that are recorded."""
    calls: dict[str, CallSummary] = {}
    steps: dict[str, StepValue] = {}
    for at in range(0, len(keys), CHUNK):
        for row in store.find("call", keys[at : at + CHUNK]).values():
            if row.request:
                calls[row.key] = call_summary(row, store)
            elif row.state == "recorded":
                steps[row.key] = StepValue(row.name, _step_value(row, store))
    return calls, steps


def _step_value(row: Call, store: Store) -> Json:
    """The value of a recorded step; a text that says so if it was not kept."""
    try:
        return decode(store.get(row.blob) if row.blob else bytes(row.value))
    except NotKept as problem:
        return f"({problem})"


def call_summaries(store: Store, keys: Sequence[str]) -> Iterator[tuple[str, CallSummary]]:
    """The calls of these keys, each with its request and the text of its answer."""
    for at in range(0, len(keys), CHUNK):
        for row in store.find("call", keys[at : at + CHUNK]).values():
            if row.request:
                yield row.key, call_summary(row, store)


def call_summary(call: Call, store: Store) -> CallSummary:
    """A call as people read it; secrets in the answer are masked."""
    request, raw = request_of(call, store), b""
    text, reply, seconds = call.why, None, None
    try:
        raw = store.get(call.blob) if call.blob else bytes(call.value)
    except NotKept as problem:
        text = f"({problem})"
    if raw:
        answer, reply = _answer(raw), reply_of(call, store)
        text = reply.text if reply is not None else answer.body.decode("utf-8", "replace")
        seconds = answer.latency
        if answer.exposed:
            for start, end in answer.exposed:
                text = text.replace(answer.body[start:end].decode("utf-8", "replace"), HIDDEN)
            reply = None
    return CallSummary(
        key=call.key,
        model=call.model,
        status=WORDS.get(call.state, call.state),
        asked=request,
        said=text,
        input=None if call.input < 0 else call.input,
        output=None if call.output < 0 else call.output,
        cost=None if call.cost < 0 else call.cost,
        tool_calls=tuple(dict(one) for one in reply.tool_calls) if reply is not None else (),
        reasoning=reply.reasoning if reply is not None else "",
        finish=reply.finish if reply is not None else "",
        seconds=seconds,
        sends=max(1, call.sends),
        served="" if call.served in (call.model, call.model.partition(":")[2]) else call.served,
    )


def request_of(call: Call, store: Store) -> Json:
    """The request of a call; a text that says so if it was not kept.

    One in a provider's own form is translated, as far as that is possible.
    """
    try:
        data = store.get(call.request)
    except NotKept as problem:
        return f"({problem})"
    asked: Json = msgspec.json.decode(data)
    if isinstance(asked, dict) and asked.get("form"):
        asked = msgspec.to_builtins(readable(msgspec.json.decode(data, type=Request)))
    return asked


def reply_of(call: Call, store: Store) -> Reply | None:
    """The reply in a recorded answer; None if there is none, or no provider here can read it."""
    provider, _, name = call.model.partition(":")
    raw = store.get(call.blob) if call.blob else bytes(call.value)
    try:
        model: Model = registry.make("model", provider, model=name)
        return model.read(_answer(raw))
    except Exception:  # a plug-in's own code reads it, which may raise anything
        return None
