"""A design looked at as a whole: balance, coverage, words, what constraints took, and clear errors."""

from __future__ import annotations

import math
from collections import Counter
from itertools import product

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import qmc

from peira.core.space import Dimension, Point, Space
from peira.design.blocks.block_designs import BalancedIncompleteBlock, RandomizedBlock
from peira.design.blocks.nested_designs import Nested
from peira.design.blocks.sequences import SplitPlot
from peira.design.diagnose.diagnosis import Diagnosis, diagnose
from peira.design.diagnose.effect_power import Assumed
from peira.design.diagnose.full_factorial import diagnose_full_factorial
from peira.design.diagnose.sentences import listed, losses, sentences
from peira.design.factorial.fractional import FractionalFactorial
from peira.design.factorial.full import FullFactorial
from peira.design.orthogonal_array import OrthogonalArray
from peira.design.sampling import LatinHypercube, Sobol
from peira.design.screening import PlackettBurman
from peira.errors import Invalid

STUDY = Space(
    tuple(
        Dimension(name, levels)
        for name, levels in {
            "model": ("small", "large"),
            "style": ("plain", "think"),
            "length": ("short", "long"),
            "temperature": ("cold", "hot"),
        }.items()
    )
)


def two_level(names: str) -> Space:
    return Space(tuple(Dimension(name, ("low", "high")) for name in names))


def test_the_words_that_people_read_first() -> None:
    found = diagnose(
        STUDY, FractionalFactorial(runs=8).points(STUDY, 0), None, Assumed(effect=0.2, noise=0.5, cases=20)
    )
    words = sentences(found)
    assert words == [
        "8 runs of 4 factors: a regular 1/2 fraction of resolution IV",
        "main effects of model, style, length and temperature are clear of two-way interactions",
        "model x style is confounded with length x temperature",
        "model x length is confounded with style x temperature",
        "model x temperature is confounded with style x length",
        "every level of every factor comes equally often",
        "the smallest difference seen with 80% power is 0.236 (noise 0.5, 20 cases, 1 repeat, alpha 0.05)",
        "a difference of 0.2 is seen with a chance of 66.1%",
    ]


@pytest.mark.parametrize(
    ("space", "design", "said"),
    [
        (two_level("AB"), FullFactorial(), "A x B is clear of main effects and of other interactions"),
        (
            two_level("ABC"),
            FullFactorial(),
            "all 3 two-way interactions are clear of main effects and of each other",
        ),
        (two_level("ABC"), FractionalFactorial(runs=4), "A is confounded with B x C"),
        (
            two_level("ABCDEFGHJKL"),
            PlackettBurman(),
            "main effects of A, B, C, D, E, F, G and 4 more are partly confounded with two-way interactions "
            "(correlation up to 0.33)",
        ),
        (
            two_level("ABC"),
            FractionalFactorial(runs=8, blocks=4),
            "A x B, A x C and B x C are confounded with blocks",
        ),
        (
            two_level("ABC"),
            FractionalFactorial(runs=8, blocks=2),
            "all these effects are clear of the blocks",
        ),
        (
            two_level("AB"),
            RandomizedBlock(block="A"),
            "the blocks are the levels of A: what else differs between them adds to it",
        ),
        (
            Space((Dimension("A", tuple("abcdefg")),)),
            BalancedIncompleteBlock(size=3),
            "A is partly confounded with blocks (correlation up to 0.47)",
        ),
        (
            Space((Dimension("A", ("x", "y"), dear=True), Dimension("B", ("x", "y")))),
            SplitPlot(plots=2),
            "A is set once for each of 4 whole plots: what is said of power there holds only if plots do not "
            "differ otherwise",
        ),
        (
            two_level("A"),
            FullFactorial(),
            "nothing is left to tell the noise by, so no effect can be tested: add cases or repeats",
        ),
    ],
)
def test_what_is_said_of_a_design(space: Space, design: FullFactorial, said: str) -> None:
    assert said in sentences(diagnose(space, design.points(space, 0)))


def test_what_is_said_where_runs_are_missing() -> None:
    space = Space((Dimension("a", ("x", "y", "z")), Dimension("b", ("p", "q")), Dimension("c", ("only",))))
    points = [
        Point({"a": a, "b": b, "c": "only"}) for a, b in [("x", "p"), ("y", "p"), ("y", "q"), ("x", "q")]
    ]
    words = sentences(diagnose(space, points))
    assert "c has one level, and nothing to compare" in words
    assert "a cannot be seen in full: not all of its levels are run" in words
    assert "the model (main) cannot be estimated in full: a cannot" in words
    assert "a is not balanced: x 2, y 2, z 0" in words
    assert "some combinations of a and b are never run" in words


def test_many_names_are_cut_short() -> None:
    assert listed([]) == ""
    assert listed(["a"]) == "a"
    assert listed(["a", "b:c"]) == "a and b x c"
    assert listed("abcdefghij", 4) == "a, b, c and 7 more"


