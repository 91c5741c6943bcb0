"""Stores that were damaged: what is wrong is said, with its place; the rest is still shown."""

from __future__ import annotations

import os
import random
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import apsw
import pytest

from peira import exact, run, study
from peira.cli import main
from peira.stores.sqlite import SqliteStore
from peira.stores.verify import verify

LOOKING = [
    ["verify"],
    ["runs"],
    ["show"],
    ["show", "--trials"],
    ["show", "--failures"],
    ["status"],
    ["events"],
    ["calls"],
    ["compare", "--by", "style"],
    ["export", "-o", "rows.csv", "--force"],
]


@study(cases=[(f"q{i}", f"q{i}") for i in range(20)], factors={"style": ["a", "b"]}, evaluators=[exact()])
def echo(case, style):
    return case.input


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("sound") / "store.db"
    run(echo, store=path)
    return path


def damaged(sound: Path, sql: str) -> Path:
    path = Path("store.db").resolve()
    shutil.copy(sound, path)
    db = apsw.Connection(str(path))
    db.execute(sql)
    db.close()
    return path


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def test_an_event_that_cannot_be_read_is_named_and_the_others_are_listed(
    sound: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    damaged(sound, "UPDATE event SET body = x'7b' WHERE place & 0xff = 7")
    assert main(["events", "--store", "store.db"]) == 0
    listed = capfd.readouterr().out
    assert "     7  " in listed
    assert "unreadable" in listed
    assert len(listed.splitlines()) > 20
    assert main(["verify", "--store", "store.db"]) == 1
    assert "event 7 cannot be read: Input data was truncated" in capfd.readouterr().out


NO_DIGEST = "replace(cast(body AS TEXT), substr(cast(body AS TEXT), instr(body, '\"task\"') + 8, 4), 'zzzz')"


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ("body = NULL", "event 7 cannot be read"),
        ("body = 12", "event 7 cannot be read"),
        ("at = 1e300", "event 7: 1e+300 is no time"),
        ("at = 'noon'", "event 7: 'noon' is no time"),
        (f"body = cast({NO_DIGEST} AS BLOB)", "event 7"),
    ],
)
def test_whatever_stands_in_the_row_of_an_event_trials_are_shown(
    sound: Path, change: str, told: str, capfd: pytest.CaptureFixture[str]
) -> None:
    table = "PRAGMA writable_schema = ON; UPDATE sqlite_schema SET sql = replace(sql, ' NOT NULL', '') "
    table += "WHERE type = 'table' AND name = 'event';"
    damaged(
        sound, f"{table} PRAGMA writable_schema = RESET; UPDATE event SET {change} WHERE place & 0xff = 7"
    )
    for words in (["show", "--trials"], ["show", "--trials", "--json"], ["events"], ["runs"]):
        assert main([*words, "--store", "store.db"]) == 0, words
    capfd.readouterr()
    assert main(["verify", "--store", "store.db"]) == 1
    assert told in capfd.readouterr().out


def test_a_result_that_cannot_be_read_is_a_failure_and_the_others_are_shown(
    sound: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    damaged(
        sound, "UPDATE task SET result = x'ff' WHERE n = (SELECT min(n) FROM task WHERE kind = 'generate')"
    )
    assert main(["show", "--failures", "--store", "store.db"]) == 0
    shown = capfd.readouterr().out
    assert "1 failed" in shown
    assert "StoreDamaged: task" in shown
    assert main(["verify", "--store", "store.db"]) == 1


def test_what_cannot_be_read_is_not_done_again_as_if_it_had_never_been_there(sound: Path) -> None:
    path = damaged(sound, "UPDATE task SET result = x'ff'")
    results = run(echo, store=path)
    assert {row.failure.type for row in results.failures} == {"StoreDamaged"}
    assert all(trial.reused for trial in results.trials)


@pytest.mark.parametrize("seed", [1, pytest.param(range(2, 12), marks=pytest.mark.torture)])
def test_no_single_bit_ends_a_command_in_a_traceback(sound: Path, seed: int | range) -> None:
    whole = sound.read_bytes()
    for number in [seed] if isinstance(seed, int) else seed:
        source = random.Random(number)
        for _ in range(12):
            data, at = bytearray(whole), source.randrange(len(whole))
            data[at] ^= 1 << source.randrange(8)
            for file in Path().iterdir():
                shutil.rmtree(file) if file.is_dir() else file.unlink()
            Path("store.db").write_bytes(data)
            for words in LOOKING:
                assert main([*words, "--store", "store.db"]) in (0, 1, 2), (number, at, words)


KILLED = """
import os, signal, sys
from peira.stores.sqlite import SqliteStore
from peira.testing.stores.actions import accept, claimed, finished, plan_run

store = SqliteStore(sys.argv[1])
run = plan_run(store)
for i in range(20):
    accept(store, run, claimed(f"t{i}"), finished(f"t{i}"))
os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.fixture
def killed() -> Path:
    path = Path("killed.db").resolve()
    done = subprocess.run([sys.executable, "-c", KILLED, str(path)])
    assert done.returncode == -signal.SIGKILL
    return path


def test_a_store_whose_log_was_removed_after_a_kill_is_not_sound(killed: Path) -> None:
    log = killed.with_name("killed.db-wal")
    assert log.stat().st_size > 0
    log.unlink()
    reader = SqliteStore(killed, readonly=True)
    assert any("had been removed" in line for line in verify(reader))
    reader.close()
    SqliteStore(killed).close()  # a new owner does not make it sound
    reader = SqliteStore(killed, readonly=True)
    assert any("had been removed" in line for line in verify(reader))
    reader.close()


def test_a_store_of_a_killed_owner_is_sound_with_its_log(killed: Path) -> None:
    for _ in range(2):
        reader = SqliteStore(killed, readonly=True)
        assert verify(reader) == []
        reader.close()
        SqliteStore(killed).close()


@pytest.fixture
def medium(tmp_path: Path) -> Iterator[Path]:
    """A medium that can be made unwritable."""
    folder = tmp_path / "medium"
    folder.mkdir()
    mount = shutil.which("mount")
    made = mount and subprocess.run([mount, "-t", "tmpfs", "tmpfs", folder], stderr=subprocess.DEVNULL)
    if not made or made.returncode:
        pytest.skip("no medium of one's own can be mounted here")
    yield folder
    subprocess.run(["umount", folder], check=True)


@pytest.mark.parametrize("end", ["closed", "killed"])
def test_a_store_on_a_medium_that_cannot_be_written_can_be_read(
    medium: Path, killed: Path, sound: Path, end: str, capfd: pytest.CaptureFixture[str]
) -> None:
    for source in [sound] if end == "closed" else [killed, killed.with_name("killed.db-wal")]:
        shutil.copy(source, medium)
    name = sound.name if end == "closed" else killed.name
    subprocess.run(["mount", "-o", "remount,ro", medium], check=True)
    before = sorted(os.listdir(medium))
    for words in (["runs"], ["verify"], ["events"]):
        assert main([*words, "--store", str(medium / name)]) == 0, capfd.readouterr().err
    assert "sound" in capfd.readouterr().out
    assert sorted(os.listdir(medium)) == before
