"""How fan-outs of work units break elsewhere. Each is impossible here, and a test of its name shows it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from peira.app.session import Session
from peira.app.work.merge import apply_changes, commit_changes
from peira.app.work.view import find_work
from peira.core.log.events import TaskFinished
from peira.errors import Invalid
from peira.sandbox.confinement import confinement

from .conftest import SLEEP, sleepers, states, until

pytestmark = [
    pytest.mark.timeout(300),
    pytest.mark.skipif(isinstance(confinement(), str), reason=f"no sandbox here: {confinement()}"),
]


def ends_of(run: str, store: str = "w.db") -> list[str]:
    """The tasks of a run that ended, once for each end."""
    with Session.find(store).reading() as opened:
        return [r.event.task for r in opened.events(run, limit=10_000) if isinstance(r.event, TaskFinished)]


@pytest.mark.parametrize("parallel", [0, -1])
def test_max_workers_0_runs_nothing_and_says_all_complete(work, parallel: int) -> None:
    with pytest.raises(Invalid, match="parallel: must be between 1 and"):
        work({"a": "true"}, parallel=parallel)


def test_one_failure_cancels_independent_siblings_and_some_units_get_no_event_at_all(work) -> None:
    units = {
        "bad": "exit 1",
        **{f"s{n}": "sleep 0.1" for n in range(4)},
        "t": {"needs": ["s0", "s1"], "run": "true"},
        "b": {"needs": ["bad", "s2"], "run": "true"},
    }
    outcome = work(units)
    assert states(outcome) == {
        "bad": "failed",
        **{f"s{n}": "succeeded" for n in range(4)},
        "t": "succeeded",
        "b": "blocked",
    }
    assert sorted(ends_of(outcome.run_id)) == sorted(one.task for one in outcome.units.values())


def test_a_success_in_the_same_tick_as_a_failure_is_reported_cancelled(work) -> None:
    for n in range(3):
        both = work({"good": f"sleep 0.05; : {n}", "bad": f"sleep 0.05; : {n}; exit 1"}, fail_fast=True)
        assert states(both) == {"good": "succeeded", "bad": "failed"}


def test_stale_artifact_of_a_former_run_accepted(work, folder: Path) -> None:
    made = {"run": "echo x > out/r", "may_write": ["out"], "evidence": ["out/r"]}
    assert work({"a": made})["a"].state == "succeeded"
    (folder / "base" / "out").mkdir()
    (folder / "base" / "out" / "r").write_text("x\n")  # applied, or forged
    outcome = work({"a": {**made, "run": "true"}})
    assert outcome["a"].why == "evidence: it made or changed nothing that matches out/r"


def test_exit_code_7_plus_an_artifact_counts_as_success(work) -> None:
    outcome = work({"a": {"run": "echo x > out/r; exit 7", "may_write": ["out"], "evidence": ["out/r"]}})
    assert outcome["a"].state == "failed"
    assert outcome["a"].why == "sh: exit code 7"
    assert outcome["a"].changed == []


def test_resumed_unit_with_a_finished_dependency_is_unknown_dependency(work) -> None:
    plan = {"a": {"run": "echo 1 > x/a", "may_write": ["x"]}, "b": {"needs": ["a"], "run": "exit 1"}}
    assert states(work(plan)) == {"a": "succeeded", "b": "failed"}
    plan["b"]["run"] = "cat x/a"
    again = work(plan)
    assert states(again) == {"a": "succeeded", "b": "succeeded"}
    assert again["a"].reused


FORKS = f"""
import os, subprocess, sys, time
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        os.execvp("sleep", ["sleep", "{SLEEP}"])
    os._exit(0)
