"""What rules that choose among many levels have in common."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from peira.core.registry import nearest
from peira.design.adaptive.spans import Range
from peira.spec.study import Study
from peira.spec.values import Value


class Contest(Value):
    """`by` is the factor whose levels compete (or "agent"), `score` the outcome (the primary one if it is not
    named); more of it is better unless the outcome says that it is to be minimised."""

    by: str
    score: str = ""
    range: Range = (0.0, 1.0)

    def problems(self, study: Study) -> Iterator[str]:
        known = [one.name for one in study.factors if one.levels] + ["agent"] * study.labelled
        if self.by not in known:
            yield f"by: there is no factor {self.by!r} with levels{nearest(self.by, known)}"
        named = {one.name for one in study.outcomes}
        if self.score and named and self.score not in named:
            yield f"score: there is no outcome {self.score!r}{nearest(self.score, named)}"

    def claims(self, study: Study) -> Sequence[str]:
        return ()

    def outcome(self, study: Study) -> str:
        return self.score
