"""Effect sizes, intervals and corrections by name: reachable, and the same as independent software says."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from peira.errors import Invalid, Unknown
from peira.results.aims import Aims
from peira.spec.aims import AnalysisPlan, Hypothesis


def sides(trial, rng, n=40, apart=False, binary=False):
    """Two models on the same cases, or each on its own."""
    for case in range(n):
        for m, shift in (("a", 0.0), ("b", 0.6)):
            value = rng.normal(shift, 1.0)
            yield trial(f"{case}{m if apart else ''}", bool(value > 0) if binary else value, model=m)


def effect(made, name, **asked):
    return made.compare("model", "b", "a", effect=name, **asked).contrasts[0].effect


def values(made, model):
    return np.array([float(t.scores["match"].value) for t in made if t.condition["model"] == model])


@pytest.mark.parametrize("apart", [False, True])
@pytest.mark.parametrize("name", ["cohen d", "hedges g", "cliffs delta"])
def test_sizes_of_numbers(trial, results, name, apart):
    made = results(sides(trial, np.random.default_rng(1), apart=apart))
    found = effect(made, name)
    b, a = values(made, "b"), values(made, "a")
    pooled = math.sqrt((a.var(ddof=1) + b.var(ddof=1)) / 2)
    expected = {
        "cohen d": (b.mean() - a.mean()) / pooled,
        "hedges g": (b.mean() - a.mean()) / pooled * (1 - 3 / (4 * 78 - 1)),
        "cliffs delta": np.sign(b[:, None] - a[None]).mean(),
    }[name]
    assert found.value == pytest.approx(expected, rel=1e-3 if name == "hedges g" else 1e-12)
    assert found.low < found.value < found.high
    assert found.method == name.replace("cliffs", "cliff's" if apart else "cliffs")


@pytest.mark.parametrize("apart", [False, True])
@pytest.mark.parametrize("name", ["cohen h", "odds ratio"])
def test_sizes_of_answers(trial, results, name, apart):
    made = results(sides(trial, np.random.default_rng(2), apart=apart, binary=True))
    found = effect(made, name)
    p, q = values(made, "b").mean(), values(made, "a").mean()
    if name == "cohen h":
        assert found.value == pytest.approx(2 * math.asin(p**0.5) - 2 * math.asin(q**0.5))
    assert found.low < found.value < found.high


def test_the_size_that_fits_and_those_that_do_not(trial, results):
    numbers = results(sides(trial, np.random.default_rng(1)))
    assert effect(numbers, "").method == "cohen dz"
    for name in ("odds ratio", "cohen h"):
        with pytest.raises(Invalid, match="needs one yes/no answer"):
            effect(numbers, name)
    with pytest.raises(Unknown, match="did you mean"):
        effect(numbers, "cohen k")
    with pytest.raises(Invalid, match="needs pairs"):
        effect(results(sides(trial, np.random.default_rng(1), apart=True)), "cohen dz")


@pytest.mark.parametrize("apart", [False, True])
def test_the_bootstrap_agrees_with_scipys(trial, results, apart):
    """BCa of scipy, from other draws: bounds within 0.03."""
    made = results(sides(trial, np.random.default_rng(3), apart=apart))
    found = made.compare("model", "b", "a", interval="bootstrap").contrasts[0].difference
    b, a = values(made, "b"), values(made, "a")
    rng = np.random.default_rng(0)
    if apart:
        other = stats.bootstrap((b, a), lambda x, y, axis: x.mean(axis) - y.mean(axis), rng=rng)
    else:
        other = stats.bootstrap((b - a,), np.mean, rng=rng)
    assert (found.low, found.high) == pytest.approx(tuple(other.confidence_interval), abs=0.03)
    with pytest.raises(Invalid, match="bootstrap"):
        made.compare("model", interval="wilson")


def test_intervals_of_means_by_name(trial, results):
    made = results(trial(case, case % 3 > 0, model="a") for case in range(30))
    rows = {
        way: made.table(interval=way).body[0] for way in ("", "wilson", "clopper-pearson", "bootstrap", "t")
    }
    test = stats.binomtest(20, 30)
    for way in ("wilson", "clopper-pearson"):
        kind = "exact" if way == "clopper-pearson" else way
        assert (rows[way].low, rows[way].high) == pytest.approx(tuple(test.proportion_ci(method=kind)))
    assert {row.method for row in rows.values()} == {
        "exact",
        "wilson",
        "clopper-pearson",
        "bootstrap t on units (few)",
        "t (few)",
    }
    repeated = results(trial(case, True, repeat, model="a") for case in range(5) for repeat in range(2))
    with pytest.raises(Invalid, match="one yes/no answer for each case"):
        repeated.table(interval="wilson")
    with pytest.raises(Unknown, match="wilson"):
        repeated.table(interval="wilsn")


def test_prompts_can_be_a_sample_too(trial, results):
    """Two-way: prompts that differ widen the interval, and its formula is that of Cameron and others."""
    rng = np.random.default_rng(4)
    prompts = rng.normal(0, 1, 6)
    made = results(trial(case, prompts[p] + rng.normal(), prompt=p) for case in range(50) for p in range(6))
    alone, both = made.table().body[0], made.table(across="prompt").body[0]
    assert both.method == "two-way clustered"
    assert both.high - both.low > 3 * (alone.high - alone.low)
    assert made.table("prompt", across="prompt").body[0].low is None
    with pytest.raises(Unknown, match="prompt"):
        made.table(across="promt")


def test_unrelated_groups_get_the_classical_tests(trial, results):
    rng = np.random.default_rng(6)
    made = results(
        trial(f"{m}{case}", rng.normal("abc".index(m)), model=m) for m in "abc" for case in range(12)
    )
    samples = [values(made, m) for m in "abc"]
    found = {(c.first, c.second): c for c in made.compare("model", correction="tukey").contrasts}
    other = stats.tukey_hsd(*samples)
    assert found["c", "a"].adjusted == pytest.approx(other.pvalue[2, 0])
    assert found["c", "a"].difference.low == pytest.approx(other.confidence_interval().low[2, 0])
    against = made.compare("model", baseline="a", correction="dunnett").contrasts
    expected = stats.dunnett(*samples[1:], control=samples[0], rng=np.random.default_rng(0)).pvalue
    assert [c.adjusted for c in against] == pytest.approx(list(expected), abs=1e-3)


@pytest.mark.parametrize(
    ("declared", "asked", "used"),
    [
        ("bh", {}, "bh"),
        ("tukey", {}, "tukey"),
        ("tukey", {"baseline": "a"}, "holm"),
        ("dunnett", {"baseline": "a"}, "dunnett"),
        ("dunnett", {}, "holm"),
        ("", {}, "holm"),
        ("bh", {"correction": "bonferroni"}, "bonferroni"),
        ("bh", {"correction": None}, ""),
    ],
)
def test_the_correction_is_the_declared_one(trial, results, declared, asked, used):
    rng = np.random.default_rng(6)
    made = results(trial(case, rng.normal(), model=m) for m in "abc" for case in range(12))
    made.aims = Aims(
        hypotheses=(Hypothesis(id="h", factor="model"),), plans=(AnalysisPlan(name="p", correction=declared),)
    )
    assert made.compare("model", **asked).correction == used


def test_what_a_margin_means_given_the_data(trial, results):
    made = results(sides(trial, np.random.default_rng(1), n=200))
    found = made.compare("model", "b", "a", margin=0.1)
    posterior = found.contrasts[0].posterior
    assert posterior.above + posterior.within + posterior.below == pytest.approx(1)
    assert posterior.above > 0.99
    assert any("given the data: higher by more than 0.1 with chance > 0.99" in line for line in found.remarks)
