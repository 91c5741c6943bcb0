"""A canary in resources, in the environment or in a constant reaches nothing that is kept or shown."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

import peira
from peira import run
from peira.stores.sqlite import SqliteStore

CANARY = "canary-7f3a91c2"
SOURCE = """
import os
from peira import Case, current_trial, exact, study

KEY = os.environ["SERVICE_API_KEY"]

class Client:
    def __init__(self, key):
        self.key = key

    def ask(self, question, header):
        assert self.key == header
        return question

@study(cases=[Case(i, expected=i) for i in range(4)], evaluators=[exact()])
def uses(case):
    trial = current_trial()
    client = trial.resources.get("client") or Client(os.environ["SERVICE_API_KEY"])
    trial.log("asked", times=1)
    if case.input == 3:
        raise OSError("refused")
    return client.ask(case.input, KEY)
"""


class Client:
    def __init__(self, key: str) -> None:
        self.key = key

    def ask(self, question, header):
        return question if self.key == header else None


def everything(folder: Path) -> bytes:
    """All that is on disk beside the source, and all that the store holds, unpacked."""
    files = b"".join(f.read_bytes() for f in folder.rglob("*") if f.is_file() and f.suffix != ".py")
    store = SqliteStore(folder / "s.db", readonly=True)
    kept = b"".join(store.get(digest) for digest, *_ in store.blobs())
    told = "".join(f"{record}" for record in store.history()) + "".join(f"{row}" for row in store.rows())
    store.close()
    return files + kept + told.encode()


@pytest.mark.parametrize("runner", ["local", "process"])
def test_a_secret_reaches_no_event_blob_export_or_log(
    folder: Path, written, monkeypatch, caplog, capfd, runner
) -> None:
    monkeypatch.setenv("SERVICE_API_KEY", CANARY)
    resources = {"client": Client(CANARY)} if runner == "local" else {}
    with caplog.at_level(logging.DEBUG):
        results = run(written(SOURCE), store="s.db", runner=runner, resources=resources, progress=True)
    assert (results.counts["succeeded"], results.counts["failed"]) == (3, 1)
    results.to_csv(folder / "out.csv")
    results.to_jsonl(folder / "out.jsonl")
    for format in ("csv-long", "excel", "sqlite", "artifact"):
        results.export(folder / format, format)
    shown = [str(results), repr(results), str(results.failures), caplog.text, *capfd.readouterr()]
    assert CANARY not in "".join(shown)
    assert CANARY.encode() not in everything(folder)
    preview = peira.plan("s.py", store="s.db")
    assert CANARY not in str(preview) + str(preview.to_json())


def test_the_canary_would_be_found(folder: Path, written, monkeypatch) -> None:
    """The search itself: a secret that an agent returns is of course in the store."""
    monkeypatch.setenv("SERVICE_API_KEY", CANARY)
    source = SOURCE.replace("return client.ask(case.input, KEY)", "return KEY")
    run(written(source), store="s.db", progress=False)
    assert CANARY.encode() in everything(folder)
