"""Every analysis on input that says little or nothing: an honest sentence, never a traceback, never a number
that is not one, never an interval that is a point."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from typing import Any

import pytest

from peira.analysis.gates import Bound, NoWorse, judge
from peira.analysis.power import PowerQuestion, plan_from
from peira.core.log.events import State
from peira.errors import Invalid, PeiraError
from peira.results.aims import Aims
from peira.spec.aims import AnalysisPlan, Hypothesis

CASES, MODELS, SIZES = range(6), ("a", "b"), (1, 2, 3)


def everywhere(trial, value, cases=CASES):
    return [
        trial(c, value(c, m, s), model=m, size=s, slice=f"s{c % 2}", took=1.0, plot=f"{m}{s}")
        for c in cases
        for m in MODELS
        for s in SIZES
    ]


SITUATIONS = {
    "no trials": lambda t: [],
    "one trial": lambda t: [t(0, 1.0, model="a", size=1)],
    "one case": lambda t: everywhere(t, lambda c, m, s: 0.1 * s + (m == "b"), cases=[0]),
    "one case, yes": lambda t: everywhere(t, lambda c, m, s: True, cases=[0]),
    "all equal": lambda t: everywhere(t, lambda c, m, s: 0.7),
    "all right": lambda t: everywhere(t, lambda c, m, s: True),
    "zero variance in each": lambda t: everywhere(t, lambda c, m, s: 1.0 * (m == "b")),
    "perfect separation": lambda t: everywhere(t, lambda c, m, s: m == "b"),
    "everything failed": lambda t: everywhere(t, lambda c, m, s: None),
    "nothing finished": lambda t: [
        t(c, None, model=m, size=1, state=State.queued) for c in CASES for m in MODELS
    ],
    "a side failed": lambda t: everywhere(t, lambda c, m, s: None if m == "b" else c % 2 == 0),
    "all but one failed": lambda t: everywhere(t, lambda c, m, s: 1.0 if (c, m, s) == (0, "a", 1) else None),
    "huge numbers": lambda t: everywhere(t, lambda c, m, s: 1e140 * (c + (m == "b"))),
    "tiny differences": lambda t: everywhere(t, lambda c, m, s: 1e9 + 1e-7 * (c % 2)),
    "one level": lambda t: [t(c, c % 2 == 0, model="a", size=1) for c in CASES],
    "disjoint cases": lambda t: [t(f"{m}{c}", c % 2 == 0, model=m, size=1) for c in CASES for m in MODELS],
}
ANALYSES = {
    "table": lambda r: r.table("model"),
    "table, bootstrap": lambda r: r.table("model", interval="bootstrap"),
    "table, t": lambda r: r.table("model", interval="t"),
    "table, across": lambda r: r.table(across="size"),
    "table, wilson": lambda r: r.table("model", "size", interval="wilson"),
    "compare": lambda r: r.compare("model"),
    "worth": lambda r: r.worth("model", 10),
    "marginal means": lambda r: r.marginal_means("model", "size", within=["size"]),
    "marginal means, largest t": lambda r: r.marginal_means("model", correction="tukey"),
    "compare, margin": lambda r: r.compare("model", margin=0.1),
    "compare, bootstrap": lambda r: r.compare("model", interval="bootstrap"),
    "compare, cliff": lambda r: r.compare("model", effect="cliffs delta"),
    "compare, d": lambda r: r.compare("model", effect="cohen d"),
    "compare, h": lambda r: r.compare("model", effect="cohen h"),
    "compare, tukey": lambda r: r.compare("size", correction="tukey"),
    "compare, dunnett": lambda r: r.compare("size", baseline=1, correction="dunnett"),
    "compare, permutation": lambda r: r.compare("model", test="permutation"),
    "compare, wilcoxon": lambda r: r.compare("model", test="wilcoxon"),
    "compare, mcnemar": lambda r: r.compare("model", test="mcnemar"),
    "compare, sign": lambda r: r.compare("model", test="sign"),
    "compare, itself": lambda r: r.compare(r),
    "effects": lambda r: r.effects(),
    "anova 2": lambda r: r.anova(type=2),
    "anova 3": lambda r: r.anova(type=3),
    "mixed": lambda r: r.mixed(),
    "mixed, random": lambda r: r.mixed("model", random=["size"]),
    "logistic": lambda r: r.mixed(kind="logistic"),
    "marginal": lambda r: r.mixed(kind="marginal"),
    "strata": lambda r: r.strata(),
    "surface": lambda r: r.surface(),
    "leaderboard": lambda r: r.leaderboard(),
    "slices": lambda r: r.slices(),
    "quantiles": lambda r: r.quantiles(),
    "quantiles of scores": lambda r: r.quantiles("match", "model"),
    "ratio": lambda r: r.ratio("took", "match", "model"),
    "ratio, delta": lambda r: r.ratio("took", "match", method="delta"),
    "reliability": lambda r: r.reliability("model"),
    "hypotheses": lambda r: r.hypotheses(),
    "power": lambda r: plan_from(r, "model", PowerQuestion()),
    "gate": lambda r: judge(list(r), [Bound("match", 0.5, "min"), NoWorse("f" * 64, list(r), "match", 0.1)]),
}
AIMS = Aims(
    hypotheses=(
        Hypothesis(id="h", factor="model", levels=("b", "a"), direction="greater"),
        Hypothesis(id="i", factor="size"),
    ),
    plans=(AnalysisPlan(name="p", correction="holm"),),
)


def numbers(found: Any) -> Iterator[float]:
    if isinstance(found, dict):
        low, high = found.get("low"), found.get("high")
        if isinstance(low, float | int) and isinstance(high, float | int):
            # An order statistic is one of the values: with many equal ones both bounds are that value.
            assert low < high or (low == high and found["method"].startswith("order statistics")), found
        found = list(found.values())
    if isinstance(found, list):
        for part in found:
            yield from numbers(part)
    elif isinstance(found, float):
        yield found


def refused(analysis: Any, made: Any) -> Any:
    """What was found, or why nothing was looked for."""
    try:
        return analysis(made)
    except PeiraError as error:
        return error


@pytest.mark.parametrize("name", ANALYSES)
@pytest.mark.parametrize("situation", SITUATIONS)
def test_it_is_said(trial, results, situation, name):
    made = results(SITUATIONS[situation](trial))
    made.aims = AIMS
    found = refused(ANALYSES[name], made)
    if isinstance(found, PeiraError):
        assert isinstance(found, Invalid) or "no " in str(found)
        assert len(str(found)) > 15
        return
    text = str(found)
    assert text.strip()
    assert "nan" not in text.lower().replace("nano", "")
    assert "inf" not in text.lower().split()
    document = json.loads(found.to_json())
    assert all(math.isfinite(number) for number in numbers(document))