@given(
    levels=st.lists(st.integers(2, 4), min_size=1, max_size=3),
    times=st.lists(st.integers(0, 3), min_size=64, max_size=64),
)
@settings(max_examples=40, deadline=None)
def test_levels_and_pairs_are_counted(levels: list[int], times: list[int]) -> None:
    space = Space(tuple(Dimension(f"f{n}", tuple(range(count))) for n, count in enumerate(levels)))
    rows = [row for row, n in zip(product(*map(range, levels)), times, strict=False) for _ in range(n)]
    if not rows:
        return
    found = diagnose(space, [Point(dict(zip(space.names, row, strict=True))) for row in rows], "main")
    for at, own in enumerate(found.balance):
        counts = Counter(str(row[at]) for row in rows)
        assert dict(own.counts) == {str(level): counts[str(level)] for level in range(levels[at])}
        assert own.even == (len({counts[str(level)] for level in range(levels[at])}) == 1)
    for pair in found.pairs:
        a, b = (space.names.index(name) for name in pair.factors)
        counts = Counter((row[a], row[b]) for row in rows)
        every = [counts[x, y] for x, y in product(range(levels[a]), range(levels[b]))]
        assert (pair.least, pair.most, pair.missing) == (min(every), max(every), every.count(0))
        one, other = Counter(row[a] for row in rows), Counter(row[b] for row in rows)
        assert pair.orthogonal == all(
            counts[x, y] * len(rows) == one[x] * other[y]
            for x, y in product(range(levels[a]), range(levels[b]))
        )


def test_a_range_of_many_values_is_counted_in_quarters() -> None:
    space = Space((Dimension("x", low=1, high=10_000, log=True, scale="continuous"),))
    (found,) = diagnose(space, LatinHypercube(runs=40).points(space, 3)).balance
    assert found.counts == (("1 to 10", 10), ("10 to 100", 10), ("100 to 1000", 10), ("1000 to 1e+04", 10))
    assert found.ranged


def test_coverage_of_a_space_of_ranges() -> None:
    space = Space(tuple(Dimension(n, low=0, high=1, scale="continuous") for n in "xy"))
    points = list(Sobol(runs=32).points(space, 0))
    found = diagnose(space, points).coverage
    unit = [[p.factors["x"], p.factors["y"]] for p in points]
    assert found.combinations is None
    assert found.discrepancy == pytest.approx(qmc.discrepancy(unit, method="CD"), rel=1e-6)
    closest = min(
        (abs(a[0] - b[0]) + abs(a[1] - b[1])) / 2 for n, a in enumerate(unit) for b in unit[n + 1 :]
    )
    assert found.nearest == pytest.approx(closest)


def test_coverage_of_levels() -> None:
    found = diagnose(STUDY, FractionalFactorial(runs=8, replicates=2).points(STUDY, 0)).coverage
    assert found.combinations == 0.5
    assert found.nearest == 0.5
    assert found.discrepancy is None


def test_what_constraints_took() -> None:
    space = Space((Dimension("model", ("a", "b", "c")), Dimension("style", ("plain", "think", "long"))))
    points = list(FullFactorial().points(space, 0))
    left = [p for p in points if not (p.factors["model"] == "c" and p.factors["style"] != "plain")]
    assert losses(diagnose(space, points), diagnose(space, left)) == [
        "the balance of model and style is lost",
        "model and style are no longer orthogonal to each other",
        "model x style can no longer be seen in full",
        "model and style are no longer clear of other effects",
    ]
    only = [p for p in points if p.factors["style"] != "long"]
    assert losses(diagnose(space, points), diagnose(space, only))[:2] == [
        "style: long is never run",
        "the balance of style is lost",
    ]
    assert losses(diagnose(space, points), diagnose(space, points)) == []


def test_a_fraction_that_constraints_break() -> None:
    points = list(FractionalFactorial(runs=8).points(STUDY, 0))
    lost = losses(diagnose(STUDY, points), diagnose(STUDY, points[1:]))
    assert "it is no longer a regular fraction, which had resolution IV" in lost


@given(
    levels=st.lists(st.integers(2, 4), min_size=1, max_size=4),
    numbers=st.lists(st.booleans(), min_size=4, max_size=4),
    formula=st.sampled_from([None, "main", "interactions", "quadratic"]),
)
@settings(max_examples=25, deadline=None)
def test_all_combinations_are_known_without_laying_them_out(
    levels: list[int], numbers: list[bool], formula: str | None
) -> None:
    space = Space(
        tuple(
            Dimension(
                f"f{n}", tuple(k * k for k in range(count)), scale="integer" if number else "categorical"
            )
            for n, (count, number) in enumerate(zip(levels, numbers, strict=False))
        )
    )
    assumed = Assumed(effect=0.4, cases=3, repeats=2, case_noise=0.1)
    laid_out = diagnose(space, FullFactorial().points(space, 0), formula, assumed)
    known = diagnose_full_factorial(space, {d.name: d.levels for d in space.dimensions}, formula, assumed)
    for name in Diagnosis.__struct_fields__:
        if name not in ("coverage", "powers", "efficiency"):
            assert getattr(known, name) == getattr(laid_out, name), name
    for one, other in zip(known.powers, laid_out.powers, strict=True):
        assert one.effect == other.effect
        assert one.error_df == other.error_df
        assert one.smallest == pytest.approx(other.smallest)
    assert msgspec.structs.astuple(known.efficiency) == pytest.approx(
        msgspec.structs.astuple(laid_out.efficiency)
    )


