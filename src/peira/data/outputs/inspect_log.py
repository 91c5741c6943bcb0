"""Inspect logs: `.eval`, a zip archive of JSON documents, one for each sample and epoch, or `.json`, in one.

The whole sample (messages, tool calls, reasoning, events) is attached to its trial as `inspect.json`.
"""

from __future__ import annotations

import lzma
import struct
import zlib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import IO, Any, cast
from zipfile import BadZipFile, ZipFile, ZipInfo

import zstandard

from peira.core.files import check_source
from peira.core.ids import Json, normalise
from peira.data.outputs.record import (
    ABSENT,
    RecordedOutput,
    attachment,
    checked_repeat,
    metrics_of,
    numbers_of,
    plain,
    read_json,
    score_of,
    seconds_of,
)
from peira.errors import Invalid
from peira.spec.data_files import Problems

ZSTD = 93
LARGEST = 256 << 20
"""Bytes of a document in the archive; a small archive may hold one that fills the memory."""
WINDOW = 128 << 20
LOCAL_HEADER = 30
GRADES = {"C": 1.0, "P": 0.5, "I": 0.0, "N": 0.0}
ATTACHMENT = "attachment://"


PLACES = {"begin": "start", "end": "end", "any": "word", "exact": "whole"}
"""Where Inspect's `match` looks, in the words of ours."""
TOKENS = {
    "input_tokens": ("input_tokens", "input_tokens_cache_read", "input_tokens_cache_write"),
    "output_tokens": ("output_tokens",),
    "cached_tokens": ("input_tokens_cache_read",),
    "written_tokens": ("input_tokens_cache_write",),
    "reasoning_tokens": ("reasoning_tokens",),
}
"""Our counts of tokens, as sums of Inspect's, whose input leaves out what a cache had."""


def outputs(path: Path, problems: Problems) -> Iterator[RecordedOutput]:
    """The samples of a log in file order, numbered by position; raises `Invalid` if it is no log."""
    check_source(path)
    try:
        if path.suffix == ".json":
            yield from _document(path, problems)
            return
        with ZipFile(path) as archive:
            header = _read(path, archive, archive.getinfo("header.json"))
            samples = [info for info in archive.infolist() if info.filename.startswith("samples/")]
            read = ((info.filename, lambda info=info: _read(path, archive, info)) for info in samples)
            yield from _samples(path.name, header, read, problems)
    except KeyError:
        raise Invalid(f"{path.name}: has no header.json, so it is no whole log of Inspect") from None
    except BadZipFile as error:
        raise Invalid(f"{path.name}: is no log of Inspect ({error})") from None
    except OSError as error:
        raise Invalid(f"cannot read {path}: {error.strerror or error}") from None


def is_log(document: Any) -> bool:
    """Whether a JSON document is a log of Inspect."""
    return isinstance(document, Mapping) and {"eval", "samples", "version"} <= document.keys()


def _document(path: Path, problems: Problems) -> Iterator[RecordedOutput]:
    """The samples of a log in one JSON document."""
    log = read_json(path.read_bytes())
    if not is_log(log):
        raise Invalid(f"{path.name}: has no samples, so it is no log of Inspect")
    samples = ((f"sample {n}", lambda one=one: one) for n, one in enumerate(log["samples"] or (), 1))
    yield from _samples(path.name, log, samples, problems)


def _samples(
    file: str, header: Mapping[str, Any], samples: Iterable[tuple[str, Any]], problems: Problems
) -> Iterator[RecordedOutput]:
    """The outputs of samples, which are read one by one."""
    facts, offers = _facts(header), _offers(header)
    for number, (name, read) in enumerate(samples, 1):
        try:
            yield _recorded(file, number, read(), facts, offers)
        except Invalid as error:
            for problem in error.problems:
                problems.add(file, number, f"{name}: {problem}")


