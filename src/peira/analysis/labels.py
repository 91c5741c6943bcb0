"""What people say of outputs: labels in a file, in the metadata of cases, or by the ids of trials.

A file has a row for each labelled output: `label`, and what tells which output is meant: `trial`, or `case`
with as many of repeat, agent and the factors as it takes. A file that `to_csv` wrote, with a column `label`
added, is one. Rows without a label are passed over.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from peira.analysis.groups import label_of
from peira.analysis.layout import cell
from peira.analysis.trials import TrialResult
from peira.core.events import State
from peira.core.ids import Json, canonical, short
from peira.core.reading.numbers import is_number
from peira.core.registry import nearest
from peira.errors import Invalid, Unknown
from peira.spec.rows import READERS, Problems, Row, read_rows

LABEL = "label"
Labels = str | Path | Mapping[str, Json]
"""A file, the name of a field of the cases' metadata, or labels by the ids of trials."""

Label = float | str


def labels_of(trials: Sequence[TrialResult], given: Labels) -> dict[str, Label]:
    """The labels there are, by the ids of the trials whose outputs they are about; numbers as numbers."""
    answered = [one for one in trials if one.state is State.succeeded and not one.anchor]
    if isinstance(given, Mapping):
        found: dict[str, Json] = {one.id: given[one.id] for one in answered if one.id in given}
    elif isinstance(given, Path) or _is_file(given):
        found = _from_file(answered, Path(given))
    else:
        found = _from_metadata(answered, given)
    return _plain({trial: label for trial, label in found.items() if label not in (None, "")})


def _is_file(given: str) -> bool:
    return any(given.endswith(suffix) for suffix in READERS) or Path(given).is_file()


def _from_metadata(trials: Sequence[TrialResult], field: str) -> dict[str, Json]:
    known = {name for one in trials for name in one.metadata}
    if trials and field not in known:
        raise Unknown(
            f"labels: there is no file {field!r}, and no such field of metadata{nearest(field, known)}"
        )
    return {one.id: one.metadata.get(field) for one in trials}


def _from_file(trials: Sequence[TrialResult], path: Path) -> dict[str, Json]:
    problems, found = Problems(), dict[str, Json]()
    rows = [row for row in read_rows(path, problems, (LABEL,)) if _labelled(row, problems)]
    finder = _Finder(trials)
    for row in rows:
        try:
            meant = finder.meant(row.value)
        except Invalid as problem:
            problems.add(row.file, row.number, str(problem))
            continue
        for trial in meant:
            if found.setdefault(trial.id, row.value[LABEL]) != row.value[LABEL]:
                problems.add(row.file, row.number, f"trial {short(trial.id)} has another label already")
    problems.refuse()
    return found


def _labelled(row: Row, problems: Problems) -> bool:
    if not isinstance(row.value, dict) or LABEL not in row.value:
        problems.add(row.file, row.number, f"there is no {LABEL!r}")
        return False
    return row.value[LABEL] not in (None, "")


class _Finder:
    """Finds the outputs that a row is about."""

    def __init__(self, trials: Sequence[TrialResult]) -> None:
        self._ids = {one.id: one for one in trials}
        self._cases: dict[str, list[TrialResult]] = {}
        for one in trials:
            self._cases.setdefault(one.case_id, []).append(one)
        self._names = {"agent", *(name for one in trials for name in one.condition)}

    def meant(self, row: Mapping[str, Json]) -> list[TrialResult]:
        if row.get("trial"):
            return self._by_id(str(row["trial"]))
        case = _shown(row.get("case"))
        if case not in self._cases:
            raise Invalid(f"there is no case {case!r} with an output{nearest(case, self._cases)}")
        told = dict(self._told(row))
        found = [one for one in self._cases[case] if all(_says(one, *fact) for fact in told.items())]
        if not found:
            raise Invalid(f"no output of case {case!r} is of {_facts(told)}")
        if len({canonical(one.output) for one in found}) > 1:
            more = ", ".join(sorted({*self._names, "repeat"} - set(told)))
            raise Invalid(f"it fits {len(found)} outputs of case {case!r} that differ; say also {more}")
        return found

    def _by_id(self, id: str) -> list[TrialResult]:
        found = [one for full, one in self._ids.items() if full.startswith(id)]
        if len(found) != 1:
            raise Invalid(
                f"there is no trial {id!r} with an output" if not found else f"{id!r} is no one trial"
            )
        return found

    def _told(self, row: Mapping[str, Json]) -> Iterator[tuple[str, str]]:
        for name, value in row.items():
            name = name.removeprefix("condition.")
            if (name in self._names or name == "repeat") and value not in (None, ""):
                yield name, _shown(value)


def _says(trial: TrialResult, name: str, value: str) -> bool:
    return _shown(trial.repeat if name == "repeat" else label_of(trial, name)) == value


def _facts(told: Mapping[str, str]) -> str:
    return ", ".join(f"{name}={cell(value)}" for name, value in told.items())


def _shown(value: Json) -> str:
    """A value as a file of texts has it."""
    return value if isinstance(value, str) else "" if value is None else canonical(value).decode()


def _plain(found: dict[str, Json]) -> dict[str, Label]:
    """Labels as numbers, if all are (true and false are 1 and 0), or else as texts."""
    numbers = {trial: _number(label) for trial, label in found.items()}
    if None not in numbers.values():
        return {trial: number for trial, number in numbers.items() if number is not None}
    return {trial: _shown(label) for trial, label in found.items()}


def _number(label: Json) -> float | None:
    if isinstance(label, bool) or str(label).lower() in ("true", "false"):
        return float(str(label).lower() == "true")
    try:
        number = float(label) if isinstance(label, str) or is_number(label) else None
    except ValueError:
        return None
    return number if number is not None and abs(number) < float("inf") else None
