"""`one_thread_each` is a runner, of work that blocks and of work that is awaited."""

from __future__ import annotations

import pytest
from peira_extras.runner import OneThreadEach

from peira.testing import RunnerSuite


class TestOneThreadEach(RunnerSuite):
    @pytest.fixture
    def runner(self) -> OneThreadEach:
        return OneThreadEach()


class TestOneThreadEachOfWhatIsAwaited(TestOneThreadEach):
    asynchronous = True