def test_a_thousand_million_combinations_are_looked_at_at_once() -> None:
    space = Space(tuple(Dimension(f"f{n}", tuple(range(10))) for n in range(9)))
    found = diagnose_full_factorial(space, {d.name: d.levels for d in space.dimensions})
    assert found.runs == 10**9
    assert sentences(found)[0] == "1,000,000,000 runs of 9 factors: every combination"


def test_a_nested_factor_is_what_varies_within_its_parent() -> None:
    space = Space((Dimension("a", ("x", "y")), Dimension("b", ("p", "q", "r", "s"), parent="a")))
    found = diagnose(space, Nested().points(space, 0))
    assert found.factors == ("a",)
    assert (found.runs, found.different) == (4, 2)
    assert "b is nested, and counted as what varies within, not as an effect" in sentences(found)
    assert diagnose(space, FullFactorial().points(space, 0)).factors == ("a", "b")


def test_constraints_see_factors_that_do_not_vary() -> None:
    dims = (Dimension("k", ("only",)), Dimension("a", (1, 2, 3)), Dimension("b", (1, 2)))
    space = Space(dims, lambda point: point["k"] != "only" or point["a"] < 3)
    points = [point for point in FullFactorial().points(space, 0) if space.allows(point.factors)]
    found = diagnose(space, points, "b")
    assert found.fixed == ("k",)
    assert found.efficiency is not None
    assert found.efficiency.g == pytest.approx(100)


def test_squares_are_in_the_model_where_they_can_be_estimated() -> None:
    space = Space(tuple(Dimension(n, low=0, high=1, scale="continuous") for n in "xy"))
    assert diagnose(space, FullFactorial(levels=3).points(space, 0)).formula == "quadratic"
    assert diagnose(space, FullFactorial(levels=2).points(space, 0)).formula == "interactions"


def test_main_effects_alone_where_interactions_cannot_be_estimated() -> None:
    assert diagnose(STUDY, FullFactorial().points(STUDY, 0)).formula == "interactions"
    assert diagnose(STUDY, FractionalFactorial(runs=8).points(STUDY, 0)).formula == "main"


def test_a_diagnosis_is_plain_values() -> None:
    found = diagnose(STUDY, OrthogonalArray().points(STUDY, 0), None, Assumed(effect=0.5))
    plain = msgspec.json.decode(msgspec.json.encode(found))
    assert plain["runs"] == 8
    assert plain["clarity"][0]["effect"] == "model"


@pytest.mark.parametrize(
    ("space", "points", "problem"),
    [
        (Space(()), [Point({})], "nothing varies"),
        (Space((Dimension("a", ("x",)),)), [Point({"a": "x"})], "nothing varies"),
        (two_level("A"), [], "has no runs"),
        (two_level("AB"), [Point({"A": "low"})], "B: not every run has a value for it"),
        (two_level("A"), [Point({"A": "lwo"})], "'lwo' is not one of its levels; did you mean 'low'"),
    ],
)
def test_what_cannot_be_looked_at_is_refused(space: Space, points: list[Point], problem: str) -> None:
    with pytest.raises(Invalid, match=problem):
        diagnose(space, points)


@pytest.mark.parametrize(
    ("formula", "problem"),
    [("modle", "no factor 'modle'; did you mean 'model'"), ("model^2", "not numeric"), ("model:", "no term")],
)
def test_a_bad_formula_is_refused(formula: str, problem: str) -> None:
    with pytest.raises(Invalid, match=problem):
        diagnose(STUDY, FullFactorial().points(STUDY, 0), formula)


def test_a_model_of_too_many_parameters_is_refused() -> None:
    space = Space(tuple(Dimension(f"f{n}", tuple(range(20))) for n in range(4)))
    with pytest.raises(Invalid, match="parameters; say one with at most 1,000"):
        diagnose_full_factorial(space, {d.name: d.levels for d in space.dimensions}, "interactions")


def test_too_many_runs_are_refused_at_once() -> None:
    space = Space(tuple(Dimension(f"f{n}", tuple(range(10))) for n in range(9)))
    with pytest.raises(Invalid, match="more than 50,000 runs"):
        diagnose(space, FullFactorial().points(space, 0))


def test_a_single_run_tells_nothing() -> None:
    found = diagnose(
        STUDY, [Point({"model": "small", "style": "plain", "length": "long", "temperature": "hot"})]
    )
    assert found.unestimable == ("intercept", "model", "style", "length", "temperature")
    assert found.efficiency is None
    assert math.isclose(found.coverage.combinations or 0, 1 / 16)
