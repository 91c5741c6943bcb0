"""What is confounded with what: against published alias tables, and any design against its own columns."""

from __future__ import annotations

import math
from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from peira.core.space import Dimension, Point, Space
from peira.design.diagnose.aliasing import alias_matrix, clarities, confoundings, effect, effects, within
from peira.design.diagnose.design_matrix import DesignMatrix, design_matrix, pairs_of
from peira.design.diagnose.diagnosis import diagnose
from peira.design.diagnose.regular_fraction import regular
from peira.design.factorial.fractional import FractionalFactorial
from peira.design.factorial.one_factor import OneFactorAtATime
from peira.design.model import Term, parse
from peira.design.orthogonal_array import OrthogonalArray
from peira.design.screening import DefinitiveScreening, PlackettBurman

LETTERS = "ABCDEFGHJKLMNOP"

# Alias sets of effects of up to two factors, as in Montgomery, Design and Analysis of Experiments, appendix.
PUBLISHED = [
    ("ABC", ["C=AB"], "A=BC B=AC C=AB"),
    ("ABCD", ["D=ABC"], "AB=CD AC=BD AD=BC"),
    ("ABCDE", ["E=ABCD"], ""),
    ("ABCDE", ["D=AB", "E=AC"], "A=BD=CE B=AD C=AE D=AB E=AC BC=DE CD=BE"),
    ("ABCDEF", ["E=ABC", "F=BCD"], "AB=CE AC=BE AD=EF AE=BC=DF AF=DE BD=CF BF=CD"),
    ("ABCDEF", ["D=AB", "E=AC", "F=BC"], "A=BD=CE B=AD=CF C=AE=BF D=AB=EF E=AC=DF F=BC=DE CD=BE=AF"),
    (
        "ABCDEFG",
        ["E=ABC", "F=BCD", "G=ACD"],
        "AB=CE=FG AC=BE=DG AD=CG=EF AE=BC=DF AF=BG=DE AG=CD=BF BD=CF=EG",
    ),
    (
        "ABCDEFG",
        ["D=AB", "E=AC", "F=BC", "G=ABC"],
        "A=BD=CE=FG B=AD=CF=EG C=AE=BF=DG D=AB=CG=EF E=AC=BG=DF F=BC=AG=DE G=CD=BE=AF",
    ),
    ("ABCDEFG", ["F=ABCD", "G=ABDE"], "CE=FG CF=EG CG=EF"),
]


def two_level(names: str) -> Space:
    return Space(tuple(Dimension(name, ("low", "high")) for name in names))


def sets(text: str) -> set[frozenset[str]]:
    return {frozenset("".join(sorted(word)) for word in one.split("=")) for one in text.split()}


def found_sets(space: Space, points: list[Point]) -> set[frozenset[str]]:
    """The sets as they are found in the columns."""
    rows = diagnose(space, points).clarity
    return {
        frozenset(word.replace(":", "") for word in (one.effect, *one.confounded_with))
        for one in rows
        if one.confounded_with
    }


@pytest.mark.parametrize(("names", "generators", "published"), PUBLISHED)
def test_published_alias_sets_of_regular_fractions(names: str, generators: list[str], published: str) -> None:
    space = two_level(names)
    points = list(FractionalFactorial(generators=generators).points(space, 0))
    assert found_sets(space, points) == sets(published)
    by_words = regular(design_matrix(space, points))
    assert by_words is not None
    assert {frozenset(w.replace(":", "") for w in one) for one in by_words.aliases} == sets(published)


@pytest.mark.parametrize(
    ("factors", "runs"), [(5, 16), (6, 16), (7, 32), (8, 16), (9, 32), (11, 64), (15, 16)]
)
def test_the_words_found_in_the_runs_are_those_of_the_fraction(factors: int, runs: int) -> None:
    space, design = two_level(LETTERS[:factors]), FractionalFactorial(runs=runs)
    found = regular(design_matrix(space, design.points(space, 0)))
    assert found is not None
    assert found.generators == factors - runs.bit_length() + 1
    own = found_sets(space, list(design.points(space, 0)))
    assert {frozenset(w.replace(":", "") for w in one) for one in found.aliases} == own


@given(
    runs=st.sampled_from([4, 8, 16]),
    flips=st.lists(st.booleans(), min_size=5, max_size=5),
    center=st.integers(0, 3),
    replicates=st.integers(1, 3),
)
@settings(max_examples=30, deadline=None)
def test_a_regular_fraction_is_known_however_it_is_turned(
    runs: int, flips: list[bool], center: int, replicates: int
) -> None:
    factors = 3 if runs == 4 else 5
    space = Space(tuple(Dimension(n, low=0, high=1, scale="continuous") for n in LETTERS[:factors]))
    design = FractionalFactorial(runs=runs, center=center, replicates=replicates)
    points = [
        Point(
            {n: 1 - v if flip else v for (n, v), flip in zip(p.factors.items(), flips, strict=False)},
            replicates=p.replicates,
        )
        for p in design.points(space, 0)
    ]
    plain = regular(design_matrix(space, design.points(space, 0)))
    found = regular(design_matrix(space, points))
    assert found is not None
    assert plain is not None
    assert found.aliases == plain.aliases
    for word, sign in found.words:
        corner = next(p for p in points if 0.5 not in p.factors.values())
        assert math.prod(2 * corner.factors[name] - 1 for name in word) == sign


