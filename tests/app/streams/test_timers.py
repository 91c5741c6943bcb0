"""Timers of streams while no host is there: each moment is made up for once, however the host ended."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from peira import every, open, stream
from peira.app.streams.host import Host
from peira.app.streams.view import StreamView
from peira.core.clock import ShiftedClock, SystemClock

pytestmark = pytest.mark.timeout(120)
PATIENCE = 60.0
HOST = """
import sys, time
from pathlib import Path
from peira import every, stream
from peira.app.streams.host import Host
from peira.core.clock import SystemClock

class SetClock(SystemClock):
    def now(self):
        return float(Path("now.txt").read_text())

def work(case):
    if case.input == "slow":
        time.sleep(600)

timers = [every("60s", missed=missed, name=missed) for missed in ("all", "one", "skip")]
host = Host([stream(work, triggers=timers)], "live.db", clock=SetClock())
print("ready", flush=True)
host.wait()
"""


def until(holds: Any) -> None:
    deadline = time.monotonic() + PATIENCE
    while not holds():
        assert time.monotonic() < deadline, "it never came to that"
        time.sleep(0.01)


class TimedHost:
    """A host in a process of its own, whose clock shows what it is set to: seconds since `BEGIN`."""

    BEGIN = 1_800_000_000.0  # a moment of every("60s")

    def __init__(self, folder: Path, warm: Any) -> None:
        self.folder, self.warm = folder, warm
        (folder / "host.py").write_text(HOST)

    def set_clock(self, seconds: float) -> None:
        draft = self.folder / "now.draft"
        draft.write_text(str(self.BEGIN + seconds))
        draft.replace(self.folder / "now.txt")

    def start(self) -> Any:
        process = self.warm.start(
            [sys.executable, "host.py"], cwd=self.folder, stdout=subprocess.PIPE, text=True
        )
        assert process.stdout.readline() == "ready\n"
        return process

    @property
    def view(self) -> StreamView:
        return open(self.folder / "live.db").stream("work")

    def fired(self) -> dict[str, list[float]]:
        """The moments that have a job, in seconds since `BEGIN`, by the name of the trigger."""
        found: dict[str, list[float]] = {"all": [], "one": [], "skip": []}
        for job in self.view.jobs():
            trigger, colon, moment = str(job["key"]).partition(":")
            if colon:
                found[trigger].append(float(moment) - self.BEGIN)
        return {trigger: sorted(moments) for trigger, moments in found.items()}


def killed(process: Any) -> None:
    process.send_signal(signal.SIGKILL)
    process.communicate(timeout=PATIENCE)


def test_moments_are_made_up_for_after_a_kill(tmp_path: Path, warm: Any) -> None:
    """What the log says last is no trace of the host: its successor records how it died, and other processes
    record outcomes while nobody is there."""
    host = TimedHost(tmp_path, warm)
    host.set_clock(10)
    process = host.start()
    slow = host.view.submit("slow", key="slow")
    until(lambda: slow.state == "running")
    host.set_clock(61)
    until(lambda: host.fired() == {"all": [60], "one": [60], "skip": [60]})
    killed(process)
    host.set_clock(250)
    host.view.job("slow").outcome("late", True)
    host.set_clock(310)
    process = host.start()
    until(lambda: len(host.fired()["all"]) >= 5)
    assert host.fired() == {"all": [60, 120, 180, 240, 300], "one": [60, 300], "skip": [60]}
    killed(process)
    for seconds, last in ((590, 9), (610, 10)):  # the first one of these dies at once
        host.set_clock(seconds)
        process = host.start()
        until(lambda last=last: host.fired()["all"] == [60.0 * n for n in range(1, last + 1)])
        killed(process)
    assert host.fired()["one"] == [60, 300, 540, 600]


def test_a_trigger_that_is_new_has_missed_nothing(tmp_path: Path) -> None:
    store, one, two = tmp_path / "live.db", *(every("1d", missed="all", name=name) for name in ("a", "b"))
    fired = list[set[str]]()
    for part, triggers in enumerate(([one], [two], [one, two])):
        clock = ShiftedClock(SystemClock(), 60 * 86400.0 * part)
        timed = stream(lambda case: None, name="timed", triggers=triggers)
        with Host([timed], store, clock=clock) as host:
            view, least = host.stream("timed"), 60 * (part == 2)
            until(lambda view=view, least=least: len(view.jobs()) >= least)
            host.drain()
        keys = [str(job["key"]) for job in open(store).stream("timed").jobs()]
        fired.append({key.partition(":")[0] for key in keys})
    assert fired == [set(), set(), {"b"}], "a was not there in between, b was"
