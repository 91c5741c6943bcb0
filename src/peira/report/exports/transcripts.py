"""Transcripts in the shapes of other tools: OpenAI's messages (JSON lines), and a log of Inspect (JSON)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from importlib.metadata import version
from itertools import islice
from pathlib import Path
from typing import Any

import msgspec

from peira.analysis.export_formats import Makes
from peira.analysis.results import Results
from peira.core.chat.messages import message_text
from peira.core.chat.transcript import Transcript, TranscriptMessage, as_text
from peira.core.clock import stamp
from peira.core.ids import Json
from peira.core.registry import Registry
from peira.results.trials import TrialResult, named

CHUNK = 200
"""Trials whose transcripts are read together."""
STOPS = {"length": "max_tokens", "tool_calls": "tool_calls", "refusal": "content_filter"}
"""Why a model stopped, in Inspect's words; "stop" for all else."""
LOG_VERSION = 2
"""The version of Inspect's log format that is written."""


def with_transcripts(results: Results) -> Iterator[tuple[TrialResult, Transcript]]:
    """Each trial with its transcript; read in groups."""
    rest = iter(results.stream())
    while some := list(islice(rest, CHUNK)):
        ids = [trial.id for trial in some]
        known = results.background.transcripts(ids) if results.background else {}
        for trial in some:
            yield trial, known.get(trial.id) or Transcript(trial.id)


class OpenAIMessages:
    """OpenAI's chat messages: a line of JSON for each trial, with tool calls and their results."""

    makes: Makes = "file"
    suffixes: tuple[str, ...] = ()

    def write(self, results: Results, path: Path) -> None:
        """Write the messages of each trial, and what identifies it as metadata."""
        with path.open("wb") as file:
            for trial, transcript in with_transcripts(results):
                about = {
                    "run": results.run_id,
                    "trial": trial.id,
                    "agent": trial.agent,
                    "case": trial.case_id,
                    "repeat": trial.repeat,
                    "state": trial.state.value,
                    "condition": dict(trial.condition),
                    "output": trial.output,
                    "scores": {n: v for score in trial.scores.values() for n, v in named(score).items()},
                }
                line = {"messages": transcript.openai(), "metadata": about}
                file.write(msgspec.json.encode(line) + b"\n")

    def owns(self, path: Path) -> bool:
        """Whether its first line has messages and our metadata."""
        with path.open("rb") as file:
            first = file.readline()
        try:
            found: Json = msgspec.json.decode(first)
        except msgspec.DecodeError:
            return False
        return isinstance(found, dict) and {*found} == {"messages", "metadata"}


class InspectLog:
    """A log of Inspect (JSON): a sample for each trial, with its messages, scores, tokens and times."""

    makes: Makes = "file"
    suffixes: tuple[str, ...] = ()

    def write(self, results: Results, path: Path) -> None:
        """Write the log; samples of a study with several conditions have the condition in their id."""
        several = len({tuple(sorted(map(str, t.condition.items()))) for t in results}) > 1
        models: set[str] = set()
        samples = [_sample(t, said, several, models) for t, said in with_transcripts(results)]
        created = stamp(results.background.run.planned) if results.background else ""
        model = sorted(models)[0] if len(models) == 1 else "several" if models else "none/none"
        task = {
            "run_id": results.run_id,
            "eval_id": results.run_id,
            "task_id": results.run_id,
            "created": created,
            "task": results.study,
            "task_version": 0,
            "dataset": {"name": results.study, "samples": len(samples)},
            "model": model,
            "config": {},
            "packages": {"peira": version("peira")},
            "metadata": {"peira_run": results.run_id},
        }
        log = {
            "version": LOG_VERSION,
            "status": "success" if results.status == "completed" else "error",
            "eval": task,
            "plan": {"name": "plan", "steps": [], "config": {}},
            "results": {"total_samples": len(samples), "completed_samples": len(samples), "scores": []},
            "stats": {"started_at": created, "completed_at": created, "model_usage": {}},
            "samples": samples,
        }
        path.write_bytes(msgspec.json.encode(log))

    def owns(self, path: Path) -> bool:
        """Whether the file is a log that was written here."""
        try:
            found: Json = msgspec.json.decode(path.read_bytes() or b"null")
        except msgspec.DecodeError:
            return False
        about = found.get("eval") if isinstance(found, dict) else None
        return isinstance(about, dict) and "peira_run" in (about.get("metadata") or {})