def test_no_regular_fraction_is_seen_where_there_is_none() -> None:
    space = two_level(LETTERS[:11])
    assert regular(design_matrix(space, PlackettBurman().points(space, 0))) is None
    three = Space(tuple(Dimension(n, ("a", "b", "c")) for n in "ABC"))
    assert regular(design_matrix(three, OrthogonalArray().points(three, 0))) is None
    corners = [Point({"A": a, "B": b}) for a, b in [("low", "low"), ("low", "high"), ("high", "low")]]
    assert regular(design_matrix(two_level("AB"), corners)) is None


@pytest.mark.parametrize(("runs", "correlations"), [(12, {1 / 3: 45}), (20, {0.2: 144, 0.6: 9})])
def test_partial_aliasing_of_plackett_and_burman(runs: int, correlations: dict[float, int]) -> None:
    """Each main effect with every pair that it is not in: 1/3 in 12 runs, 0.2 and 0.6 in 20 (Lin, Draper)."""
    factors = runs - 1
    space = Space(tuple(Dimension(f"f{n}", ("low", "high")) for n in range(factors)))
    found = list(confoundings(effects(design_matrix(space, PlackettBurman(runs=runs).points(space, 0)))))
    for name in space.names:
        own = [pair for pair in found if pair.effect == name]
        assert not any(pair.full for pair in own)
        assert Counter(round(abs(pair.correlation), 6) for pair in own) == {
            round(size, 6): count for size, count in correlations.items()
        }
        assert not any(name in pair.other.split(":") for pair in own)


def test_the_alias_matrix_of_twelve_runs() -> None:
    space = Space(tuple(Dimension(f"f{n}", ("low", "high")) for n in range(11)))
    seen = design_matrix(space, PlackettBurman().points(space, 0))
    matrix = alias_matrix(seen, parse("main", space), pairs_of(space))
    assert matrix.shape == (12, 55)
    assert np.abs(matrix[0]).max() < 1e-12
    assert {*np.round(np.abs(matrix[1:]), 9).ravel().tolist()} == {0.0, round(1 / 3, 9)}


@given(data=st.data())
@settings(max_examples=40, deadline=None)
def test_the_alias_matrix_says_what_is_added_to_the_estimates(data: st.DataObject) -> None:
    """Were an interaction at work, least squares would be off by just that much, in any design."""
    space = Space((Dimension("a", ("x", "y", "z")), Dimension("b", (0, 1)), Dimension("c", low=0, high=1)))
    rows = data.draw(
        st.lists(
            st.tuples(st.sampled_from("xyz"), st.sampled_from([0, 1]), st.sampled_from([0, 0.25, 1])),
            min_size=12,
            max_size=25,
        )
    )
    seen = design_matrix(space, [Point(dict(zip("abc", row, strict=True))) for row in rows])
    terms, others = parse("main", space), pairs_of(space)
    model, rest = seen.matrix(terms), seen.matrix(others)
    if np.linalg.matrix_rank(model) < model.shape[1]:
        return
    true = np.arange(1.0, rest.shape[1] + 1)
    answers = np.repeat(rest @ true, seen.times)
    estimated, *_ = np.linalg.lstsq(np.repeat(model, seen.times, axis=0), answers, rcond=None)
    assert np.allclose(estimated, alias_matrix(seen, terms, others) @ true, atol=1e-8)


def test_definitive_screening_keeps_main_effects_clear_of_all_second_order_effects() -> None:
    space = Space(tuple(Dimension(f"x{n}", low=-1, high=1, scale="continuous") for n in range(6)))
    found = diagnose(space, DefinitiveScreening().points(space, 0), "quadratic")
    main = [one for one in found.clarity if one.order == 1]
    assert len(main) == 6
    assert all(one.clear for one in main)
    assert not any(one.clear for one in found.clarity if one.order == 2)


def test_three_level_factors_lie_within_interactions() -> None:
    """In L9 any two columns generate the other two: C within A x B, and never the other way round."""
    space = Space(tuple(Dimension(n, ("a", "b", "c")) for n in "ABCD"))
    found = {one.effect: one for one in diagnose(space, OrthogonalArray().points(space, 0)).clarity}
    assert found["C"].confounded_with == ("A:B", "A:D", "B:D")
    assert found["A:B"].confounded_with == ()
    assert found["A:B"].with_main == pytest.approx(1)
    assert found["A"].with_main == 0


