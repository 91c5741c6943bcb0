"""`Extraction`, the common class of the built-in transforms, and the checks of their options.

An extraction is a frozen value: its name and options are its identity and its repr.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from peira.core.ids import Json, canonical, normalise
from peira.core.registry import nearest
from peira.core.transforms import NoAnswer
from peira.errors import Invalid

VERSION = 1
"""Raised when the results of an extraction change: recorded answers are then computed again."""

Find = Callable[[Json], Json | NoAnswer]


@dataclass(frozen=True, repr=False)
class Extraction:
    """A transform that extracts the answer by `find(output)`."""

    name: str
    find: Find = field(compare=False)
    options: tuple[tuple[str, Json], ...] = ()

    @property
    def identity(self) -> Json:
        """Name, options and version."""
        return {"transform": self.name, "config": normalise(dict(self.options)), "version": VERSION}

    def apply(self, output: Json | NoAnswer) -> Json | NoAnswer:
        """The answer; a NoAnswer is passed through."""
        return output if isinstance(output, NoAnswer) else self.find(output)

    def __repr__(self) -> str:
        return f"{self.name}({', '.join(f'{key}={value!r}' for key, value in self.options)})"


def text_of(output: Json) -> str:
    """Text as it is; anything else as its canonical JSON."""
    return output if type(output) is str else canonical(output).decode()


def blank(given: object) -> bool:
    """Whether an option that must be a text is not one, or is empty."""
    return not isinstance(given, str) or not given.strip()


def one_of(who: str, option: str, given: object, known: Sequence[str]) -> None:
    """Raise Invalid if the option is not one of the known values."""
    if given not in known:
        raise Invalid(f"{who}: {option}={given!r}{nearest(str(given), known)}")


def yes_or_no(who: str, **given: object) -> None:
    """Raise Invalid, with every problem, for options that are not bool."""
    if wrong := {name: value for name, value in given.items() if type(value) is not bool}:
        raise Invalid(f"{who}: {name}={value!r} is not true or false" for name, value in wrong.items())
