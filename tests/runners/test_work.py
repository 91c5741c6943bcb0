"""Processes know work by its contract alone: what it does is rebuilt by whoever its message is for."""

from __future__ import annotations

import importlib
import random
import sys
from collections.abc import Iterator
from types import ModuleType
from uuid import uuid4

import pytest

from peira.core.contracts import Attempt
from peira.core.ids import digest, seed_of
from peira.core.log.events import TaskSpec
from peira.errors import Invalid
from peira.runners.process import ProcessRunner
from peira.sandbox import process_tree as tree
from peira.testing.fakes import AttemptEnd, ScriptedQueue

SUMS = """
import random
import sys


class Sum:
    stage, asynchronous, reader = "sum", False, "sums:Reader"

    def __init__(self, numbers):
        self.numbers = numbers

    def scope(self):
        return "sums"

    def perform(self, channel, epoch):
        known = [".".join(name.split(".")[:2]) for name in sys.modules]
        engine = sorted({"peira.engine", "peira.plan", "peira.spec"}.intersection(known))
        channel.observe("added", self.numbers)
        return [sum(self.numbers), epoch, random.random(), engine]

    def message(self):
        return {"numbers": self.numbers}

    def copy(self):
        return Sum(list(self.numbers))


class Later(Sum):
    asynchronous, reader = True, "sums:LaterReader"

    async def perform(self, channel, epoch):
        return sum(self.numbers)


class Reader:
    made = Sum

    def __init__(self, code):
        self.code, self.loaded = code, False

    def load(self):
        self.loaded = True

    def read(self, message):
        assert self.code == {"part": "somewhere.py:part"}
        return self.made(message["numbers"])


class LaterReader(Reader):
    made = Later
"""


@pytest.fixture
def sums(tmp_path, monkeypatch) -> Iterator[ModuleType]:
    (tmp_path / "sums.py").write_text(SUMS)
    monkeypatch.syspath_prepend(str(tmp_path))
    yield importlib.import_module("sums")
    monkeypatch.delitem(sys.modules, "sums")


def performed(*works) -> list[tuple[AttemptEnd, list]]:
    """What came of work in one child process, with what was observed."""
    label = f"test-{uuid4().hex}"
    attempts = [Attempt(TaskSpec(digest(str(n)), "sum", "sum"), 1, work) for n, work in enumerate(works)]
    queue, runner = ScriptedQueue(attempts), ProcessRunner({"part": "somewhere.py:part"}, label, plugins=())
    runner.start(queue, 1)
    try:
        queue.wait_ended(*attempts)
    finally:
        queue.close()
        runner.stop()
        tree.end(label)
    return [(queue.ended[attempt.key][0], queue.begun[attempt.key].observed) for attempt in attempts]


def test_work_of_any_kind_is_done_in_another_process_which_imports_nothing_of_the_engine(sums) -> None:
    [(left, observed)] = performed(sums.Sum([1, 2, 3]))
    assert left.failure is None
    draw = random.Random(seed_of(digest("0"))).random()
    assert left.value == [6, 1, draw, []]
    assert observed == [("added", [1, 2, 3])]


def test_several_kinds_of_work_share_a_process_and_some_may_await(sums) -> None:
    lefts = [left for left, _ in performed(sums.Sum([1]), sums.Later([2, 3]), sums.Sum([4]))]
    assert [left.failure for left in lefts] == [None] * 3
    assert [lefts[0].value[0], lefts[1].value, lefts[2].value[0]] == [1, 5, 4]


def test_work_that_cannot_travel_or_be_rebuilt_fails_alone_and_says_why(sums) -> None:
    class Here(sums.Sum):
        reader = ""

        def message(self):
            raise Invalid("it stays here")

    class Lost(sums.Sum):
        reader = "nowhere.at.all:Reader"

    here, lost, well = (left for left, _ in performed(Here([1]), Lost([1]), sums.Sum([1])))
    assert isinstance(here.failure, Invalid)
    assert str(here.failure) == "it stays here"
    assert type(lost.failure).__name__ == "ModuleNotFoundError"
    assert well.value[0] == 1
