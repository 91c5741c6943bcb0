from __future__ import annotations

from collections.abc import Iterator
from uuid import uuid4

import pytest

from peira.runners.loop import LoopRunner
from peira.runners.process import ProcessRunner
from peira.runners.threads import ThreadRunner
from peira.sandbox import process_tree as tree
from peira.spec.modules import reference
from peira.testing import RunnerSuite, scripted, scripted_async


class TestThreadRunner(RunnerSuite):
    @pytest.fixture
    def runner(self) -> ThreadRunner:
        return ThreadRunner()


class TestLoopRunner(RunnerSuite):
    asynchronous = True

    @pytest.fixture
    def runner(self) -> LoopRunner:
        return LoopRunner()


class TestProcessRunner(RunnerSuite):
    kills = True
    agent = staticmethod(scripted)

    @pytest.fixture
    def runner(self) -> Iterator[ProcessRunner]:
        label = f"test-{uuid4().hex}"
        yield ProcessRunner({"scripted": reference(self.agent)}, label)
        tree.end(label)


class TestProcessRunnerOfWhatIsAwaited(TestProcessRunner):
    asynchronous = True
    agent = staticmethod(scripted_async)
