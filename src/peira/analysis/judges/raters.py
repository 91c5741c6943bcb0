"""Agreement of several raters with each other, from the scores of the evaluator `person`."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from peira.core.log.events import State
from peira.core.registry import nearest
from peira.core.text import grid as layout
from peira.core.text.result_value import ResultValue, TextGrid
from peira.core.text.words import counted
from peira.errors import Unknown
from peira.results.trials import TrialResult, parts
from peira.stats.agreement import krippendorff_alpha
from peira.stats.values import Interval

RATER = re.compile(r"(.*)\.rater(\d+)\.raw")


@dataclass(frozen=True)
class RaterAgreement(ResultValue):
    """How far raters agree: Krippendorff's alpha, over cases that two or more of them rated.

    Of several outputs of one case the first is taken, so that the interval is over cases. `graded` is
    alpha with partial credit, None if the ratings are no numbers. `seconds` is how long a rating took, None
    if that is unknown.
    """

    score: str
    level: float
    raters: int
    rated: int
    alpha: Interval
    graded: Interval | None
    seconds: float | None

    @property
    def title(self) -> str:
        """The score, the number of raters and of cases."""
        return f"{self.score}: {counted(self.raters, 'rater')} of {counted(self.rated, 'case')}"

    def grids(self) -> list[TextGrid]:
        """The measures with their intervals."""
        measures = {"alpha (nominal)": self.alpha, "alpha (interval)": self.graded}
        rows = [[name, layout.interval(m.value, m.low, m.high)] for name, m in measures.items() if m]
        if self.seconds is not None:
            rows.append(["seconds per rating", f"{self.seconds:.1f}"])
        return [TextGrid(["", f"[{100 * self.level:g}% interval]"], rows)]

    def document(self) -> dict[str, Any]:
        """The fields."""
        return asdict(self)


def rater_agreement(trials: Sequence[TrialResult], score: str, level: float = 0.95) -> RaterAgreement:
    """The agreement of the raters of a score; raises Unknown if there is no such score."""
    answered = [one for one in trials if one.state is State.succeeded and not one.anchor]
    known = {name for one in answered for name in one.scores}
    if score not in known:
        raise Unknown(f"people: there is no score {score!r}{nearest(score, known)}")
    rated: dict[object, dict[int, float | str]] = {}
    took: list[float] = []
    for one in answered:
        said = parts(one.scores[score]) if score in one.scores else {}
        found = {int(m[2]): said[name] for name in said if (m := RATER.fullmatch(name)) and m[1] == score}
        if found:
            rated.setdefault(one.unit, found)
        if isinstance(seconds := said.get(f"{score}.seconds.raw"), float):
            took.append(seconds)
    most = max((max(found) for found in rated.values()), default=0)
    table = [[found.get(rater) for rater in range(1, most + 1)] for found in rated.values()]
    numeric = all(not isinstance(value, str) for row in table for value in row)
    return RaterAgreement(
        score=score,
        level=level,
        raters=most,
        rated=len(table),
        alpha=krippendorff_alpha(table, "nominal", level),
        graded=krippendorff_alpha(table, "interval", level) if numeric and table else None,
        seconds=sum(took) / len(took) if took else None,
    )
