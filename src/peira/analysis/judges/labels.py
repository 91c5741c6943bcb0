"""Human labels of outputs, and a judge's ratings beside them on the same scale.

A label file has one row per labelled output: `label`, and what identifies the output: `trial`, or `case` with
as many of repeat, agent and the factors as needed. A file written by `to_csv` with an added column `label`
qualifies. Rows without a label are skipped.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from peira.analysis.table.groups import Unit, label_of
from peira.core.ids import Json, canonical, short
from peira.core.log.events import State
from peira.core.registry import nearest
from peira.core.text.grid import cell
from peira.core.text.numbers import is_number
from peira.core.verdicts import RAW, VALUE
from peira.errors import Invalid, Unknown
from peira.results.trials import TrialResult, parts
from peira.spec.data_files import READERS, DataRow, Problems, read_rows

# Labels

LABEL = "label"
"""The column of the labels."""
Labels = str | Path | Mapping[str, Json]
"""A file, the name of a field of the cases' metadata, or labels by trial id."""

Label = float | str
"""One label or rating."""


def labels_of(trials: Sequence[TrialResult], given: Labels) -> dict[str, Label]:
    """The labels by trial id, as numbers if all are numeric.

    Raises Unknown if `given` is neither a file nor a metadata field, and Invalid with all problems of a file.
    """
    answered = [one for one in trials if one.state is State.succeeded and not one.anchor]
    if isinstance(given, Mapping):
        found: dict[str, Json] = {one.id: given[one.id] for one in answered if one.id in given}
    elif isinstance(given, Path) or _is_file(given):
        found = _from_file(answered, Path(given))
    else:
        found = _from_metadata(answered, given)
    return _plain({trial: label for trial, label in found.items() if label not in (None, "")})


def labels_of_people(trials: Sequence[TrialResult], score: str) -> dict[str, Label]:
    """The labels by trial id that people gave by a score (of the evaluator `person`), on its own scale.

    Raises Unknown if there is no such score.
    """
    answered = [one for one in trials if one.state is State.succeeded and not one.anchor]
    known = {name for one in answered for name in one.scores}
    if score not in known:
        raise Unknown(f"people: there is no score {score!r}{nearest(score, known)}")
    found: dict[str, Json] = {}
    for one in answered:
        said = parts(one.scores[score]) if score in one.scores else {}
        for part in (f"{score}.{RAW}", f"{score}.verdict", score, f"{score}.{VALUE}"):
            if part in said:
                found[one.id] = said[part]
                break
    return _plain(found)


def _is_file(given: str) -> bool:
    """Whether this names a label file, by its suffix or because it exists."""
    return any(given.endswith(suffix) for suffix in READERS) or Path(given).is_file()


def _from_metadata(trials: Sequence[TrialResult], field: str) -> dict[str, Json]:
    """Labels from a field of the cases' metadata; raises Unknown if no case has it."""
    known = {name for one in trials for name in one.metadata}
    if trials and field not in known:
        raise Unknown(
            f"labels: there is no file {field!r}, and no such field of metadata{nearest(field, known)}"
        )
    return {one.id: one.metadata.get(field) for one in trials}


def _from_file(trials: Sequence[TrialResult], path: Path) -> dict[str, Json]:
    """Labels from a file; raises Invalid with all problems by row."""
    problems, found = Problems(), dict[str, Json]()
    rows = [row for row in read_rows(path, problems, (LABEL,)) if _labelled(row, problems)]
    finder = _Finder(trials)
    for row in rows:
        try:
            matches = finder.meant(row.value)
        except Invalid as problem:
            problems.add(row.file, row.number, str(problem))
            continue
        for trial in matches:
            if found.setdefault(trial.id, row.value[LABEL]) != row.value[LABEL]:
                problems.add(row.file, row.number, f"trial {short(trial.id)} has another label already")
    problems.refuse()
    return found


