"""What the parts of the suite share: a runner, attempts at scripts, and a desk that is always closed."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from peira.core.contracts import Attempt, Runner
from peira.core.ids import Json
from peira.testing.desk import ScriptedDesk
from peira.testing.script import scripted_attempt


class Bench:
    asynchronous = False
    """It executes work that is awaited."""
    kills = False
    """It can end an attempt's process, with everything that process started."""

    @pytest.fixture
    def runner(self) -> Runner:
        raise NotImplementedError("override the fixture `runner`")

    @pytest.fixture
    def killing(self) -> None:
        if not self.kills:
            pytest.skip("its attempts have no process of their own")

    def attempt(self, name: str, *acts: Json) -> Attempt:
        return scripted_attempt(name, *acts, asynchronous=self.asynchronous)

    def returning(self, count: int) -> list[Attempt]:
        return [self.attempt(f"returns {i}", ["return", i]) for i in range(count)]

    @contextmanager
    def at_work(self, runner: Runner, desk: ScriptedDesk, workers: int = 1) -> Iterator[None]:
        runner.start(desk, workers)
        try:
            yield
        finally:
            desk.close()
            desk.abandon_all(runner)
            runner.stop()
