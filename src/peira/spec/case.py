"""Cases: the problems an agent is given, and the forms in which people write them.

A case is a msgspec struct and not a pydantic model, because studies have hundreds of thousands of them. Its
values are normalised when it is made, so the value that is hashed is the value the agent gets.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain, islice
from typing import Any

import msgspec

import peira.spec as spec
from peira.core.context import SeenCase
from peira.core.contracts import Evaluator
from peira.core.ids import Json, canonical, digest_bytes, normalise
from peira.core.registry import nearest
from peira.errors import Invalid
from peira.spec.plugins import as_evaluator

ID_DIGITS = 16
MANY = 50_000
"""From so many cases on, a set is packed."""
_set = msgspec.structs.force_setattr


class _Problem(msgspec.Struct, frozen=True, gc=False):
    """The positional fields of a case; the rest is by keyword."""

    input: Json
    expected: Json = None


class Case(_Problem, frozen=True, kw_only=True, gc=False):
    """One problem: `Case("Capital of France?", expected="Paris")`.

    The agent sees all of it but `expected` and `evaluators`. `id` names it (default: a digest of its input);
    `cluster` groups cases that are not independent; `slice` is the part of the set it belongs to;
    `evaluators` score this case in addition to those of the study.
    """

    id: str | None = None
    cluster: str | None = None
    slice: str | None = None
    metadata: dict[str, Json] = {}
    evaluators: tuple[Any, ...] = ()

    def __post_init__(self) -> None:
        _set(self, "input", normalise(self.input, "input"))
        if self.expected is not None:
            _set(self, "expected", normalise(self.expected, "expected"))
        if self.id is not None or self.cluster is not None or self.slice is not None:
            for name in ("id", "cluster", "slice"):
                _set(self, name, _label(name, getattr(self, name)))
        if self.metadata:
            _set(self, "metadata", _metadata(self.metadata))
        if self.evaluators:
            _set(self, "evaluators", _several(self.evaluators))

    def seen(self, id: str) -> SeenCase:
        """The case as the agent sees it, under the id it has in its set."""
        return SeenCase(self.input, id, self.slice, self.cluster, self.metadata)

    def resolved_evaluators(self) -> tuple[Evaluator, ...]:
        """Its own evaluators, made from what was written."""
        return tuple(map(as_evaluator, self.evaluators))


KEYS = Case.__struct_fields__
_PLAIN = b'{"cluster":null,"id":%b,"input":%b,"metadata":{},"slice":null}'
PLAIN_INPUTS = (str, int, float, bool)


def _label(name: str, value: object) -> str | None:
    """A label as text, or None; Invalid if it is empty or no text.

    A whole number counts as its text, so that CSV and JSON name a case alike.
    """
    if type(value) is int:
        return str(value)
    if value is None or (isinstance(value, str) and value and normalise(str(value), name)):
        return value
    raise Invalid(f"{name}: must be text that is not empty, not {value!r}")


def _metadata(value: object) -> dict[str, Json]:
    """The metadata, normalised."""
    if not isinstance(value, Mapping):
        raise Invalid(f"metadata: must be a table of names and values, not {value!r}")
    return dict(normalise(dict(value), "metadata"))


def _several(value: object) -> tuple[Any, ...]:
    """One or several, as a tuple."""
    return tuple(value) if isinstance(value, (list, tuple)) else (value,)


def as_case(value: object) -> Case:
    """Make a case from a Case, (input, expected), a table of its fields, a text or a number.

    Raises Invalid for anything else; its problems start with the path inside the case.
    """
    kind = type(value)
    if kind is tuple or kind is list:
        if len(value) != 2:  # type: ignore[arg-type]
            raise Invalid(f": a case as a list is (input, expected), not {len(value)} items")  # type: ignore[arg-type]
        return Case(value[0], value[1])  # type: ignore[index]
    if kind is Case:
        return value  # type: ignore[return-value]
    if kind in PLAIN_INPUTS:
        return Case(value)
    if kind is dict:
        return _from_table(value)  # type: ignore[arg-type]
    raise Invalid(
        f": {value!r} is not a case; write Case(...), (input, expected), a table, a text or a number"
    )


def _from_table(table: Mapping[str, Any]) -> Case:
    """Make a case from a table; Invalid for unknown fields, or if the input is missing."""
    unknown = [k for k in table if k not in KEYS]
    problems = [f".{key}: is not a field of a case{nearest(str(key), KEYS)}" for key in unknown]
    if "input" not in table:
        problems.append(".input: is missing")
    if problems:
        raise Invalid(problems)
    return Case(**table)


def as_cases(values: Iterable[object], path: Callable[[int], str], problems: list[str]) -> Iterator[Case]:
    """The cases that can be made; a problem at `path(position)` is added for each value that is none."""
    for position, value in enumerate(values):
        try:
            case = as_case(value)
        except Invalid as error:
            at = path(position)
            problems += [f"{at}{p}" if p[0] in ".:[" else f"{at}.{p}" for p in error.problems]
        else:
            yield case


def gathered(cases: Iterable[Case]) -> Sequence[Case]:
    """The cases as a tuple; packed if they are many, and none has evaluators of its own."""
    cases = iter(cases)
    first = tuple(islice(cases, MANY))
    if len(first) < MANY or any(case.evaluators for case in first):
        return (*first, *cases)
    judged: list[Case] = []
    packed = spec.PackedCases(chain(first, _until_judged(cases, judged)))
    return (*packed, *judged, *cases) if judged else packed


def _until_judged(cases: Iterator[Case], judged: list[Case]) -> Iterator[Case]:
    """The cases before the first that has evaluators of its own, which is put into `judged`."""
    for case in cases:
        if case.evaluators:
            judged.append(case)
            return
        yield case


def with_evaluators(cases: Sequence[Case]) -> Iterator[tuple[int, Case]]:
    """The cases of a set that have evaluators of their own, and their positions; packed ones have none."""
    if isinstance(cases, tuple):
        yield from ((at, case) for at, case in enumerate(cases) if case.evaluators)


def repeated_ids(cases: Sequence[Case]) -> Mapping[str, int]:
    """The ids that several cases of a set have, and how many."""
    if not isinstance(cases, tuple) and isinstance(cases, spec.PackedCases):
        return cases.repeated_ids()
    if all(case.id is None for case in cases):
        return {}
    return {id: n for id, n in Counter(case_ids(cases)).items() if n > 1}


def case_ids(cases: Iterable[Case]) -> list[str]:
    """The id of each case: the given one, or its input's digest, numbered among equal inputs.

    Adding or removing a case changes the id of no other, except of later ones with the same input.
    """
    met: Counter[str] = Counter()
    return [case.id if case.id is not None else _occurrence(met, canonical(case.input)) for case in cases]


def identities(cases: Iterable[Case]) -> Iterator[tuple[str, str]]:
    """(id, digest of everything the agent sees) of each case; the input is encoded once for both."""
    met: Counter[str] = Counter()
    for case in cases:
        input = canonical(case.input)
        id = case.id if case.id is not None else _occurrence(met, input)
        yield id, seen_digest(case, id, input)


def is_input_digest(id: str, value: Json) -> bool:
    """Whether a case's id is not given but made of the digest of its input."""
    name, _, number = id.partition("-")
    made = name == digest_bytes(canonical(value))[:ID_DIGITS]
    return made and (not number or number.isdecimal())


def _occurrence(met: Counter[str], input: bytes) -> str:
    """The digest of the canonical input, with a number from its second occurrence on."""
    name = digest_bytes(input)[:ID_DIGITS]
    earlier = met.get(name, 0)
    met[name] = earlier + 1
    return f"{name}-{earlier}" if earlier else name


def seen_digest(case: Case, id: str, input: bytes = b"") -> str:
    """The digest of everything the agent sees of a case; `expected` is not part of it.

    `input` is the case's in canonical form, if it is at hand.
    """
    if type(case.input) is str and not case.metadata and case.cluster is None and case.slice is None:
        # The same bytes, formatted directly: a fast path for most cases, of which there may be very many.
        return digest_bytes(_PLAIN % (canonical(id), input or canonical(case.input)))
    return digest_bytes(
        canonical(
            {
                "cluster": case.cluster,
                "id": id,
                "input": case.input,
                "metadata": case.metadata,
                "slice": case.slice,
            }
        )
    )
