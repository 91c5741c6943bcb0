"""Base class of the built-in evaluators that compare an output with the expected value.

A comparison is a frozen value: its name and options are its identity and its repr. It raises for a case
without an expected value, so that a missing reference is a failed score and not a wrong answer. Also: checks
for optional libraries.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from importlib import import_module
from typing import Any, ClassVar, NamedTuple

from peira.core.ids import Json, canonical, normalise
from peira.core.transforms import NoAnswer
from peira.errors import Invalid


def needs(evaluator: str, *packages: str, install: str = "'peira[metrics]'") -> tuple[str, ...]:
    """Check that the packages are installed and return them; raises `Invalid` otherwise.

    Called when an evaluator is created: later, every single score would fail.
    """
    missing = [package for package in packages if not _version(package)]
    if missing:
        raise Invalid(f"{evaluator} needs {' and '.join(missing)}: pip install {install}")
    return packages


def versions(packages: Iterable[str]) -> dict[str, str]:
    """The installed versions of the packages."""
    return {package: _version(package) for package in packages}


def load(module: str) -> Any:
    """Import a module of a package that `needs` has checked."""
    return import_module(module)


@lru_cache(maxsize=64)
def _version(package: str) -> str:
    """The installed version of a package; "" if it is not installed."""

    from importlib.metadata import PackageNotFoundError, version  # slow, and not needed before this

    try:
        return version(package)
    except PackageNotFoundError:
        return ""


Score = bool | float | str | Mapping[str, bool | float | str]
"""What a comparison may return; see `evaluators.scores` for all score types."""

VERSION = 1
"""Incremented when comparisons change their meaning, so that scores are computed again."""


@dataclass(frozen=True, repr=False)
class Comparison:
    """An evaluator that says whether, or how far, an output agrees with the expected value.

    `compare(output, expected)` computes the score. If `needs_expected` is false it is called with None, and
    the expected value is not part of the identity of its scores. A missing answer gets the score `no_answer`,
    the lowest one; if that is None it cannot be judged. The versions of the `libraries` and of the `data` it
    uses are part of its identity.
    """

    name: str
    """The registry name, and the name of the score."""
    compare: Callable[[Json, Json], Score] = field(compare=False)
    """Computes the score from output and expected value."""
    options: tuple[tuple[str, Json], ...] = ()
    """The options, which are part of the identity."""
    needs_expected: bool = True
    """Whether a case must have an expected value."""
    no_answer: Score | None = field(default=False, compare=False)
    """The score of a missing answer; None if it cannot be judged."""
    libraries: tuple[str, ...] = ()
    """Packages whose versions are part of the identity."""
    data: tuple[tuple[str, str], ...] = ()
    """Versions of data files, which are part of the identity."""
    asynchronous: ClassVar[bool] = False

    @cached_property
    def takes(self) -> frozenset[str]:
        """The arguments it is called with."""
        return frozenset({"output", "expected"} if self.needs_expected else {"output"})

    @property
    def identity(self) -> Json:
        """Name, options, version, and the versions of the libraries it uses."""
        known = {"libraries": versions(self.libraries) | dict(self.data)} if self.libraries else {}
        return {"evaluator": self.name, "config": normalise(dict(self.options)), "version": VERSION, **known}

    def judge(self, facts: Mapping[str, Any]) -> Score:
        """The score of an output; raises `Invalid` if the expected value is missing."""
        output, expected = facts["output"], facts["expected"] if self.needs_expected else None
        if self.needs_expected and expected is None:
            raise Invalid(f"{self.name} needs an expected value; this case has none")
        if not isinstance(output, NoAnswer):
            return self.compare(output, expected)
        if self.no_answer is None:
            raise Invalid(f"{self.name} cannot judge what is not there: {output}")
        return self.no_answer

    def __repr__(self) -> str:
        return f"{self.name}({', '.join(f'{key}={value!r}' for key, value in self.options)})"


def text_of(value: Json) -> str:
    """A text unchanged; any other value as canonical JSON."""
    return value if type(value) is str else canonical(value).decode()


LONGEST = 100_000
"""Maximum text length in characters; some comparisons take quadratic time and cannot be interrupted."""


class Texts(NamedTuple):
    """The output (`said`) and the reference texts."""

    said: str
    references: list[str]


def texts(evaluator: str, output: Json, expected: Json) -> Texts:
    """Output and references as texts; an expected list is several references. Raises `Invalid`."""
    references = [text_of(one) for one in (expected if isinstance(expected, list | tuple) else [expected])]
    if not references:
        raise Invalid(f"{evaluator} needs an expected text; this case expects none")
    said = text_of(output)
    if max(len(said), *map(len, references)) > LONGEST:
        raise Invalid(f"{evaluator} does not compare texts of more than {LONGEST:,} characters")
    return Texts(said, references)
