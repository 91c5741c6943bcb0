"""Agents to compare with: one that answers at random, one that always gives the same answer.

`agents={"mine": answer, "chance": {"kind": "random", "answers": ["A", "B", "C", "D"]}}`
"""

from __future__ import annotations

import bisect
import itertools
from collections.abc import Mapping, Sequence

from peira.core.context import Trial
from peira.core.ids import Json
from peira.core.registry import Registry
from peira.errors import Invalid


class _Baseline:
    """An agent of plain code without factors; its options are its identity."""

    kind = ""
    asynchronous = False
    takes: frozenset[str] | None = frozenset()

    def __init__(self, label: str, options: Json) -> None:
        self.label, self._options = label, options

    @property
    def identity(self) -> Json:
        """Kind, label and options; a change of any makes new trials."""
        return {"agent": self.kind, "label": self.label, "options": self._options}


class RandomAgent(_Baseline):
    """Answers at random: one of `answers`, or a key of the case's input (or metadata) named by `of`.

    Answers are equally likely, or as `weights` say. Each trial draws from its own seed: the same study gives
    the same answers at any parallelism, in any runner.
    """

    kind = "random"

    def __init__(
        self, label: str, answers: Sequence[Json] = (), weights: Sequence[float] = (), of: str = ""
    ) -> None:
        problems = []
        if bool(answers) == bool(of):
            problems.append("answers: give a list of answers, or `of`: the field of a case that holds them")
        if weights and (len(weights) != len(answers) or min(weights) < 0 or sum(weights) <= 0):
            problems.append(f"weights: must be {len(answers)} numbers from 0 on, not all 0")
        if problems:
            raise Invalid(problems)
        super().__init__(label, {"answers": list(answers), "weights": list(weights), "of": of})
        self._answers, self._of = list(answers), of
        self._ends = list(itertools.accumulate(weights or [1.0] * len(answers)))

    def invoke(self, trial: Trial) -> Json:
        """One of the answers."""
        draw = trial.rng.random()
        if not self._of:
            return self._answers[
                min(bisect.bisect(self._ends, draw * self._ends[-1]), len(self._answers) - 1)
            ]
        choices = self._choices(trial)
        return choices[int(draw * len(choices))]

    def _choices(self, trial: Trial) -> list[Json]:
        """The answers that a case offers: a list, or the keys of a table."""
        for table in (trial.case.input, trial.case.metadata):
            if isinstance(table, Mapping) and table.get(self._of):
                found = table[self._of]
                return list(found) if isinstance(found, list | tuple | Mapping) else [found]
        raise Invalid(f"case {trial.case.id!r} has no {self._of!r} in its input or metadata to choose from")


class ConstantAgent(_Baseline):
    """Always gives the same `answer`, such as the most frequent one."""

    kind = "constant"

    def __init__(self, label: str, answer: Json) -> None:
        super().__init__(label, {"answer": answer})
        self._answer = answer

    def invoke(self, trial: Trial) -> Json:
        """The answer."""
        return self._answer


def register(registry: Registry) -> None:
    """Register both kinds."""
    registry.add("agent", "random", RandomAgent)
    registry.add("agent", "constant", ConstantAgent)
