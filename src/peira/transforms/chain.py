"""Transforms made of others, and of functions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

from peira.core.fingerprint import Fingerprint, fingerprint
from peira.core.ids import Json, normalise
from peira.core.transforms import NoAnswer, Transform, as_transform
from peira.errors import Invalid


@dataclass(frozen=True, repr=False)
class Chain:
    """One transform after the other, each finding in what the one before it found."""

    steps: tuple[Transform, ...]
    name = "chain"

    @property
    def identity(self) -> Json:
        return _identity(self.name, self.steps)

    def apply(self, output: Json | NoAnswer) -> Json | NoAnswer:
        for step in self.steps:
            output = step.apply(output)
        return output

    def __repr__(self) -> str:
        return f"{self.name}({', '.join(map(repr, self.steps))})"


@dataclass(frozen=True, repr=False)
class FirstOf(Chain):
    """The answer of the first transform that finds one; if none does, the first one's reason."""

    name = "first_of"

    def apply(self, output: Json | NoAnswer) -> Json | NoAnswer:
        found = [self.steps[0].apply(output)]
        for step in self.steps[1:]:
            if not isinstance(found[-1], NoAnswer):
                break
            found.append(step.apply(output))
        return found[0] if isinstance(found[-1], NoAnswer) else found[-1]


def chain(steps: Sequence[Any]) -> Chain:
    """One after the other: `chain(["strip_reasoning", last_number()])`. No answer stays no answer."""
    return Chain(_made("chain", steps))


def first_of(steps: Sequence[Any]) -> FirstOf:
    """The first that finds an answer: `first_of([number_after("####"), last_number()])`."""
    return FirstOf(_made("first_of", steps))


def _made(who: str, steps: Sequence[Any]) -> tuple[Transform, ...]:
    if not isinstance(steps, list | tuple) or not steps:
        raise Invalid(f"{who}: steps={steps!r} is not a list of transforms")
    return tuple(map(as_transform, steps))


def _identity(name: str, steps: Sequence[Transform]) -> Json:
    """With a config that a file can hold, if all steps have one."""
    written = [_written(step) for step in steps]
    config = {} if None in written else {"config": {"steps": written}}
    return {"transform": name, "steps": [step.identity for step in steps], **config}


def _written(step: Transform) -> Json:
    config = step.identity.get("config") if isinstance(step.identity, dict) else None
    return None if config is None else {"name": step.name, **config}


@dataclass(frozen=True, repr=False)
class FunctionTransform:
    """A function of the output. Its code is its identity."""

    fn: Callable[[Json], Any]
    name: str

    @cached_property
    def fingerprint(self) -> Fingerprint:
        return fingerprint(self.fn)

    @property
    def identity(self) -> Json:
        return {"transform": self.name, "fingerprint": self.fingerprint.digest}

    def apply(self, output: Json | NoAnswer) -> Json | NoAnswer:
        if isinstance(output, NoAnswer):
            return output
        found = self.fn(output)
        return found if isinstance(found, NoAnswer) else normalise(found, f"what {self.name} returned")

    def __repr__(self) -> str:
        return f"{self.name}(output)"


def from_function(fn: Callable[[Json], Any]) -> FunctionTransform:
    """The function as a transform. It returns JSON, or a NoAnswer where it finds nothing."""
    named = fn.func if isinstance(fn, partial) else fn
    return FunctionTransform(fn, str(getattr(named, "__name__", type(named).__name__)).strip("<>"))
