"""Judges whose models say what they are told to."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import Any

from hypothesis import strategies as st

from peira.core.context import SeenCase
from peira.core.context import judge as enter
from peira.core.contracts import Evaluator
from peira.core.models import Reply, Request
from peira.testing import MemoryChannel

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=100)
CASE = SeenCase("Capital of France?", "1", metadata={"rival": "Lyon", "rubric": {"kind": "Is it kind?"}})
Says = Callable[[Request], Any]


def facts(output: Any, expected: Any = "Paris", case: SeenCase = CASE) -> dict[str, Any]:
    return {"output": output, "expected": expected, "case": case}


def shown(request: Request) -> str:
    return str(request.messages[0]["content"])


def graded(grade: Any = 4) -> Says:
    """Says the same of everything, in whatever form it is asked for."""

    def says(request: Request) -> Any:
        assert request.schema is not None
        properties = request.schema["properties"]
        one = {"reason": "so it is", "grade": grade}
        return one if "grade" in properties else dict.fromkeys(properties, one)

    return says


def better(choose: Callable[[str, str], str]) -> Says:
    """Chooses between the first and the second text."""

    def says(request: Request) -> Any:
        texts = shown(request).split("\n")
        at = [i for i, line in enumerate(texts) if line.startswith(("<first", "<second"))]
        return {"reason": "because", "better": choose(texts[at[0] + 1], texts[at[1] + 1])}

    return says


def channel(says: Says) -> MemoryChannel:
    def reply(request: Request) -> Reply:
        said = says(request)
        return Reply(said if isinstance(said, str) else json.dumps(said))

    return MemoryChannel(replies=reply)


def judged(evaluator: Evaluator, given: dict[str, Any], says: Says) -> tuple[Any, list[Request]]:
    """Its verdict, and what it asked."""
    line = channel(says)
    entered = enter(line)
    try:
        verdict = asyncio.run(_complete(evaluator.judge({name: given[name] for name in evaluator.takes})))
    finally:
        entered.var.reset(entered)
    return verdict, [request for _, request, _ in line.asked]


async def _complete(pending: Any) -> Any:
    return await pending
