"""Factors, their levels and blocks: what a study varies; and the design that combines them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property
from keyword import iskeyword
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import BeforeValidator, Field, model_validator

from peira.core.ids import Json, digest
from peira.core.registry import nearest
from peira.core.space import Dimension, Scale
from peira.errors import Invalid
from peira.spec.values import Name, Plain, Table, Value, join, read_value

RESERVED = {
    "agent": "the label of the agent; give several agents with agents={label: ...}",
    "cases": "the label of the case set; give several sets with cases={label: ...}",
    "case": "the case an agent is given",
    "trial": "the trial an agent is given",
    "repeat": "the number of the repeat; say repeats=...",
}


class Level(Value):
    """One value of a factor. `label` is what people are shown."""

    value: Plain
    label: Name | None = None
    metadata: Table = Field(default_factory=dict)
    baseline: bool = False

    if TYPE_CHECKING:

        def __init__(
            self, value: Json, label: str | None = None, metadata: Json = ..., baseline: bool = False
        ) -> None: ...


def _level(raw: object) -> Level:
    """The level that a value, a table (with a `value`, and only fields of a Level) or a Level stands for."""
    table = isinstance(raw, Mapping) and "value" in raw and set(raw) <= set(Level.model_fields)
    if table or isinstance(raw, Level):
        level: Level = read_value(Level, raw)
        return level
    try:
        return Level(raw)
    except Invalid as error:
        raise Invalid(problem.removeprefix("value") for problem in error.problems) from None


def _levels(raw: object) -> tuple[Level, ...]:
    """A list of levels; Invalid holds every problem, duplicates included."""
    if not isinstance(raw, (list, tuple, range)):
        raise Invalid(f"must be a list of values, not {raw!r}")
    levels: dict[int, Level] = {}
    problems: list[str] = [] if raw else ["there are none"]
    for i, item in enumerate(raw):
        try:
            levels[i] = _level(item)
        except Invalid as error:
            problems += [join(f"[{i}]", problem) for problem in error.problems]
    problems += _duplicates({i: (digest(level.value), level.value) for i, level in levels.items()})
    problems += _duplicates({i: (level.label, level.label) for i, level in levels.items() if level.label})
    if problems:
        raise Invalid(problems)
    return tuple(levels.values())


def _duplicates(found: Mapping[int, tuple[str, object]]) -> Iterable[str]:
    """A problem for each item that repeats an earlier one."""
    first: dict[str, int] = {}
    for i, (key, shown) in found.items():
        if first.setdefault(key, i) != i:
            yield f"[{i}]: {shown!r} is a duplicate of levels[{first[key]}]"


Levels = Annotated[tuple[Level, ...], BeforeValidator(_levels, json_schema_input_type=list[Level | Any])]


def _argument(name: Any) -> Any:
    """The name of a factor, which must be usable as a parameter of a function; what is no text is left."""
    if not isinstance(name, str):
        return name
    if name in RESERVED:
        raise Invalid(f"{name!r} is reserved for {RESERVED[name]}")
    if not name.isidentifier() or iskeyword(name):
        raise Invalid(f"{name!r} is not a name that a function's argument can have")
    return name


Argument = Annotated[str, BeforeValidator(_argument)]


class _Varying(Value):
    """A named list of levels, in the order given."""

    name: Argument
    levels: Levels

    @property
    def values(self) -> tuple[Json, ...]:
        """The values of the levels."""
        return tuple(level.value for level in self.levels)

    @property
    def labels(self) -> tuple[str, ...]:
        """The labels of those levels that have one."""
        return tuple(level.label for level in self.levels if level.label)


class Factor(_Varying):
    """What is varied: among `levels`, or over a range from `low` to `high` (both may be given).

    `scale` says what the levels are to each other; without it, a range is continuous and levels are
    categorical. `log` spaces a range evenly in its logarithm. `baseline` is the value that stands for "as
    before the factor was added". `dear` marks a factor that is dear to change: designs with whole plots set
    it once for each. `within` names the factor it is nested in: its levels are then other ones in each level
    of that. A factor of the `kind` blocked is a block; every other kind is the design's to set.
    """

    levels: Levels = ()
    kind: Literal["manipulated", "measured", "blocked", "nuisance"] = "manipulated"
    baseline: Plain = None
    description: str = ""
    scale: Literal["categorical", "ordinal", "continuous", "integer"] | None = None
    low: float | None = None
    high: float | None = None
    log: bool = False
    dear: bool = False
    within: str = ""

    if TYPE_CHECKING:

        def __init__(
            self,
            name: str,
            levels: Iterable[Any] = ...,
            kind: str = ...,
            baseline: Json = None,
            description: str = ...,
            scale: str | None = None,
            low: float | None = None,
            high: float | None = None,
            log: bool = False,
            dear: bool = False,
            within: str = "",
        ) -> None: ...

    @model_validator(mode="before")
    @classmethod
    def _one_baseline(cls, raw: dict[str, Any]) -> dict[str, Any]:
        """Take the baseline from the level that is marked as such, if the factor itself names none."""
        if raw.get("baseline") is None and isinstance(raw.get("levels"), (list, tuple)):
            marked = [level for level in map(_marked, raw["levels"]) if level is not None]
            if marked:
                return {**raw, "baseline": marked[0].value}
        return raw

    @model_validator(mode="after")
    def _varies(self) -> Factor:
        """Raise every problem of the range and the scale at once."""
        if problems := list(self._range_problems()):
            raise Invalid(problems)
        return self

    def _range_problems(self) -> Iterator[str]:
        """The problems of the range and the scale, one line each."""
        if (self.low is None) != (self.high is None):
            yield f"{'low' if self.low is None else 'high'}: is missing; a range has both ends"
        elif self.low is not None and self.high is not None and not self.low < self.high:
            yield f"high: must be more than low, {self.low:g}, not {self.high:g}"
        if not self.ranged and not self.levels:
            yield "levels: there are none; give levels, or a range with low and high"
        if self.log and (not self.ranged or (self.low or 0) <= 0):
            yield "log: needs a range that begins above 0"
        if self.ranged and self.scale in ("categorical", "ordinal"):
            yield f"scale: a range is continuous or integer, not {self.scale}"
        numeric = all(type(level.value) in (int, float) for level in self.levels)
        if self.scale in ("continuous", "integer") and not numeric:
            yield f"scale: {self.scale} levels are numbers"
        if self.ranged and numeric and not all(self._inside(level.value) for level in self.levels):
            yield "levels: some lie outside the range from low to high"

    def _inside(self, value: float) -> bool:
        """Whether a value is in the range."""
        return self.low is not None and self.high is not None and self.low <= value <= self.high

    @property
    def ranged(self) -> bool:
        """Whether it has a range."""
        return self.low is not None and self.high is not None

    @property
    def dimension(self) -> Dimension:
        """The factor as designs see it."""
        scale: Scale = self.scale or ("continuous" if self.ranged else "categorical")
        return Dimension(
            name=self.name,
            levels=self.values,
            scale=scale,
            low=self.low,
            high=self.high,
            log=self.log,
            baseline=self.baseline_level.value if self.baseline_level else self.baseline,
            dear=self.dear,
            parent=self.within,
        )

    @model_validator(mode="after")
    def _known_baseline(self) -> Factor:
        """Refuse several baselines, and one that is neither a level nor in the range."""
        marked = [level for level in self.levels if level.baseline]
        if len(marked) > 1 or any(digest(level.value) != digest(self.baseline) for level in marked):
            raise Invalid("baseline: there is more than one")
        in_range = type(self.baseline) in (int, float) and self.ranged and self._inside(self.baseline)
        if self.baseline is not None and self.baseline_level is None and not in_range:
            hint = nearest(str(self.baseline), [str(value) for value in self.values])
            raise Invalid(f"baseline: {self.baseline!r} is not one of the levels{hint}")
        return self

    @cached_property
    def baseline_level(self) -> Level | None:
        """The level that is the baseline; None if there is none."""
        marked = [level for level in self.levels if level.baseline]
        if self.baseline is not None:
            wanted = digest(self.baseline)
            marked = [level for level in self.levels if digest(level.value) == wanted]
        return marked[0] if marked else None


def _marked(raw: object) -> Level | None:
    """The level, if it is marked as the baseline."""
    try:
        level = _level(raw)
    except Invalid:  # reported where the levels are read
        return None
    return level if level.baseline else None


class Block(_Varying):
    """A grouping that is not of interest itself (a day, a machine), crossed with the conditions."""

    description: str = ""

    if TYPE_CHECKING:

        def __init__(self, name: str, levels: Iterable[Any], description: str = "") -> None: ...


class Design(Value):
    """How the factors are combined into conditions: the name of a design, and its parameters."""

    name: Name = "full_factorial"
    parameters: Table = Field(default_factory=dict)

    if TYPE_CHECKING:

        def __init__(self, name: str = ..., parameters: Json = ...) -> None: ...
