"""Keys in headers, in URLs and in what a provider echoes reach nothing that is kept or shown."""

from __future__ import annotations

import base64
import logging
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
import zstandard

import peira
from peira.cli import main
from peira.stores.sqlite import SqliteStore

KEY = "canary-7f3a91c2-key-0b5d"
TEAM = "canary/team+5c1e88f0"
PASSWORD = "canary-pass-93ab17d4"
TOKEN = "canary-token-4e2f6a90"
SECRETS = (KEY, TEAM, PASSWORD, TOKEN)
PIECE = 10

SOURCE = """
from peira import ask, current_trial, study

@study(cases=list(range(6)), factors={"model": ["%s", "teamed"]}, policy={"call_tries": 2},
       evaluators=[lambda output: ask("%s", f"judge {output}").text != ""])
def talks(case, model):
    trial = current_trial()
    reply = ask(model, f"question {case.input}")
    trial.log("answered", text=reply.text)
    trial.describe(model=model)
    if case.input == 5:
        raise ValueError(f"no use: {reply!r}")
    return reply.text
"""


def forms(secret: str) -> set[bytes]:
    """A secret as it may be written, and every long piece of it."""
    whole = {secret, quote(secret, safe=""), quote(secret), base64.b64encode(secret.encode()).decode()}
    pieces = {secret[i : i + PIECE] for i in range(len(secret) - PIECE + 1)}
    return {form.encode() for form in whole | pieces}


def kept(folder: Path, apart: tuple[str, ...]) -> bytes:
    """All that lies in the folder, as it is and unpacked, and all that the store knows."""
    files = [f.read_bytes() for f in folder.rglob("*") if f.is_file() and f.name not in apart]
    unpacked = [
        zstandard.ZstdDecompressor().decompress(data) for data in files if data[:4] == b"\x28\xb5\x2f\xfd"
    ]
    store = SqliteStore(folder / "s.db", readonly=True)
    blobs = [store.get(digest) for digest, *_ in store.blobs()]
    told = [f"{record}".encode() for record in store.history()] + [f"{row}".encode() for row in store.rows()]
    store.close()
    return b"".join(files + unpacked + blobs + told)


def found_in(text: bytes) -> list[bytes]:
    return [form for secret in SECRETS for form in forms(secret) if form in text]


TURNS: tuple[dict[str, Any], ...] = (
    {"status": 400, "echo": True},
    {"status": 500, "echo": True},
    {"status": 429, "echo": True, "retry_after": 0.05},
    {"status": 401, "message": f"Incorrect API key provided: {KEY[:12]}***{KEY[-4:]}"},
    {"status": 502, "error": {"error": f"upstream said {PASSWORD} {quote(TOKEN)}"}},
    {"do": "cut"},
    {"status": 400, "text_error": f'{{"error": "{KEY}'},
)
ECHOES: tuple[dict[str, Any], ...] = (
    {"text": f"your key is {KEY}, and {TOKEN}"},
    {"raw": f'{{"choices": "{KEY}"}}'},
    {"raw": f"<html>{KEY}</html>", "type": "text/html"},
    {"text": "long " + "word " * 2000 + KEY},  # large enough for a blob
)
"""Answers, which are kept as they came."""


OF_THE_TEAM: tuple[dict[str, Any], ...] = (
    {"status": 403, "message": f"team {TEAM} is not allowed"},
    {"status": 500, "message": f"team {quote(TEAM, safe='')} broke"},
)


