"""Inspect logs (`.eval`): a zip archive of JSON documents, one for each sample and epoch."""

from __future__ import annotations

import lzma
import struct
import zlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import IO, Any, cast
from zipfile import BadZipFile, ZipFile, ZipInfo

import msgspec
import zstandard

from peira.core.ids import Json, normalise
from peira.data.outputs.record import ABSENT, RecordedOutput, checked_repeat, metrics_of, seconds_of
from peira.errors import Invalid
from peira.spec.data_files import Problems
from peira.spec.files import check_source

ZSTD = 93
LARGEST = 256 << 20
"""Bytes of a document in the archive; a small archive may hold one that fills the memory."""
WINDOW = 128 << 20
LOCAL_HEADER = 30
GRADES = {"C": 1.0, "P": 0.5, "I": 0.0, "N": 0.0}
ATTACHMENT = "attachment://"


def outputs(path: Path, problems: Problems) -> Iterator[RecordedOutput]:
    """The samples of a log in file order, numbered by position; raises `Invalid` if it is no log."""
    check_source(path)
    try:
        with ZipFile(path) as archive:
            facts = _facts(_read(path, archive, archive.getinfo("header.json")))
            samples = [info for info in archive.infolist() if info.filename.startswith("samples/")]
            for number, info in enumerate(samples, 1):
                try:
                    yield _recorded(path.name, number, _read(path, archive, info), facts)
                except Invalid as error:
                    for problem in error.problems:
                        problems.add(path.name, number, f"{info.filename}: {problem}")
    except KeyError:
        raise Invalid(f"{path.name}: has no header.json, so it is no whole log of Inspect") from None
    except BadZipFile as error:
        raise Invalid(f"{path.name}: is no log of Inspect ({error})") from None
    except OSError as error:
        raise Invalid(f"cannot read {path}: {error.strerror or error}") from None


def _read(path: Path, archive: ZipFile, info: ZipInfo) -> dict[str, Any]:
    """A JSON document of the archive."""
    try:
        with _unpacked(path, info) if info.compress_type == ZSTD else archive.open(info) as file:
            data = file.read(LARGEST + 1)
        if len(data) > LARGEST:
            raise Invalid(f"is longer than {LARGEST >> 20} MiB")
        return dict(msgspec.json.decode(data))
    except (
        msgspec.DecodeError,
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
    """The task, its arguments and the model, from the header of the log."""
    task = header.get("eval") or {}
    arguments = {name: value for name, value in (task.get("task_args") or {}).items() if value is not None}
    return {**normalise(arguments, "task_args"), "task": task.get("task", ""), "model": task.get("model", "")}


def _recorded(file: str, number: int, sample: Mapping[str, Any], facts: dict[str, Json]) -> RecordedOutput:
    """The output of one sample."""
    kept = sample.get("attachments") or {}
    error = (sample.get("error") or {}).get("message")
    output = sample.get("output") or {}
    usage = sample.get("model_usage") or {}
    return RecordedOutput(
        file=file,
        number=number,
        output=ABSENT if error is not None else _whole(_completion(output), kept),
        error="" if error is None else error or "failed",
        case=str(sample.get("id", number)),
        input=normalise(_whole(_input(sample.get("input", "")), kept), "input"),
        expected=normalise(_target(sample.get("target")), "target"),
        slice=facts["task"] or None,
        metadata=normalise(_whole(sample.get("metadata") or {}, kept), "metadata"),
        facts=facts,
        repeat=checked_repeat(int(sample.get("epoch", 1)) - 1),
        took=seconds_of(sample.get("working_time") or sample.get("total_time")),
        metrics=metrics_of(_scores(sample.get("scores") or {}), _used(usage.values()) or output.get("usage")),
    )


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


def _used(usages: Any) -> dict[str, int]:
    """The tokens of all models together."""
    total: dict[str, int] = {}
    for usage in usages:
        for name in ("input_tokens", "output_tokens"):
            total[name] = total.get(name, 0) + int(usage.get(name) or 0)
    return total


def _scores(scores: Mapping[str, Any]) -> dict[str, float]:
    """The scores of Inspect's own scorers that are a number or a grade."""
    found: dict[str, float] = {}
    for name, score in scores.items():
        value = score.get("value")
        parts = {f"{name}.{key}": v for key, v in value.items()} if isinstance(value, dict) else {name: value}
        for key, part in parts.items():
            if isinstance(part, str) and part in GRADES:
                found[key] = GRADES[part]
            elif isinstance(part, bool | int | float):
                found[key] = float(part)
    return {f"inspect.{name}": value for name, value in found.items()}


def _whole(value: Any, kept: Mapping[str, str]) -> Any:
    """The value with references to attachments replaced by their content."""
    if isinstance(value, str) and value.startswith(ATTACHMENT):
        return kept.get(value.removeprefix(ATTACHMENT), value)
    if isinstance(value, list):
        return [_whole(item, kept) for item in value]
    if isinstance(value, dict):
        return {key: _whole(item, kept) for key, item in value.items()}
    return value
