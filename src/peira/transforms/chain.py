"""Transforms composed of others (`chain`, `first_of`), and functions as transforms."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

from peira.core.code.fingerprint import Fingerprint, fingerprint
from peira.core.ids import Json, normalise
from peira.core.transforms import NoAnswer, Transform, as_transform
from peira.errors import Invalid


@dataclass(frozen=True, repr=False)
class Chain:
    """Transforms in sequence: each is applied to the answer of the one before it."""

    steps: tuple[Transform, ...]
    name = "chain"

    @property
    def identity(self) -> Json:
        """The identities of the steps, in order."""
        return _identity(self.name, self.steps)

    def apply(self, output: Json | NoAnswer) -> Json | NoAnswer:
        """The answer of the last step."""
        for step in self.steps:
            output = step.apply(output)
        return output

    def __repr__(self) -> str:
        return f"{self.name}({', '.join(map(repr, self.steps))})"


@dataclass(frozen=True, repr=False)
class FirstOf(Chain):
    """The answer of the first transform that finds one; if none does, the reason of the first."""

    name = "first_of"

    def apply(self, output: Json | NoAnswer) -> Json | NoAnswer:
        """The first answer; later transforms are not applied."""
        found = [self.steps[0].apply(output)]
        for step in self.steps[1:]:
            if not isinstance(found[-1], NoAnswer):
                break
            found.append(step.apply(output))
        return found[0] if isinstance(found[-1], NoAnswer) else found[-1]


def chain(steps: Sequence[Any]) -> Chain:
    """Transforms in sequence: `chain(["strip_reasoning", last_number()])`; a NoAnswer is passed through."""
    return Chain(_made("chain", steps))


def first_of(steps: Sequence[Any]) -> FirstOf:
    """The first transform that finds an answer: `first_of([number_after("####"), last_number()])`."""
    return FirstOf(_made("first_of", steps))


def _made(who: str, steps: Sequence[Any]) -> tuple[Transform, ...]:
    """The transforms that the steps stand for; Invalid if there are none."""
    if not isinstance(steps, list | tuple) or not steps:
        raise Invalid(f"{who}: steps={steps!r} is not a list of transforms")
    return tuple(map(as_transform, steps))


def _identity(name: str, steps: Sequence[Transform]) -> Json:
    """The identity, with a config that a file can contain if all steps have one."""
    written = [_written(step) for step in steps]
    config = {} if None in written else {"config": {"steps": written}}
    return {"transform": name, "steps": [step.identity for step in steps], **config}


def _written(step: Transform) -> Json:
    """The step as a file contains it; None if it has no config."""
    config = step.identity.get("config") if isinstance(step.identity, dict) else None
    return None if config is None else {"name": step.name, **config}


@dataclass(frozen=True, repr=False)
class FunctionTransform:
    """A function of the output as a transform; the fingerprint of its code is its identity."""

    fn: Callable[[Json], Any]
    name: str

    @cached_property
    def fingerprint(self) -> Fingerprint:
        """The fingerprint of the function's code, computed once."""
        return fingerprint(self.fn)

    @property
    def identity(self) -> Json:
        """The name and the digest of the code."""
        return {"transform": self.name, "fingerprint": self.fingerprint.digest}

    def apply(self, output: Json | NoAnswer) -> Json | NoAnswer:
        """The normalised result of the function; NotJson if it is not JSON."""
        if isinstance(output, NoAnswer):
            return output
        found = self.fn(output)
        return found if isinstance(found, NoAnswer) else normalise(found, f"what {self.name} returned")

    def __repr__(self) -> str:
        return f"{self.name}(output)"


def from_function(fn: Callable[[Json], Any]) -> FunctionTransform:
    """The function as a transform; it returns JSON, or a NoAnswer if it finds nothing."""
    named = fn.func if isinstance(fn, partial) else fn
    return FunctionTransform(fn, str(getattr(named, "__name__", type(named).__name__)).strip("<>"))