def _labelled(row: DataRow, problems: Problems) -> bool:
    """Whether a row has a label; a row without the column is a problem."""
    if not isinstance(row.value, dict) or LABEL not in row.value:
        problems.add(row.file, row.number, f"there is no {LABEL!r}")
        return False
    return row.value[LABEL] not in (None, "")


class _Finder:
    """Finds the outputs that a row of a label file refers to."""

    def __init__(self, trials: Sequence[TrialResult]) -> None:
        self._ids = {one.id: one for one in trials}
        self._cases: dict[str, list[TrialResult]] = {}
        for one in trials:
            self._cases.setdefault(one.case_id, []).append(one)
        self._names = {"agent", *(name for one in trials for name in one.condition)}

    def meant(self, row: Mapping[str, Json]) -> list[TrialResult]:
        """The trials a row refers to.

        Raises Invalid if there are none, or several with different outputs.
        """
        if row.get("trial"):
            return self._by_id(str(row["trial"]))
        case = _shown(row.get("case"))
        if case not in self._cases:
            raise Invalid(f"there is no case {case!r} with an output{nearest(case, self._cases)}")
        given = dict(self._conditions_of(row))
        found = [one for one in self._cases[case] if all(_says(one, *fact) for fact in given.items())]
        if not found:
            raise Invalid(f"no output of case {case!r} is of {_facts(given)}")
        if len({canonical(one.output) for one in found}) > 1:
            more = ", ".join(sorted({*self._names, "repeat"} - set(given)))
            raise Invalid(f"it fits {len(found)} outputs of case {case!r} that differ; say also {more}")
        return found

    def _by_id(self, id: str) -> list[TrialResult]:
        """The trial with this id or unique prefix; raises Invalid if there is none."""
        found = [one for full, one in self._ids.items() if full.startswith(id)]
        if len(found) != 1:
            raise Invalid(
                f"there is no trial {id!r} with an output" if not found else f"{id!r} is no one trial"
            )
        return found

    def _conditions_of(self, row: Mapping[str, Json]) -> Iterator[tuple[str, str]]:
        """The factors, agent and repeat that a row specifies."""
        for name, value in row.items():
            name = name.removeprefix("condition.")
            if (name in self._names or name == "repeat") and value not in (None, ""):
                yield name, _shown(value)


def _says(trial: TrialResult, name: str, value: str) -> bool:
    """Whether a trial has this value of a factor, agent or repeat."""
    return _shown(trial.repeat if name == "repeat" else label_of(trial, name)) == value


def _facts(given: Mapping[str, str]) -> str:
    """The specified values, as text."""
    return ", ".join(f"{name}={cell(value)}" for name, value in given.items())


def _shown(value: Json) -> str:
    """A value as text files have it."""
    return value if isinstance(value, str) else "" if value is None else canonical(value).decode()


def _plain(found: dict[str, Json]) -> dict[str, Label]:
    """Labels as numbers if all are (true and false are 1 and 0), else as texts."""
    numbers = {trial: _number(label) for trial, label in found.items()}
    if None not in numbers.values():
        return {trial: number for trial, number in numbers.items() if number is not None}
    return {trial: _shown(label) for trial, label in found.items()}


def _number(label: Json) -> float | None:
    """A label as a finite number; None if it is not one."""
    if isinstance(label, bool) or str(label).lower() in ("true", "false"):
        return float(str(label).lower() == "true")
    try:
        number = float(label) if isinstance(label, str) or is_number(label) else None
    except ValueError:
        return None
    return number if number is not None and abs(number) < float("inf") else None


# Ratings


@dataclass(frozen=True)
class Rating:
    """A judge's rating of one output and its human label; None without a label."""

    trial: TrialResult
    judged: Label
    label: Label | None

    @property
    def unit(self) -> Unit:
        """The unit of evidence of the output."""
        return self.trial.unit