def _read(path: Path, archive: ZipFile, info: ZipInfo) -> dict[str, Any]:
    """A JSON document of the archive."""
    try:
        with _unpacked(path, info) if info.compress_type == ZSTD else archive.open(info) as file:
            data = file.read(LARGEST + 1)
        if len(data) > LARGEST:
            raise Invalid(f"is longer than {LARGEST >> 20} MiB")
        return dict(read_json(data))
    except (
        zlib.error,
        lzma.LZMAError,
        EOFError,
        RecursionError,
        NotImplementedError,
        RuntimeError,
        zstandard.ZstdError,
        struct.error,
        BadZipFile,
        TypeError,
        ValueError,
    ) as error:
        raise Invalid(f"cannot be read: {error}") from None


def _unpacked(path: Path, info: ZipInfo) -> IO[bytes]:
    """A reader of an archive member compressed with zstd, which `zipfile` does not support."""
    with path.open("rb") as file:
        file.seek(info.header_offset)
        name, extra = struct.unpack("<HH", file.read(LOCAL_HEADER)[26:])
        file.seek(name + extra, 1)
        packed = file.read(info.compress_size)
    found: Any = zstandard.ZstdDecompressor(max_window_size=WINDOW).stream_reader(packed)
    return cast("IO[bytes]", found)


def _facts(header: Mapping[str, Any]) -> dict[str, Json]:
    """The task, its arguments, what was set for the model, and the model, from the header of the log."""
    task = header.get("eval") or {}
    given = {**(task.get("model_generate_config") or {}), **(task.get("task_args") or {})}
    arguments = {name: plain(value) for name, value in given.items() if value is not None}
    return {**normalise(arguments, "task_args"), "task": task.get("task", ""), "model": task.get("model", "")}


def _offers(header: Mapping[str, Any]) -> dict[str, str]:
    """Our evaluators that score as the log's scorers did, by the name of the score."""
    scorers = (header.get("eval") or {}).get("scorers") or ()
    found = {
        f"inspect.{one['name'].rpartition('/')[2]}": _offer(
            one["name"].rpartition("/")[2], one.get("options") or {}
        )
        for one in scorers
        if isinstance(one, Mapping) and isinstance(one.get("name"), str)
    }
    return {name: offer for name, offer in found.items() if offer}


def _offer(name: str, options: Mapping[str, Any]) -> str:
    """The evaluator for a scorer of Inspect with these options; "" if there is none."""
    if name == "match":
        if options.get("numeric"):
            return "numeric"
        place = PLACES.get(options.get("location", "end"), "end")
        return "match" if place == "whole" else f'{{"name": "match", "where": "{place}"}}'
    if name == "includes":
        return (
            "includes" if options.get("ignore_case", True) else '{"name": "includes", "ignore_case": false}'
        )
    return {"exact": "match", "choice": "choice", "math": "math_equal"}.get(name, "")


def _recorded(
    file: str, number: int, sample: Mapping[str, Any], facts: dict[str, Json], offers: dict[str, str]
) -> RecordedOutput:
    """The output of one sample."""
    kept = sample.get("attachments") or {}
    failure = sample.get("error") or {}
    error = failure.get("message")
    output = sample.get("output") or {}
    scores = dict(_scores(sample.get("scores") or {}))
    choices = sample.get("choices")
    metadata = {**({"choices": choices} if choices else {}), **(_whole(sample.get("metadata") or {}, kept))}
    return RecordedOutput(
        file=file,
        number=number,
        output=ABSENT if error is not None else _whole(_completion(output), kept),
        error="" if error is None else error or "failed",
        case=str(sample.get("id", number)),
        input=normalise(plain(_whole(_input(sample.get("input", "")), kept)), "input"),
        expected=normalise(_target(sample.get("target")), "target"),
        slice=facts["task"] or None,
        metadata=normalise(plain(metadata), "metadata"),
        facts=facts,
        repeat=checked_repeat(int(sample.get("epoch", 1)) - 1),
        took=seconds_of(sample.get("working_time") or sample.get("total_time")),
        metrics={**metrics_of(numbers_of(scores), *_used(sample, output)), **_called(sample)},
        scores=scores,
        offers=offers,
        about=_about(sample, output, facts),
        attached={"inspect.json": attachment(_whole(dict(sample), kept))},
        trace=str(failure.get("traceback") or ""),
    )


