"""Several processes at once: interrupts, detached runs, watching, cancelling."""

from __future__ import annotations

import contextlib
import os
import shlex
import signal
import subprocess


def test_ctrl_c_lets_running_trials_finish_and_says_how_to_go_on(spawn, under_way, peira):
    process = spawn("run", "slow.py", "--parallel", "4", "--fresh", "--limit", "120")
    under_way(8)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=30)
    assert process.returncode == 130
    *_, last = err.splitlines()
    assert last.startswith("peira: interrupted; to go on: peira run slow.py")
    stands = peira("status", "--json").document
    assert stands["status"] == "interrupted"
    assert "cancelled" not in stands["counts"]
    words = shlex.split(last.partition("go on: peira ")[2])
    assert "--fresh" not in words
    done = peira(*words, "--json")
    assert done.code == 0
    assert done.document["counts"]["reused"] == stands["counts"]["succeeded"]
    assert done.document["counts"]["succeeded"] == 120 - stands["counts"]["succeeded"]


def test_a_second_ctrl_c_cancels_what_runs(folder, spawn, under_way, peira):
    (folder / "hang.py").write_text(
        "import time\nfrom peira import study\n@study(cases=['a', 'b', 'c'])\n"
        "def hang(case):\n    time.sleep(0 if case.input == 'a' else 600)\n    return 1\n"
    )
    process = spawn("run", "hang.py", "--json")
    under_way(1)
    while process.poll() is None:  # signals that come close together may arrive as one
        process.send_signal(signal.SIGINT)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(0.3)
    assert process.returncode == 130
    assert peira("status", "--json").document["counts"]["cancelled"] == 2


def test_a_second_run_is_refused_and_does_nothing(folder, spawn, under_way, ended, peira):
    (folder / "held.py").write_text(
        "import time\nfrom pathlib import Path\nfrom peira import study\n@study(cases=['at once', 'held'])\n"
        "def held(case):\n    while case.input == 'held' and not Path('go').exists():\n"
        "        time.sleep(0.01)\n    return 1\n"
    )
    process = spawn("run", "held.py")
    under_way(1)
    second = ended("run", "capitals.py")
    assert second.code == 4
    assert second.problems == [line for line in second.problems if line.startswith("peira: the store")]
    assert peira("verify").code == 4
    (folder / "go").touch()
    process.communicate(timeout=30)
    assert [run["study"] for run in peira("runs", "--json").document["runs"]] == ["held"]


def test_a_run_that_waits_its_turn(spawn, under_way, ended, peira):
    first = spawn("run", "slow.py", "--limit", "60")
    under_way(2)
    assert ended("run", "capitals.py", "--wait").code == 0
    first.communicate(timeout=30)
    assert first.returncode == 0


def test_a_detached_run_goes_on_alone_and_is_watched_to_its_end(ended, peira, stop_process):
    started = ended("run", "slow.py", "--limit", "80", "--detach", "--json")
    stop_process.append(started.document["pid"])
    assert started.code == 0
    run = started.document["run"]
    assert os.getsid(started.document["pid"]) == started.document["pid"]
    watched = peira("watch", run[:8], "--json")
    assert watched.code == 0
    assert watched.document["status"] == "completed"
    assert watched.document["progress"]["done"] == 80


def test_what_a_detached_run_cannot_begin_with_is_told_at_once(ended, folder, spawn, under_way):
    bad = ended("run", "capitals.py", "--detach", "--where", "modle=a")
    assert bad.code == 2
    assert "did you mean 'model'" in bad.err
    assert not (folder / ".peira").exists()
    spawn("run", "slow.py")
    under_way(1)
    assert ended("run", "capitals.py", "--detach").code == 4


def test_cancel_from_another_process_says_what_it_stopped(spawn, under_way, ended, peira):
    process = spawn("run", "slow.py", "--parallel", "3", "--json")
    run = under_way(4)["run"]
    done = ended("cancel", run[:10], "--json")
    assert done.code == 0
    out, _ = process.communicate(timeout=30)
    assert process.returncode == 1
    told = done.document
    assert told["status"] == "cancelled"
    assert 1 <= told["stopped_running"] <= 4
    assert told["never_started"] > 3000
    assert told["counts"]["planned"] == 4000
    assert peira("verify").code == 0
    again = peira("cancel", run)
    assert (again.code, again.problems) == (1, [f"peira: run {run[:12]} was over already: cancelled"])
    assert "cancelled" in out


def test_cancel_marks_a_run_whose_process_was_killed(spawn, under_way, peira):
    process = spawn("run", "slow.py", "--limit", "60")
    run = under_way(4)["run"]
    process.kill()
    process.wait()
    assert peira("status", "--json").document["status"] == "interrupted"
    assert [r["run"] for r in peira("runs", "--status", "interrupted", "--json").document["runs"]] == [run]
    assert peira("runs", "--status", "running", "--json").document["runs"] == []
    assert peira("watch").code == 1
    done = peira("cancel", run, "--json")
    assert (done.code, done.document["status"], done.document["stopped_running"]) == (0, "cancelled", 0)
    counts = done.document["counts"]
    assert counts["succeeded"] + counts["left"] == counts["planned"] == 60
    assert peira("verify").code == 0
    assert peira("run", run, "--json").document["counts"]["reused"] == counts["succeeded"]


def test_cancel_of_a_stopped_process_says_at_once_that_it_does_not_respond(spawn, under_way, ended, peira):
    process = spawn("run", "slow.py", "--parallel", "3")
    run = under_way(4)["run"]
    process.send_signal(signal.SIGSTOP)
    done = ended("cancel", run)
    assert done.code == 4
    (said,) = done.problems
    assert said.startswith(
        f"peira: run {run[:12]} was asked to stop, but process {process.pid} does not respond"
    )
    assert "it is stopped; its last event is of " in said
    assert (
        f"the command stays queued: the run is cancelled once the process goes on (kill -CONT {process.pid})"
        in said
    )
    process.send_signal(signal.SIGCONT)
    process.communicate(timeout=30)
    assert process.returncode == 1
    assert peira("status", "--json").document["status"] == "cancelled"
    assert peira("verify").code == 0
