"""Rubrics: the criteria of a judge, each with its scale of grades.

A criterion is a text, or a table of name, description, scale and weight. A scale is a number n (1 to n),
[low, high], "yes/no", a list of words from worst to best, or grades with their meanings. Grades are ordered,
worst first; a numeric grade is rescaled linearly to 0 to 1, and words are evenly spaced from 0 to 1.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from peira.core.ids import Json
from peira.core.registry import nearest
from peira.core.text.numbers import is_number
from peira.core.verdicts import KEY, RAW, REASON, VALUE
from peira.errors import Invalid

MOST_GRADES = 101
ONLY = "grade"
"""The name of a single criterion without a name, and the key of the grade in a reply."""

_FIELDS = ("name", "description", "scale", "weight")
_RESERVED = (VALUE, RAW, REASON, KEY)


@dataclass(frozen=True)
class Grade:
    """A grade that a judge may give, and its meaning."""

    said: int | str
    meaning: str = ""


@dataclass(frozen=True)
class Criterion:
    """One criterion and its grades, worst first."""

    name: str
    description: str
    grades: tuple[Grade, ...]
    weight: float = 1.0

    @property
    def worst(self) -> int | str:
        """The lowest grade."""
        return self.grades[0].said

    @property
    def schema(self) -> Json:
        """The JSON schema of a reply: the reason first, so that the model reasons before it grades."""
        said: list[Json] = [grade.said for grade in self.grades]
        kind = "string" if isinstance(self.worst, str) else "integer"
        properties: dict[str, Json] = {REASON: {"type": "string"}, ONLY: {"type": kind, "enum": said}}
        return closed(properties)

    def worth(self, said: int | str) -> float:
        """A grade as a number from 0 to 1."""
        if isinstance(said, str):
            return [grade.said for grade in self.grades].index(said) / (len(self.grades) - 1)
        low, high = self.grades[0].said, self.grades[-1].said
        return (said - low) / (high - low)  # type: ignore[operator]

    def shown(self) -> dict[str, Json]:
        """The criterion as values for a prompt template."""
        meanings = [f"{g.said} ({g.meaning})" if g.meaning else str(g.said) for g in self.grades]
        plain = isinstance(self.worst, int) and not any(grade.meaning for grade in self.grades)
        ends = f"{self.worst} (worst) to {self.grades[-1].said} (best), whole numbers"
        return {
            "name": self.name,
            "description": self.description,
            "grades": ends if plain else ", ".join(meanings),
        }

    def written(self) -> dict[str, Json]:
        """The inverse of `criteria_of`; uses lists, so that storage preserves the order."""
        return {
            "name": self.name,
            "description": self.description,
            "scale": written(self.grades),
            "weight": self.weight,
        }


def written(grades: Sequence[Grade]) -> list[Json]:
    """The inverse of `grades_of`."""
    return [{"grade": grade.said, "meaning": grade.meaning} for grade in grades]


def closed(properties: dict[str, Json]) -> dict[str, Json]:
    """The schema of an object with exactly these properties."""
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }


def criteria_of(given: Any, scale: Any, where: str) -> tuple[Criterion, ...]:
    """Parse criteria; `scale` is the default scale. Raises `Invalid`, naming `where`."""
    tables = [_table(name, one, where) for name, one in _listed(given, where)]
    found = tuple(_criterion(table, scale, where) for table in tables)
    names = [one.name for one in found]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise Invalid(f"{where}: two criteria are called {twice[0]!r}")
    return found


def _listed(given: Any, where: str) -> list[tuple[str, Any]]:
    """The criteria as pairs of name and definition."""
    if isinstance(given, str):
        return [(ONLY, given)]
    if isinstance(given, Mapping) and "description" in given:
        return [("", given)]
    if isinstance(given, Mapping) and given:
        return [(str(name), one) for name, one in given.items()]
    if isinstance(given, Sequence) and given:
        return [(one, one) if isinstance(one, str) else ("", one) for one in given]
    raise Invalid(f"{where}: {given!r} are no criteria; write a text, or a table of names and descriptions")


def _table(name: str, given: Any, where: str) -> dict[str, Any]:
    if isinstance(given, str):
        return {"name": name, "description": given}
    if not isinstance(given, Mapping):
        raise Invalid(f"{where}: {given!r} is no criterion; write its description, or a table")
    if unknown := [key for key in given if key not in _FIELDS]:
        raise Invalid(f"{where}: a criterion has no {key!r}{nearest(str(key), _FIELDS)}" for key in unknown)
    return {"name": name or ONLY, "description": name, **given}


def _criterion(table: dict[str, Any], scale: Any, where: str) -> Criterion:
    name, text, weight = table["name"], table["description"], table.get("weight", 1.0)
    problems = []
    if not isinstance(name, str) or not name.strip() or name in _RESERVED or "." in name:
        problems.append(
            f"{where}: a criterion cannot be called {name!r}; write a short name and a description"
        )
    if not isinstance(text, str) or not text.strip():
        problems.append(f"{where}: {name}: its description must be a text, not {text!r}")
    if not is_number(weight) or not 0 < weight < math.inf:
        problems.append(f"{where}: {name}: weight={weight!r} is not a number above 0")
    if problems:
        raise Invalid(problems)
    return Criterion(name, text, grades_of(table.get("scale", scale), f"{where}: {name}"), float(weight))


def grades_of(given: Any, where: str) -> tuple[Grade, ...]:
    """The grades of a scale, worst first; raises `Invalid` if it is not a scale."""
    grades = _grades(given)
    said = [grade.said for grade in grades]
    numbers = [one for one in said if isinstance(one, int)]
    right = 1 < len(said) <= MOST_GRADES and len(set(said)) == len(said) and len(numbers) in (0, len(said))
    if not right:
        raise Invalid(
            f"{where}: scale={given!r} is none; write 5 (for 1 to 5), [0, 10], 'yes/no', "
            "words from worst to best, or {1 = 'meaning', ...}"
        )
    return tuple(sorted(grades, key=lambda grade: grade.said)) if numbers else grades


def _grades(given: Any) -> tuple[Grade, ...]:
    if given == "yes/no":
        return Grade("no"), Grade("yes")
    if type(given) is int:
        return tuple(Grade(n) for n in range(1, min(given, MOST_GRADES) + 1))
    if isinstance(given, Mapping):
        return tuple(Grade(_said(key), str(meaning)) for key, meaning in given.items())
    if not isinstance(given, list | tuple):
        return ()
    if len(given) == 2 and all(type(one) is int for one in given):
        return tuple(Grade(n) for n in range(given[0], min(given[1], given[0] + MOST_GRADES) + 1))
    if all(isinstance(one, Mapping) and "grade" in one for one in given):
        return tuple(Grade(_said(one["grade"]), str(one.get("meaning", ""))) for one in given)
    return tuple(Grade(one) for one in given) if all(isinstance(one, str) and one for one in given) else ()


def _said(key: Any) -> int | str:
    """A grade from a table, whose keys are texts: "1" is the number."""
    if type(key) is int:
        return key
    text = str(key)
    return int(text) if text.removeprefix("-").isdecimal() else text
