"""Submissions of several threads share a message: written and synced once, all of them or none."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from peira.engine.control import MOST_BYTES, Command, ControlFolder
from peira.engine.streams.jobs import Job
from peira.engine.streams.submission import Outbox, outbox_of, submitted_jobs

pytestmark = pytest.mark.timeout(60)


class HeldFolder(ControlFolder):
    """A folder whose first message is not written before all others wait."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.began, self.free, self.written = threading.Event(), threading.Event(), 0

    def send(self, command: Command) -> None:
        self.began.set()
        assert self.free.wait(30)
        self.written += 1
        super().send(command)


def sending(outbox: Outbox, jobs: list[Job], by: str = "ann") -> tuple[threading.Thread, list[BaseException]]:
    problems = list[BaseException]()

    def send() -> None:
        try:
            outbox.send(jobs, by)
        except BaseException as problem:
            problems.append(problem)

    thread = threading.Thread(target=send)
    thread.start()
    return thread, problems


def waiting(outbox: Outbox, n: int) -> None:
    while len(outbox._waiting) < n:
        threading.Event().wait(0.001)


def test_what_comes_while_a_message_is_written_goes_together(tmp_path: Path) -> None:
    control = HeldFolder(tmp_path)
    outbox = Outbox(control)
    first = sending(outbox, [Job("s", key="first")])
    assert control.began.wait(30)
    others = [sending(outbox, [Job("s", key=f"k{n}")], "bea" if n == 9 else "ann") for n in range(10)]
    waiting(outbox, 10)
    control.free.set()
    for thread, problems in (first, *others):
        thread.join(30)
        assert problems == []
    assert control.written <= 4, "one, and the rest together, by sender"
    sent = [(command.by, job.key) for _, command in control.pending() for job in submitted_jobs(command)]
    assert sorted(key for _, key in sent) == sorted(["first", *(f"k{n}" for n in range(10))])
    assert ("bea", "k9") in sent, "each is sent in the name of who submitted it"


def test_messages_are_never_too_large(tmp_path: Path) -> None:
    control = HeldFolder(tmp_path)
    outbox = Outbox(control)
    first = sending(outbox, [Job("s", key="first")])
    assert control.began.wait(30)
    large = "x" * (MOST_BYTES // 3)
    others = [sending(outbox, [Job("s", input=large, key=f"k{n}")]) for n in range(3)]
    waiting(outbox, 3)
    control.free.set()
    for thread, problems in (first, *others):
        thread.join(30)
        assert problems == []
    assert len(list(control.pending())) == 4


def test_what_cannot_be_written_is_raised_for_everybody(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("not a folder")
    outbox = Outbox(ControlFolder(tmp_path / "file" / "control"))
    with pytest.raises(OSError, match="Not a directory"):
        outbox.send([Job("s", key="a")], "ann")


def test_there_is_one_for_each_folder(tmp_path: Path) -> None:
    one, again, other = (ControlFolder(tmp_path / name) for name in ("a", "a", "b"))
    first = outbox_of(one)
    assert outbox_of(again) is first
    assert outbox_of(other) is not first