def _sample(trial: TrialResult, transcript: Transcript, several: bool, models: set[str]) -> dict[str, Any]:
    """A trial as a sample of Inspect."""
    levels = ", ".join(f"{name}={as_text(value)}" for name, value in trial.condition.items())
    messages = list(_messages(transcript.messages))
    usage = _usage(transcript.messages)
    models.update(usage)
    model = next(reversed(usage), "none/none")
    said = as_text(trial.output) if trial.output is not None else ""
    answer = {"role": "assistant", "content": said, "source": "generate"}
    last = next((m for m in reversed(transcript.messages) if m.call), None)
    stop = STOPS.get(last.finish, "stop") if last else "stop"
    sample: dict[str, Any] = {
        "id": f"{trial.case_id} ({levels})" if several and levels else trial.case_id,
        "epoch": trial.repeat + 1,
        "input": as_text(trial.input),
        "target": "" if trial.expected is None else as_text(trial.expected),
        "messages": messages,
        "output": {
            "model": model,
            "choices": [{"message": answer, "stop_reason": stop}],
            "completion": said,
            "usage": usage.get(model),
        },
        "scores": {
            name: {"value": value}
            for score in trial.scores.values()
            for name, value in named(score).items()
            if value is not None
        },
        "metadata": {"trial": trial.id, "agent": trial.agent, "condition": dict(trial.condition)},
        "store": {},
        "events": [],
        "model_usage": usage,
        "total_time": trial.took,
        "attachments": {},
    }
    if trial.failure is not None:
        trace = trial.failure.trace
        why = f"{trial.failure.type}: {trial.failure.message}"
        sample["error"] = {"message": why, "traceback": trace, "traceback_ansi": trace}
    return sample


def _usage(messages: Iterable[TranscriptMessage]) -> dict[str, dict[str, Json]]:
    """The tokens of each model."""
    found: dict[str, dict[str, Json]] = {}
    for one in messages:
        if one.call:
            name = one.model.replace(":", "/", 1)
            total = found.setdefault(name, {"input_tokens": 0, "output_tokens": 0, "total_tokens": 0})
            total["input_tokens"] += one.input or 0
            total["output_tokens"] += one.output or 0
            total["total_tokens"] += (one.input or 0) + (one.output or 0)
            if one.cost is not None:
                total["total_cost"] = total.get("total_cost", 0.0) + one.cost
    return found


def _messages(messages: Iterable[TranscriptMessage]) -> Iterator[dict[str, Any]]:
    """The messages as Inspect has them, each tool result behind the message that called for it."""
    for one in messages:
        text = one.text if one.content is None else message_text(one.content)
        if one.role == "tool":
            yield {"role": "tool", "content": text, "tool_call_id": one.id}
            continue
        content: Json = text
        if one.reasoning:
            content = [{"type": "reasoning", "reasoning": one.reasoning}, {"type": "text", "text": text}]
        message: dict[str, Any] = {"role": one.role, "content": content}
        if one.role == "assistant":
            message["source"] = "generate"
            message["model"] = one.model.replace(":", "/", 1)
        if one.tool_calls:
            message["tool_calls"] = [
                {
                    "id": use.id,
                    "function": use.name,
                    "arguments": _arguments(use.arguments),
                    "type": "function",
                }
                for use in one.tool_calls
            ]
        yield message
        for use in one.tool_calls:
            if use.result is not None:
                told = as_text(use.result)
                failed = {"error": {"type": "unknown", "message": told}} if use.error else {}
                yield {
                    "role": "tool",
                    "content": told,
                    "tool_call_id": use.id,
                    "function": use.name,
                    **failed,
                }


def _arguments(given: Json) -> Json:
    """The arguments as an object: a text that is no JSON becomes one."""
    return given if isinstance(given, dict) else {"arguments": given}


def register(registry: Registry) -> None:
    """Register the formats."""
    registry.add("export", "openai", OpenAIMessages)
    registry.add("export", "inspect", InspectLog)
