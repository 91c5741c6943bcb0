"""A hook is given those of the facts that it takes: new facts break no old listener."""

from __future__ import annotations

import logging

from hypothesis import given
from hypothesis import strategies as st

from peira.core.registry import HOOKS, Registry

FACTS = {"run": "r", "task": "t", "epoch": 1, "state": "succeeded"}


class Some:
    def __init__(self) -> None:
        self.heard: dict[str, object] = {}

    def attempt_ended(self, task: str, state: str, *, missing: int = 7) -> None:
        self.heard = {"task": task, "state": state, "missing": missing}


class All:
    def attempt_ended(self, **facts: object) -> None:
        self.heard = facts


def test_a_hook_is_given_what_it_takes_and_nothing_else() -> None:
    registry, some, every = Registry(), Some(), All()
    registry.hook(some)
    registry.hook(every)
    registry.call("attempt_ended", **FACTS)
    assert some.heard == {"task": "t", "state": "succeeded", "missing": 7}
    assert every.heard == FACTS


def test_a_hook_that_takes_what_there_is_not_is_reported(caplog) -> None:
    class Odd:
        def run_began(self, weather: str) -> None:
            raise AssertionError("never called")

    registry = Registry()
    registry.hook(Odd())
    with caplog.at_level(logging.WARNING, logger="peira"):
        registry.call("run_began", run="r")
    assert "missing 1 required positional argument: 'weather'" in caplog.text


@given(st.sets(st.sampled_from(sorted(FACTS))))
def test_any_choice_of_facts_can_be_taken(names) -> None:
    taken = {}
    source = f"def attempt_ended({', '.join(sorted(names))}): taken.update(locals())"
    scope = {"taken": taken}
    exec(source, scope)
    registry, listener = Registry(), type("L", (), {})()
    listener.attempt_ended = scope["attempt_ended"]
    registry.hook(listener)
    registry.call("attempt_ended", **FACTS)
    assert taken == {name: FACTS[name] for name in names}


def test_calls_have_hooks() -> None:
    assert {"call_began", "call_ended"} <= set(HOOKS)
