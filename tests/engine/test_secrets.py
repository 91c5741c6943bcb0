"""A canary in resources, in the environment or in a constant reaches nothing that is kept or shown."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

import peira
from peira import run
from peira.core.text.secrets import value_without_keys, without_keys
from peira.models.secrets import Key
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


FAILS = """
import os
from peira import current_trial, study

@study(cases=["q"], policy={"retries": 1, "backoff": 0.01})
def leaks(case):
    trial = current_trial()
    secret = os.environ["SERVICE_PASSWORD"]
    trial.log("asked", header=f"Basic {secret}", nested=[{secret: secret}], times=1)
    trial.describe(model=f"at {secret}")
    raise ValueError(f"the service refused {secret!r} (line 1)")
"""


@pytest.mark.parametrize("runner", ["local", "process"])
def test_a_secret_in_an_exception_or_an_observation_is_replaced_before_it_is_written(
    folder: Path, written, monkeypatch, runner
) -> None:
    monkeypatch.setenv("SERVICE_PASSWORD", CANARY)
    results = run(written(FAILS), store="s.db", runner=runner, progress=False, log="run.log")
    (row,) = results.failures
    assert row.failure is not None
    assert "the service refused '[hidden]' (line 1)" in row.failure.message
    assert CANARY.encode() not in everything(folder)
    observed = [
        r.event for r in peira.open("s.db").events(results.run_id) if r.event.__class__.__name__ == "Observed"
    ]
    assert (
        bytes(observed[0].data) == b'{"header":"Basic [hidden]","nested":[{"[hidden]":"[hidden]"}],"times":1}'
    )


@pytest.mark.parametrize(
    ("name", "secret"),
    [
        (name, True)
        for name in ("MY_API_KEY", "DB_PASSWORD", "GITHUB_TOKEN", "AWS_SECRET", "APIKEY", "MY_KEY2")
    ]
    + [(name, False) for name in ("KEYBOARD", "MONKEY", "TOKENIZERS_PARALLELISM")],
)
def test_which_variables_look_like_secrets(monkeypatch, name: str, secret: bool) -> None:
    monkeypatch.setenv(name, "quite-a-value-91")
    assert (without_keys("it is quite-a-value-91") == "it is [hidden]") == secret


def test_the_key_of_a_model_is_hidden_whatever_its_variable_is_called(monkeypatch) -> None:
    monkeypatch.setenv("WHERE_IT_IS", "plainly-named-4711")
    assert without_keys("plainly-named-4711") == "plainly-named-4711"
    Key("WHERE_IT_IS").check("m")
    assert without_keys("sent plainly-named-4711!") == "sent [hidden]!"
    assert value_without_keys({"a": ["plainly-named-4711", 1, None]}) == {"a": ["[hidden]", 1, None]}
