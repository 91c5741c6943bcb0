"""What is not to be kept is not kept, in the tables and in files alike; what that costs is said."""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

from peira import open as opened
from peira import run
from peira.app.store.migration import merge, migrate
from peira.app.store.retention import delete
from peira.cli import main
from peira.core.contracts import PayloadRemoval
from peira.errors import Invalid, NotKept
from peira.stores.memory import MemoryStore
from peira.stores.sqlite.store import SqliteStore
from peira.stores.verify import verify

SECRET = "a sentence that nobody else says"
STUDY = """
from pathlib import Path
from peira import ask, current_trial, exact, match, step, study

SECRET = "a sentence that nobody else says"

@study(cases=[("small", "x"), ("large", "x")], evaluators=[exact()], policy={"retries": 0})
def teller(case):
    step("look", lambda: SECRET)
    current_trial().attach("note.txt", SECRET * (1 if case.input == "small" else 5_000))
    said = ask("scripted:", SECRET).text
    if case.input in Path("bad").read_text().split():
        raise ValueError("not today")
    return said * (1 if case.input == "small" else 5_000)
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    Path("teller.py").write_text(STUDY)
    Path("bad").write_text("")
    return tmp_path


def storage(**switches: str) -> None:
    lines = "".join(f'{name} = "{value}"\n' for name, value in switches.items())
    Path("peira.toml").write_text(f"[storage]\n{lines}")


def problems(path: str = "s.db") -> list[str]:
    store = SqliteStore(path, readonly=True)
    try:
        return verify(store)
    finally:
        store.close()


def everything(path: str = "s.db") -> bytes:
    """All bytes of a store: its file, its log and its blobs."""
    files = [file for file in Path().rglob(f"{path}*") if file.is_file()]
    files += [file for file in Path(f"{path}.blobs").rglob("*") if file.is_file()]
    return b"".join(file.read_bytes() for file in files)


def test_compression_acts_on_tables_and_files(folder):
    storage(compression="none")
    run("teller.py", store="s.db", progress=False)
    assert (SECRET * 5_000).encode() in everything()
    storage(compression="zstd")
    run("teller.py", store="t.db", progress=False)
    assert (SECRET * 100).encode() not in everything("t.db")
    assert list(Path("t.db.blobs").rglob("*.zst"))
    assert not list(Path("s.db.blobs").rglob("*.zst"))
    storage(compression="none")
    again = run("teller.py", store="t.db", progress=False, fresh=True)
    assert len(again.trials) == 2
    assert problems("s.db") == problems("t.db") == []


def test_a_study_goes_before_the_project(folder):
    storage(compression="zstd")
    source = Path("teller.py").read_text().replace("policy=", 'storage={"compression": "none"}, policy=')
    Path("teller.py").write_text(source)
    run("teller.py", store="s.db", progress=False)
    assert not list(Path("s.db.blobs").rglob("*.zst"))


def test_payloads_as_digests_leave_nothing_that_was_said(folder):
    storage(payloads="digest", responses="drop", compression="none")
    ended = run("teller.py", store="s.db", progress=False)
    sentence = SECRET.encode()
    left = everything().replace(f'SECRET = "{SECRET}"'.encode(), b"")  # the study's own source is kept
    assert sentence not in left
    assert problems() == []
    assert [t.output for t in ended.trials] == [t.output for t in opened("s.db").results().trials]
    assert all("was not kept (storage)" in t.output for t in ended.trials)
    assert [t.scores["exact"].value for t in ended.trials] == [False, False]
    db = sqlite3.connect("s.db")
    assert db.execute("SELECT output FROM trials").fetchall() == [(None,), (None,)]
    assert db.execute("SELECT prompt, reply FROM calls").fetchall() == [(None, None)] * 2
    db.close()
    assert migrate("s.db").listed == 0


def test_what_others_refer_to_stays(folder):
    first = run("teller.py", store="s.db", progress=False)
    storage(payloads="digest")
    second = run("teller.py", store="s.db", progress=False, fresh=True)
    assert [t.output for t in opened("s.db").results(first.run_id).trials] == [SECRET, SECRET * 5_000]
    outputs = [t.output for t in opened("s.db").results(second.run_id).trials]
    assert outputs == [SECRET, SECRET * 5_000] or "was not kept" in outputs[0]
    assert problems() == []


def test_what_is_needed_to_go_on_is_kept_until_it_succeeded(folder):
    storage(payloads="digest", responses="drop")
    Path("bad").write_text("large")
    run("teller.py", store="s.db", progress=False)
    Path("bad").write_text("")
    again = run("teller.py", store="s.db", progress=False)
    assert {t.state for t in again.trials} == {"succeeded"}
    assert again.spent.calls == 0  # the answer of the trial that failed was there
    assert problems() == []


def test_an_answer_that_was_not_kept_is_not_bought_again_unasked(folder, capfd):
    storage(responses="drop")
    run("teller.py", store="s.db", progress=False)
    Path("teller.py").write_text(Path("teller.py").read_text().replace("said * (1", "said.upper() * (1"))
    again = run("teller.py", store="s.db", progress=False)
    why = {t.failure.message for t in again.trials if t.failure}
    assert all("its answer was not kept (storage.responses)" in line for line in why)
    assert again.spent.calls == 0
    keys = [call.key for call in opened("s.db").calls()]
    assert main(["resolve", "--discard", *keys, "--store", "s.db"]) == 0
    third = run("teller.py", store="s.db", progress=False)
    assert {t.state for t in third.trials} == {"succeeded"}
    assert main(["calls", keys[0], "--store", "s.db"]) == 0
    assert problems() == []


def test_scoring_again_says_why_it_cannot(folder):
    storage(payloads="digest")
    run("teller.py", store="s.db", progress=False)
    Path("teller.py").write_text(Path("teller.py").read_text().replace("[exact()]", "[match()]"))
    again = run("teller.py", store="s.db", progress=False)
    failures = {row.failure.message for row in again.failures}
    assert failures
    assert all("was not kept" in line for line in failures)


@pytest.mark.parametrize("place", ["forget.before_files", "store.before_commit:9"])
def test_a_kill_while_it_is_removed_leaves_a_sound_store(folder, place):
    storage(payloads="digest", responses="drop")
    command = [sys.executable, "-m", "peira.cli", "run", "teller.py", "--store", "s.db"]
    killed = subprocess.run(command, env={**os.environ, "PEIRA_FAILPOINT": place}, capture_output=True)
    assert killed.returncode == -9
    assert problems() == []
    run("teller.py", store="s.db", progress=False)
    assert problems() == []


def test_it_stays_so_when_runs_are_deleted_and_stores_merged(folder):
    run("teller.py", store="t.db", progress=False, name="whole")
    storage(payloads="digest", responses="drop")
    first = run("teller.py", store="s.db", progress=False)
    second = run("teller.py", store="s.db", progress=False, fresh=True)
    delete([first.run_id], "s.db")
    assert problems("s.db") == []
    assert "was not kept" in opened("s.db").results(second.run_id).trials[0].output
    merge("s.db", "t.db")
    assert problems("t.db") == []
    assert opened("t.db").results("whole").trials[0].output == SECRET


def test_a_store_that_keeps_everything_says_so(folder):
    storage(payloads="digest")
    assert not isinstance(MemoryStore(), PayloadRemoval)
    with pytest.raises(Invalid, match="keeps all payloads"):
        run("teller.py", store=MemoryStore(), progress=False)


def test_wrong_switches_are_refused(folder, capsys):
    Path("peira.toml").write_text('[storage]\npayloads = "none"\nresponse = "drop"\n')
    assert main(["run", "teller.py", "--store", "s.db"]) == 2
    said = capsys.readouterr().err
    assert "storage.payloads" in said
    assert "storage.response" in said


def test_doctor_shows_them(folder, capsys):
    storage(payloads="digest")
    main(["doctor"])
    assert "payloads as digests only" in capsys.readouterr().out


def test_a_forgotten_blob_says_so(folder):
    store = SqliteStore("s.db")
    digest = store.put(b"x" * 100_000)
    assert store.forget([digest]) > 0
    with pytest.raises(NotKept):
        store.get(digest)
    assert store.put(b"x" * 100_000) == digest
    assert store.get(digest) == b"x" * 100_000
    store.close()
