"""What a judge said of outputs beside what people said of them, on one scale."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from peira.analysis.groups import Unit
from peira.analysis.labels import Label
from peira.analysis.trials import TrialResult, parts
from peira.core.registry import nearest
from peira.core.verdicts import RAW, VALUE
from peira.errors import Invalid, Unknown


@dataclass(frozen=True)
class Rating:
    """What a judge said of one output, and what people said of it; None if they did not."""

    trial: TrialResult
    judged: Label
    label: Label | None

    @property
    def unit(self) -> Unit:
        return self.trial.unit


@dataclass(frozen=True)
class Ratings:
    """All outputs that a judge rated; `score` is the part of its score that is on the scale of the labels."""

    score: str
    every: tuple[Rating, ...]

    @property
    def labelled(self) -> tuple[Rating, ...]:
        return tuple(one for one in self.every if one.label is not None)

    @property
    def numeric(self) -> bool:
        return all(not isinstance(one.judged, str) and not isinstance(one.label, str) for one in self.every)

    @property
    def binary(self) -> bool:
        return self.numeric and all(one.judged in (0, 1) and one.label in (0, 1, None) for one in self.every)


def ratings(
    trials: Sequence[TrialResult],
    labels: Mapping[str, Label],
    score: str | None = None,
    cut: float | None = None,
) -> Ratings:
    """The ratings of a score; named by its evaluator alone, of the part that the labels are like.

    With a `cut`, numbers of at least that are 1 and others 0; labels that are 0 or 1 already stay."""
    said = {one.id: _said(one) for one in trials if not one.anchor}
    evaluators = dict.fromkeys(name for one in trials for name in one.scores)
    name = _part(said, list(evaluators), labels, score)
    found = [(one, said[one.id][name]) for one in trials if one.id in said and name in said[one.id]]
    if cut is not None and any(isinstance(judged, str) for _, judged in found):
        raise Invalid(f"cut: {name} is a text, which is neither above nor below {cut:g}")
    whole = set(labels.values()) <= {0.0, 1.0}
    rated = [
        Rating(one, _cut(judged, cut), _cut(labels.get(one.id), None if whole else cut))
        for one, judged in found
    ]
    return Ratings(name, tuple(rated))


def _said(trial: TrialResult) -> dict[str, Label]:
    return {name: value for score in trial.scores.values() for name, value in parts(score).items()}


def _part(
    said: Mapping[str, Mapping[str, Label]],
    evaluators: Sequence[str],
    labels: Mapping[str, Label],
    score: str | None,
) -> str:
    known = list(dict.fromkeys(name for values in said.values() for name in values))
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
    return _like(of, evaluator, said, labels)


def _like(
    names: Sequence[str],
    evaluator: str,
    said: Mapping[str, Mapping[str, Label]],
    labels: Mapping[str, Label],
) -> str:
    """The part whose values are what labels are: texts, numbers from 0 to 1, or numbers of its own scale."""
    words = any(isinstance(label, str) for label in labels.values())
    unit = all(not isinstance(label, str) and 0 <= label <= 1 for label in labels.values())
    raw = [f"{evaluator}.{RAW}", f"{evaluator}.verdict"]
    order = [f"{evaluator}.{VALUE}", *raw] if unit else [*raw, f"{evaluator}.{VALUE}"]
    for name in order:
        values = [values[name] for values in said.values() if name in values]
        if values and any(isinstance(value, str) for value in values) == words:
            return name
    kind = "texts" if words else "numbers"
    raise Invalid(f"score: the labels are {kind}; name the part that is like them: {', '.join(names)}")


def _cut(value: Any, cut: float | None) -> Any:
    if value is None or cut is None or isinstance(value, str):
        return value
    return float(value >= cut)
