"""The confusion matrix: what was expected against what was answered, with recall and precision of each label.

An answer is what the transform found in an output, or the output itself. Labels are short texts, whole
numbers and truth values; texts are the same whatever their case and the blanks around them. Of many labels
the rarest are shown together. Intervals count cases, not trials.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from peira.analysis.table.groups import LOST, Unit
from peira.core.log.events import State
from peira.core.text import grid as layout
from peira.core.text.result_value import ResultValue, TextGrid
from peira.core.text.words import counted
from peira.errors import Invalid
from peira.results.trials import TrialResult
from peira.stats.intervals.means import estimate
from peira.stats.values import Estimate

MOST_LABELS = 12
"""Labels with a row and a column of their own."""
LONGEST = 80
"""Characters of a label."""
OTHER, NO_ANSWER = "(other)", "(no answer)"


@dataclass(frozen=True)
class LabelScores:
    """A label: how often it was expected and answered, and the shares of these that were right.

    `recall` is of those expected, `precision` of those answered; None if there are none.
    """

    label: str
    expected: int
    answered: int
    recall: Estimate | None
    precision: Estimate | None


@dataclass(frozen=True)
class Confusion(ResultValue):
    """Counts of answers by what was expected: `counts[i][j]` have `labels[i]` expected, `answers[j]` given.

    `answers` are the labels, and (other) and (no answer) where there are such.
    """

    level: float
    labels: tuple[str, ...]
    answers: tuple[str, ...]
    counts: tuple[tuple[int, ...], ...]
    scores: tuple[LabelScores, ...]
    right: Estimate | None
    notes: tuple[str, ...] = ()

    @property
    def sentence(self) -> str:
        """The share of right answers, and the most frequent confusion."""
        if self.right is None:
            return "No trial has an answer and a label that was expected: nothing can be said."
        said = f"right: {layout.interval(self.right.mean, self.right.low, self.right.high)}"
        wrong = [
            (count, label, answer)
            for label, row in zip(self.labels, self.counts, strict=True)
            for answer, count in zip(self.answers, row, strict=True)
            if answer != label and count
        ]
        if not wrong:
            return f"{said}; nothing was confused."
        count, label, answer = max(wrong, key=lambda one: one[0])
        return f"{said}; most often {label} was answered by {answer} ({count:,})."

    def grids(self) -> list[TextGrid]:
        """The matrix, and recall and precision of each label."""
        if not self.labels:
            return []
        rows = [[label, *map(str, row)] for label, row in zip(self.labels, self.counts, strict=True)]
        shares = f"[{100 * self.level:g}% interval]"
        scores = [
            [one.label, str(one.expected), _share(one.recall), str(one.answered), _share(one.precision)]
            for one in self.scores
        ]
        header = ["label", "expected", f"recall {shares}", "answered", f"precision {shares}"]
        return [TextGrid(["expected \\ answered", *self.answers], rows), TextGrid(header, scores)]


def _share(found: Estimate | None) -> str:
    """A share with its interval; a dash if there is none."""
    return "-" if found is None else layout.interval(found.mean, found.low, found.high)


class _Answer(NamedTuple):
    """What one trial was expected to answer, and what it answered (None: nothing that is a label)."""

    unit: Unit
    expected: str
    said: str | None


def confusion(trials: Iterable[TrialResult], level: float = 0.95, notes: Sequence[str] = ()) -> Confusion:
    """The confusion matrix of the trials that succeeded; anchors are left out.

    Raises Invalid for a level outside (0, 1), or if what is expected are no labels.
    """
    if not 0 < level < 1:
        raise Invalid(f"level: must lie between 0 and 1, not {level!r}")
    shown: dict[str, str] = {}
    answers, ends = [], Counter[str]()
    for trial in trials:
        if trial.anchor:
            continue
        if trial.state is not State.succeeded:
            ends["lost" if trial.state in LOST else "not run"] += 1
        elif trial.expected is None:
            ends["without"] += 1
        else:
            answers.append(_Answer(trial.unit, _expected(trial, shown), _said(trial, shown)))
    return _confusion(answers, shown, level, (*_remarks(ends), *notes))


def _confusion(
    answers: Sequence[_Answer], shown: dict[str, str], level: float, notes: Sequence[str]
) -> Confusion:
    """The matrix of these answers."""
    seen = Counter(one.expected for one in answers)
    often = sorted(seen, key=lambda label: (-seen[label], label))[:MOST_LABELS]
    labels = sorted(often, key=lambda label: shown[label])
    rows = [*labels, *([OTHER] if len(seen) > len(often) else [])]
    given = [_column(one, labels) for one in answers]
    columns = [*labels, *(name for name in (OTHER, NO_ANSWER) if name in given)]
    counts = Counter(
        (one.expected if one.expected in labels else OTHER, said)
        for one, said in zip(answers, given, strict=True)
    )
    scores = tuple(_scores(label, shown.get(label, label), answers, level) for label in labels)
    units = [one.unit for one in answers]
    right = estimate([float(one.said == one.expected) for one in answers], units, level) if answers else None
    return Confusion(
        level,
        tuple(shown.get(label, label) for label in rows),
        tuple(shown.get(label, label) for label in columns),
        tuple(tuple(counts[row, column] for column in columns) for row in rows),
        scores,
        right,
        tuple(notes),
    )


def _column(one: _Answer, labels: Sequence[str]) -> str:
    """The column of an answer."""
    if one.said is None:
        return NO_ANSWER
    return one.said if one.said in labels else OTHER


def _scores(label: str, shown: str, answers: Sequence[_Answer], level: float) -> LabelScores:
    """Recall and precision of a label."""
    expected = [one for one in answers if one.expected == label]
    answered = [one for one in answers if one.said == label]
    recall, precision = (
        estimate([float(one.said == one.expected) for one in some], [one.unit for one in some], level)
        if some
        else None
        for some in (expected, answered)
    )
    return LabelScores(shown, len(expected), len(answered), recall, precision)


def _expected(trial: TrialResult, shown: dict[str, str]) -> str:
    """The label that is expected of a trial."""
    found = _label(trial.expected, shown)
    if found is None:
        raise Invalid(
            f"confusion: what case {trial.case_id} expects is no label: a text of at most {LONGEST} "
            "characters, a whole number, true or false"
        )
    return found


def _said(trial: TrialResult, shown: dict[str, str]) -> str | None:
    """The label that a trial answered; None if it found no answer, or one that is no label."""
    if trial.found is None:
        return _label(trial.output, shown)
    return _label(trial.found.value, shown) if trial.found.state is State.succeeded else None


def _label(value: object, shown: dict[str, str]) -> str | None:
    """The key of a label, which is shown as first written; None if the value is no label."""
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if isinstance(value, bool):
        value = "true" if value else "false"
    if not isinstance(value, (str, int)):
        return None
    text = " ".join(str(value).split())
    if not text or len(text) > LONGEST:
        return None
    shown.setdefault(text.casefold(), text)
    return text.casefold()


def _remarks(ends: Counter[str]) -> Iterator[str]:
    """What is not in the matrix."""
    said = {
        "lost": "without an output",
        "not run": "not run to an end",
        "without": "of cases that expect nothing",
    }
    parts = [f"{counted(ends[kind], 'trial')} {words}" for kind, words in said.items() if ends[kind]]
    if parts:
        yield f"not in the matrix: {', '.join(parts)}"