subprocess.Popen(["sleep", "{SLEEP}"])
subprocess.Popen(["sleep", "{SLEEP}"], stdout=subprocess.DEVNULL, start_new_session=True)
print("forked", flush=True)
"""


@pytest.mark.parametrize("confine", [True, False])
def test_background_and_double_forked_grandchildren_survive_success(work, confine: bool) -> None:
    outcome = work({"a": {"run": ["python3", "-c", FORKS], "confine": confine}})
    assert outcome["a"].state == "succeeded"
    assert until(lambda: not sleepers())


def test_background_and_double_forked_grandchildren_survive_cancel(started, folder: Path) -> None:
    (folder / "base" / "forks.py").write_text(FORKS + "time.sleep(60)\n")
    units = "".join(
        f'[units.{name}]\nrun = ["python3", "forks.py"]\nconfine = {confine}\n'
        for name, confine in (("a", "true"), ("b", "false"))
    )
    process = started(f'base = "base"\n{units}[units.c]\nrun = ["sleep", "1"]\n')
    until(lambda: len(sleepers()) == 6)
    words = [sys.executable, "-m", "peira", "work", "cancel", "a", "b", "--store", "w.db", "--json"]
    done = subprocess.run(words, capture_output=True, cwd=folder, check=False)
    assert json.loads(done.stdout) == {"units": {"a": "cancelled", "b": "cancelled"}}
    found, _ = process.communicate(timeout=120)
    units_found = json.loads(found)["units"]
    assert {name: one["state"] for name, one in units_found.items()} == {
        "a": "cancelled",
        "b": "cancelled",
        "c": "succeeded",
    }
    assert process.returncode == 1
    assert until(lambda: not sleepers())


def test_a_grandchild_holding_stdout_keeps_the_unit_open(work) -> None:
    began = time.monotonic()
    outcome = work({"a": f"sleep {SLEEP} & echo started"})
    assert outcome["a"].state == "succeeded"
    assert time.monotonic() - began < 60
    assert until(lambda: not sleepers())


def test_workers_write_outside_their_directories_into_siblings_and_forge_their_artifacts(
    work, folder: Path
) -> None:
    store, victim = folder / "w.db", folder / "base" / "README.md"
    attack = (
        f"echo x > {victim}; echo x > {store}; echo x > /etc/forged; echo x > /work/b/forged; "
        "echo x > ../b/forged; for f in $(find /work /tmp /peira -name 'b' -type d); "
        "do echo x > $f/forged; done; echo fine > a/mine"
    )
    outcome = work(
        {
            "a": {"run": attack, "may_write": ["a"]},
            "b": {"run": "sleep 0.5; echo x > b/x", "may_write": ["b"], "evidence": ["b/x"]},
        }
    )
    assert states(outcome) == {"a": "succeeded", "b": "succeeded"}
    assert outcome["a"].changed == ["a/mine"]
    assert outcome["b"].changed == ["b/x"]
    assert victim.read_text() == "a base\n"
    assert not Path("/etc/forged").exists()
    with Session.find("w.db").reading() as opened:
        assert find_work(Session.find("w.db"), opened).succeeded


def test_symlink_escape(work, folder: Path) -> None:
    secret = folder / "secret"
    secret.write_text("secret\n")
    outside = folder / "outside"
    outside.mkdir()
    outside.chmod(0o777)
    outcome = work(
        {
            "a": {
                "run": f"rm -rf d/x; ln -s {outside} d/x; ln -s {secret} d/s; ln -s / d/root; echo in > d/in",
                "may_write": ["d"],
            },
            "b": {"needs": ["a"], "run": "echo x > d/x/forged", "may_write": ["d/x"]},
            "c": {"needs": ["a"], "run": "cat d/s"},
        }
    )
    assert states(outcome) == {"a": "succeeded", "b": "failed", "c": "failed"}
    assert outcome["b"].why == "may_write: 'd/x' leads through a link"
    assert list(outside.iterdir()) == []
    changes = outcome["a"].result.changes
    assert {path: one.kind for path, one in changes.items() if one} == {
        "d/in": "file",
        "d/root": "link",
        "d/s": "link",
        "d/x": "link",
    }
    with Session.find("w.db").reading() as opened:
        assert opened.get(outcome["a"].artifacts["changes/d/s"]) == os.fsencode(secret)


def test_a_300_kb_line_fails_a_unit_and_much_output_is_held_in_memory(work) -> None:
    outcome = work(
        {
            "line": {"run": ["python3", "-c", "print('x' * 300_000)"]},
            "much": {
                "run": ["python3", "-c", "import os\nfor _ in range(128): os.write(1, b'y' * (1 << 20))"]
            },
        }
    )
    assert states(outcome) == {"line": "succeeded", "much": "succeeded"}
    with Session.find("w.db").reading() as opened:
        assert len(opened.get(outcome["line"].artifacts["log.txt"])) == 300_001
        kept = opened.get(outcome["much"].artifacts["log.txt"])
    assert len(kept) < 5 << 20
    assert b"bytes are left out here" in kept


def test_coordinator_death_leaves_5_of_5_workers_running(started, folder: Path) -> None:
    units = "".join(
        f'[units.u{n}]\nrun = ["sh", "-c", "sleep {SLEEP} & sleep {SLEEP}"]\n'
        f"confine = {'false' if n % 2 else 'true'}\n"
        for n in range(5)
    )
    process = started(f'base = "base"\nparallel = 5\n{units}')
    until(lambda: len(sleepers()) == 10)
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert until(lambda: not sleepers())


def test_synchronous_start_up_blocks_the_loop(work, folder: Path) -> None:
    """One unit with a large workspace does not keep another from running."""
    big = folder / "base" / "big"
    big.mkdir()
    for n in range(200):
        (big / f"{n}").write_bytes(bytes(20_000))
    outcome = work(
        {
            **{
                f"w{n}": {"run": "true", "may_write": ["big"], "needs": [f"w{n - 1}"] if n else []}
                for n in range(4)
            },
            "quick": "true",
        }
    )
    assert set(states(outcome).values()) == {"succeeded"}
    ends = ends_of(outcome.run_id)
    assert ends.index(outcome["quick"].task) < ends.index(outcome["w3"].task)


def test_first_interrupt_drains_and_the_second_stops(started, folder: Path) -> None:
    plan = (
        'base = "base"\nparallel = 2\n'
        '[units.a]\nrun = ["sh", "-c", "echo go; sleep 2; echo end"]\n'
        f'[units.b]\nrun = ["sleep", "{SLEEP}"]\npriority = 1\n'
        '[units.c]\nneeds = ["a"]\nrun = ["true"]\n'
    )
    process = started(plan)
    until(lambda: sleepers())
    process.send_signal(signal.SIGINT)
    session = Session.find(folder / "w.db")

    def ended() -> bool:
        with session.reading() as store:
            return find_work(session, store).units["a"].state == "succeeded"

    until(ended)
    assert process.poll() is None  # b goes on
    process.send_signal(signal.SIGINT)
    found, _ = process.communicate(timeout=120)
    units = json.loads(found)["units"]
    assert {name: one["state"] for name, one in units.items()} == {
        "a": "succeeded",
        "b": "cancelled",
        "c": "cancelled",
    }
    assert units["c"]["why"] == "not begun: interrupted"
    assert process.returncode == 130
    assert not sleepers()


def test_hooks_and_configuration_of_git_in_a_workspace_are_never_read(work, folder: Path) -> None:
    mark = folder / "mark"
    config = f"[core]\\n\\tfsmonitor = touch {mark}\\n\\thooksPath = hooks\\n"
    config += f'[filter \\"f\\"]\\n\\tclean = touch {mark}\\n'
    hook = f"#!/bin/sh\\ntouch {mark}\\n"
    attack = (
        f'mkdir -p x/.git/hooks x/.git/objects x/.git/refs; printf "{config}" > x/.git/config; '
        "echo '* filter=f' > x/.gitattributes; echo ref: refs/heads/m > x/.git/HEAD; "
        f"printf '{hook}' > x/.git/hooks/post-index-change; chmod +x x/.git/hooks/*; echo y > x/y"
    )
    base = folder / "base"
    for words in (
        ["init", "-q"],
        ["add", "."],
        ["-c", "user.name=a", "-c", "user.email=b", "commit", "-qm", "1"],
    ):
        subprocess.run(["git", *words], cwd=base, check=True, capture_output=True)
    outcome = work({"a": {"run": attack, "may_write": ["x"], "check": ["test", "!", "-e", "x/.git"]}})
    assert outcome["a"].changed == ["x/.gitattributes", "x/y"]
    session = Session.find("w.db")
    with session.reading() as store:
        view = find_work(session, store)
        assert commit_changes(view, store.get) is not None
        apply_changes(view, store.get)
    assert not mark.exists()
    assert not (base / "x" / ".git").exists()


def test_a_unit_sees_neither_the_store_nor_the_variables_of_the_owner(
    work, monkeypatch, folder: Path
) -> None:
    monkeypatch.setenv("OWNER_SECRET", "canary-5521")
    outcome = work({"a": f"env; cat /proc/1/environ; ls {folder}; true"})
    with Session.find("w.db").reading() as opened:
        log = opened.get(outcome["a"].artifacts["log.txt"])
    assert b"canary-5521" not in log
    assert b"w.db" not in log