@dataclass(frozen=True)
class Ratings:
    """All outputs that a judge rated; `score` is the score part on the scale of the labels."""

    score: str
    every: tuple[Rating, ...]

    @property
    def labelled(self) -> tuple[Rating, ...]:
        """The ratings that have a label."""
        return tuple(one for one in self.every if one.label is not None)

    @property
    def numeric(self) -> bool:
        """Whether all ratings and labels are numbers."""
        return all(not isinstance(one.judged, str) and not isinstance(one.label, str) for one in self.every)

    @property
    def binary(self) -> bool:
        """Whether all ratings and labels are 0 or 1."""
        return self.numeric and all(one.judged in (0, 1) and one.label in (0, 1, None) for one in self.every)


def ratings(
    trials: Sequence[TrialResult],
    labels: Mapping[str, Label],
    score: str | None = None,
    cut: float | None = None,
) -> Ratings:
    """The ratings of a score beside the labels.

    If only the evaluator is named, the part on the scale of the labels is chosen. With a `cut`, numbers of at
    least that become 1 and others 0; labels that are all 0 or 1 stay. Raises Invalid or Unknown if no score
    part can be chosen.
    """
    scores = {one.id: _score_parts(one) for one in trials if not one.anchor}
    evaluators = dict.fromkeys(name for one in trials for name in one.scores)
    name = _part(scores, list(evaluators), labels, score)
    found = [(one, scores[one.id][name]) for one in trials if one.id in scores and name in scores[one.id]]
    if cut is not None and any(isinstance(judged, str) for _, judged in found):
        raise Invalid(f"cut: {name} is a text, which is neither above nor below {cut:g}")
    whole = set(labels.values()) <= {0.0, 1.0}
    rated = [
        Rating(one, _cut(judged, cut), _cut(labels.get(one.id), None if whole else cut))
        for one, judged in found
    ]
    return Ratings(name, tuple(rated))


def _score_parts(trial: TrialResult) -> dict[str, Label]:
    """All score parts of a trial."""
    return {name: value for score in trial.scores.values() for name, value in parts(score).items()}


def _part(
    scores: Mapping[str, Mapping[str, Label]],
    evaluators: Sequence[str],
    labels: Mapping[str, Label],
    score: str | None,
) -> str:
    """The name of the score part to compare with the labels."""
    known = list(dict.fromkeys(name for values in scores.values() for name in values))
    if not known:
        raise Invalid("no output has a score to compare with labels")
    if score in known:
        return str(score)
    if score is None and len(evaluators) > 1:
        raise Invalid(f"score: there are several; name one of {', '.join(evaluators)}")
    evaluator = evaluators[0] if score is None else score
    if evaluator in known:
        return evaluator
    of = [name for name in known if name.startswith(f"{evaluator}.")]
    if not of:
        raise Unknown(f"no score {evaluator!r}{nearest(evaluator, {*known, *evaluators})}")
    return _like(of, evaluator, scores, labels)


def _like(
    names: Sequence[str],
    evaluator: str,
    scores: Mapping[str, Mapping[str, Label]],
    labels: Mapping[str, Label],
) -> str:
    """The score part whose values are on the scale of the labels: texts, [0, 1], or the raw scale."""
    words = any(isinstance(label, str) for label in labels.values())
    unit = all(not isinstance(label, str) and 0 <= label <= 1 for label in labels.values())
    raw = [f"{evaluator}.{RAW}", f"{evaluator}.verdict"]
    order = [f"{evaluator}.{VALUE}", *raw] if unit else [*raw, f"{evaluator}.{VALUE}"]
    for name in order:
        values = [values[name] for values in scores.values() if name in values]
        if values and any(isinstance(value, str) for value in values) == words:
            return name
    kind = "texts" if words else "numbers"
    raise Invalid(f"score: the labels are {kind}; name the part that is like them: {', '.join(names)}")


def _cut(value: Any, cut: float | None) -> Any:
    """A number as 0 or 1 by the cut; texts, None and no cut leave it unchanged."""
    if value is None or cut is None or isinstance(value, str):
        return value
    return float(value >= cut)
