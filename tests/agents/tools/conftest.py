"""Tool loops without an engine: a channel in memory, with the replies of the model."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest

from peira import Reply
from peira.core.context import SeenCase, Trial, enter
from peira.core.models import ToolCall
from peira.testing import MemoryChannel

Worked = Callable[..., tuple[Any, MemoryChannel]]


def calls(*made: tuple[str, Any]) -> Reply:
    return Reply(
        "", tool_calls=tuple(ToolCall(f"id{n}", name, given) for n, (name, given) in enumerate(made))
    )


def results(channel: MemoryChannel) -> list[Any]:
    """What the model was told as results of its calls, in its last request."""
    return [message["content"] for message in channel.asked[-1][1].messages if message["role"] == "tool"]


@pytest.fixture
def worked() -> Worked:
    def work(bot: Any, replies: Sequence[Reply], steps: Any = None) -> tuple[Any, MemoryChannel]:
        channel = MemoryChannel(steps, [*replies, Reply("done")])
        trial = Trial(
            id="ab" * 32,
            case=SeenCase("go", "c"),
            condition={},
            repeat=0,
            attempt=1,
            agent="x",
            channel=channel,
        )
        enter(trial)
        try:
            return bot.invoke(trial), channel
        finally:
            enter(None)
            trial.finish()

    return work