def test_what_one_factor_at_a_time_cannot_show_is_mistaken_for_main_effects() -> None:
    space = Space((Dimension("a", ("x", "y", "z")), Dimension("b", ("p", "q"))))
    found = diagnose(space, OneFactorAtATime().points(space, 0), "main")
    clarity = {one.effect: one for one in found.clarity}
    assert clarity["a:b"].lost == 2
    assert clarity["a"].with_interactions == 1
    assert clarity["b"].with_interactions == 1


def test_numbers_at_uneven_places_confound_nothing_in_a_full_factorial() -> None:
    space = Space(
        (Dimension("x", (0, 1, 10), scale="continuous"), Dimension("y", (1, 2, 4), scale="continuous"))
    )
    points = [Point({"x": x, "y": y}) for x in (0, 1, 10) for y in (1, 2, 4)]
    assert all(one.clear for one in diagnose(space, points, "quadratic").clarity)


def test_blocks_are_an_effect() -> None:
    space = two_level("ABC")
    points = FractionalFactorial(runs=8, blocks=4).points(space, 0)
    found = {one.effect: one for one in diagnose(space, points).clarity}
    assert [name for name, one in found.items() if one.with_blocks > 0.999] == ["A:B", "A:C", "B:C"]
    assert all(found[name].clear for name in "ABC")


@pytest.mark.parametrize(
    ("powers", "inner"),
    [
        ((("a", 1),), ["intercept"]),
        ((("a", 1), ("b", 1)), ["intercept", "b", "a"]),
        ((("a", 1), ("b", 2)), ["intercept", "b", "b^2", "a", "a:b"]),
    ],
)
def test_terms_within_a_term(powers: tuple[tuple[str, int], ...], inner: list[str]) -> None:
    assert [term.label for term in within(Term(powers))] == inner


@given(data=st.data())
@settings(max_examples=30, deadline=None)
def test_replicates_weigh_as_equal_runs(data: st.DataObject) -> None:
    space = two_level("ABC")
    rows = data.draw(st.lists(st.tuples(*[st.sampled_from(["low", "high"])] * 3), min_size=3, max_size=12))
    singles = [Point(dict(zip("ABC", row, strict=True))) for row in rows]
    merged = [Point(dict(zip("ABC", row, strict=True)), replicates=n) for row, n in Counter(rows).items()]

    def pairs(points: list[Point]) -> dict[tuple[str, str], float]:
        found = confoundings(effects(design_matrix(space, points)))
        return {(pair.effect, pair.other): round(pair.correlation, 6) for pair in found}

    assert pairs(singles) == pairs(merged)


def test_correlations_are_those_of_the_columns() -> None:
    space = two_level("AB")
    points = [
        Point({"A": a, "B": b}, replicates=n)
        for a, b, n in [("low", "low", 3), ("low", "high", 1), ("high", "low", 1), ("high", "high", 2)]
    ]
    signs = [
        (2 * (p.factors["A"] == "high") - 1, 2 * (p.factors["B"] == "high") - 1)
        for p in points
        for _ in range(p.replicates)
    ]
    expected = np.corrcoef(np.array(signs).T)[0, 1]
    (pair,) = [
        p for p in confoundings(effects(design_matrix(space, points))) if (p.effect, p.other) == ("A", "B")
    ]
    assert pair.correlation == pytest.approx(expected)


def test_many_factors_are_compared_with_all_pairs_and_pairs_left_out() -> None:
    space = Space(tuple(Dimension(f"f{n}", ("low", "high")) for n in range(70)))
    seen: DesignMatrix = design_matrix(space, PlackettBurman().points(space, 0))
    every = effects(seen)
    rows = clarities(every, confoundings(every))
    assert len(every) == 70 + math.comb(70, 2)
    assert [one.effect for one in rows] == list(space.names)
    assert all(one.with_interactions > 0 for one in rows)


def test_an_effect_is_orthogonal_to_what_is_within_it() -> None:
    space = Space((Dimension("x", low=0, high=1), Dimension("c", ("p", "q", "r"))))
    rows = [(0.1, "p"), (0.3, "q"), (0.9, "r"), (0.2, "q"), (1.0, "p"), (0.6, "r"), (0.4, "p")]
    seen = design_matrix(space, [Point({"x": x, "c": c}) for x, c in rows])
    for term in [*parse("main", space)[1:], *pairs_of(space)]:
        basis = effect(seen, term).basis
        assert np.allclose(basis.T @ seen.matrix(within(term)), 0, atol=1e-9)
        assert np.allclose(basis.T @ basis, np.eye(basis.shape[1]))


@pytest.mark.parametrize(("generator", "sign"), [("D=ABC", 1), ("D=-ABC", -1)])
def test_the_sign_of_a_confounding_is_that_of_the_word(generator: str, sign: int) -> None:
    space = two_level("ABCD")
    points = list(FractionalFactorial(generators=[generator]).points(space, 0))
    found = [pair for pair in confoundings(effects(design_matrix(space, points))) if pair.full]
    assert len(found) == 6
    assert {pair.correlation for pair in found} == {sign}