@pytest.mark.parametrize("runner", ["local", "process"])
def test_no_secret_is_kept_or_shown(
    endpoint: Any, folder: Path, written: Any, monkeypatch: Any, caplog: Any, capfd: Any, runner: str
) -> None:
    open_url = endpoint.base.replace("//", f"//user:{PASSWORD}@")
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    monkeypatch.setenv("OPENAI_BASE_URL", f"{open_url}/v1?token={TOKEN}")
    monkeypatch.setenv("TEAM_KEY", TEAM)
    name, team = f"openai:{endpoint.model}", endpoint.other("team")
    (folder / "peira.toml").write_text(
        f'[models.teamed]\nmodel = "openai:{team.model}"\nheaders = {{"x-team" = "$TEAM_KEY"}}\n'
    )
    endpoint.script(*TURNS)
    team.script(*OF_THE_TEAM, *TURNS)
    written(SOURCE % (name, name))
    where = ["--store", "s.db"]
    with caplog.at_level(logging.DEBUG):
        assert main(["run", "s.py", *where, "--runner", runner, "--log", "log.jsonl", "--parallel", "3"]) == 1
        for look in (["show"], ["show", "--json"], ["events", "--json"], ["calls"], ["calls", "--json"]):
            main([*look, *where])
        results = peira.open("s.db").results()
        failed = results.failures
        assert failed
        for row in failed[:3]:
            main(["show", row.trial.id[:12], *where])
        for call in peira.open("s.db").calls()[:20]:
            main(["calls", call.key[:12], *where])
    results.to_csv(folder / "out.csv")
    results.to_jsonl(folder / "out.jsonl")
    sent = [seen["headers"] | {"url": seen["path"]} for seen in endpoint.seen() + team.seen()]
    assert any(headers.get("authorization") == f"Bearer {KEY}" for headers in sent)
    assert any(headers.get("x-team") == TEAM for headers in sent)
    assert all(TOKEN in headers["url"] for headers in sent)
    shown = "".join([*capfd.readouterr(), caplog.text, str(results), repr(failed), str(results.trials)])
    assert found_in(shown.encode()) == []
    assert found_in(kept(folder, apart=("s.py", "peira.toml"))) == []


def test_a_secret_in_an_answer_is_kept_marked_and_not_shown(
    endpoint: Any, folder: Path, written: Any, monkeypatch: Any, caplog: Any, capfd: Any
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    monkeypatch.setenv("OPENAI_BASE_URL", f"{endpoint.base}/v1?token={TOKEN}")
    monkeypatch.setenv("TEAM_KEY", TEAM)
    (folder / "peira.toml").write_text(f'[models.teamed]\nmodel = "openai:{endpoint.model}"\n')
    endpoint.script(*ECHOES, {"text": f"hello {TEAM}"})
    name = f"openai:{endpoint.model}"
    written(SOURCE % (name, name))
    where = ["--store", "s.db"]
    with caplog.at_level(logging.DEBUG):
        main(["run", "s.py", *where, "--parallel", "1"])
        look = peira.open("s.db")
        for command in (["show"], ["show", "--json"], ["events"], ["calls"], ["calls", "--json"], ["status"]):
            main([*command, *where])
        for row in look.results().trials:
            main(["show", row.id[:12], *where])
        for call in look.calls():
            main(["calls", call.key[:12], *where])
            main(["calls", call.key[:12], *where, "--json"])
    shown = "".join([*capfd.readouterr(), caplog.text])
    assert found_in(shown.encode()) == []
    assert "an answer holds the key that was sent: kept, and not shown" in shown
    assert "[hidden]" in shown
    kept_bytes = kept(folder, apart=("s.py", "peira.toml"))
    assert KEY.encode() in kept_bytes  # in outputs, as the agent returned them


def test_they_would_be_found(folder: Path, written: Any, monkeypatch: Any) -> None:
    """The search itself: what an agent gives away is in the store, in whatever form."""
    monkeypatch.setenv("GIVEN_AWAY", TEAM)
    for form in (TEAM, quote(TEAM, safe=""), TEAM[3:14], "word " * 2000 + TEAM):
        (folder / "s.db").unlink(missing_ok=True)
        peira.run(
            peira.study(agent=lambda case: case.input, cases=[form], name="s"), store="s.db", progress=False
        )
        assert found_in(kept(folder, apart=()))