def _about(sample: Mapping[str, Any], output: Mapping[str, Any], facts: Mapping[str, Json]) -> dict[str, str]:
    """The model that answered, why it stopped, and the limit that ended the sample."""
    choices = output.get("choices") or [{}]
    found = {
        "served": output.get("model") or facts["model"],
        "finish": choices[0].get("stop_reason"),
        "limit": (sample.get("limit") or {}).get("type"),
    }
    return {name: str(value) for name, value in found.items() if value}


def _called(sample: Mapping[str, Any]) -> dict[str, float]:
    """How many replies there were, and how often they called each tool."""
    replies = [m for m in sample.get("messages") or () if m.get("role") == "assistant"]
    tools = Counter(call.get("function", "") for m in replies for call in m.get("tool_calls") or ())
    counts = {f"tool_calls.{name}": float(n) for name, n in tools.items()}
    total = {"tool_calls": float(tools.total())} if tools else {}
    return {**total, **counts, **({"calls": float(len(replies))} if replies else {})}


def _completion(output: Mapping[str, Any]) -> str:
    """The text of the model's last message; parts that are not text are omitted."""
    choices = output.get("choices") or [{}]
    content = (choices[0].get("message") or {}).get("content", output.get("completion", ""))
    if isinstance(content, list):
        return "".join(part.get("text", "") for part in content if part.get("type") == "text")
    return str(content)


def _input(given: Any) -> Json:
    """The input: a text, or the messages with role and content."""
    if not isinstance(given, list):
        return given
    return [{"role": one.get("role"), "content": one.get("content")} for one in given]


def _target(target: Any) -> Json:
    """The expected value; a list of one is its only element."""
    if isinstance(target, list) and len(target) == 1:
        return target[0]
    return None if target in ("", []) else target


def _used(sample: Mapping[str, Any], output: Mapping[str, Any]) -> tuple[dict[str, Json], Json]:
    """The tokens and the cost of all models together; no cost if one of them has none."""
    usages = list((sample.get("model_usage") or {}).values()) or [output.get("usage") or {}]
    total: dict[str, Json] = {}
    for ours, theirs in TOKENS.items():
        said = [usage[name] for usage in usages for name in theirs if usage.get(name) is not None]
        if said:
            total[ours] = sum(int(n) for n in said)
    costs = [usage.get("total_cost") for usage in usages]
    return total, None if None in costs else sum(costs)


def _scores(scores: Mapping[str, Any]) -> Iterator[tuple[str, Json]]:
    """The scores of the log's scorers, with explanations; grades (C, P, I, N) are numbers as in Inspect."""
    for name, score in scores.items():
        value = score.get("value")
        if isinstance(value, dict):
            value = {key: _graded(part) for key, part in value.items()}
        elif isinstance(value, list):
            value = [_graded(part) for part in value]
        yield f"inspect.{name}", score_of(_graded(value), score.get("explanation") or "")


def _graded(value: Any) -> Any:
    """A grade as its number; any other value as it is."""
    return GRADES.get(value, value) if isinstance(value, str) else value


def _whole(value: Any, kept: Mapping[str, str]) -> Any:
    """The value with references to attachments replaced by their content."""
    if isinstance(value, str) and value.startswith(ATTACHMENT):
        return kept.get(value.removeprefix(ATTACHMENT), value)
    if isinstance(value, list):
        return [_whole(item, kept) for item in value]
    if isinstance(value, dict):
        return {key: _whole(item, kept) for key, item in value.items()}
    return value
