"""Two-level fractions: against the standard table, the textbooks' blocks and foldovers, and themselves."""

from __future__ import annotations

import math
from collections import Counter
from itertools import combinations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from peira.core.space import Dimension, Space
from peira.design.factorial.fraction import Word, defining_relation, resolution, word_length_pattern
from peira.design.factorial.fractional import FractionalFactorial
from peira.errors import Invalid

LETTERS = "ABCDEFGHJKLMNOP"

# Generators and resolutions as in Montgomery, Design and Analysis of Experiments, table "Selected 2^(k-p)".
TABLE = [
    (3, 4, 3, "C=AB"),
    (4, 8, 4, "D=ABC"),
    (5, 16, 5, "E=ABCD"),
    (5, 8, 3, "D=AB E=AC"),
    (6, 32, 6, "F=ABCDE"),
    (6, 16, 4, "E=ABC F=BCD"),
    (6, 8, 3, "D=AB E=AC F=BC"),
    (7, 64, 7, "G=ABCDEF"),
    (7, 32, 4, "F=ABCD G=ABDE"),
    (7, 16, 4, "E=ABC F=BCD G=ACD"),
    (7, 8, 3, "D=AB E=AC F=BC G=ABC"),
    (8, 64, 5, "G=ABCD H=ABEF"),
    (8, 32, 4, "F=ABC G=ABD H=BCDE"),
    (8, 16, 4, "E=BCD F=ACD G=ABC H=ABD"),
    (9, 128, 6, "H=ACDFG J=BCEFG"),
    (9, 64, 4, "G=ABCD H=ACEF J=CDEF"),
    (9, 32, 4, "F=BCDE G=ACDE H=ABDE J=ABCE"),
    (9, 16, 3, "E=ABC F=BCD G=ACD H=ABD J=ABCD"),
    (10, 128, 5, "H=ABCG J=BCDE K=ACDF"),
    (10, 64, 4, "G=BCDF H=ACDF J=ABDE K=ABCE"),
    (10, 32, 4, "F=ABCD G=ABCE H=ABDE J=ACDE K=BCDE"),
    (10, 16, 3, "E=ABC F=BCD G=ACD H=ABD J=ABCD K=AB"),
    (11, 128, 5, "H=ABCG J=BCDE K=ACDF L=ABCDEFG"),
    (11, 64, 4, "G=CDE H=ABCD J=ABF K=BDEF L=ADEF"),
    (11, 32, 4, "F=ABC G=BCD H=CDE J=ACD K=ADE L=BDE"),
    (11, 16, 3, "E=ABC F=BCD G=ACD H=ABD J=ABCD K=AB L=AC"),
    (12, 16, 3, "E=ABC F=ABD G=ACD H=BCD J=ABCD K=AB L=AC M=AD"),
    (15, 16, 3, "E=ABC F=ABD G=ACD H=BCD J=ABCD K=AB L=AC M=AD N=BC O=BD P=CD"),
]

# Words of length 3, 4, 5 of minimum aberration fractions, from Chen, Sun and Wu (1993).
BEYOND = [
    (12, 32, (0, 38, 0)),
    (16, 32, (0, 140, 0)),
    (17, 32, (8, 140, 112)),
    (20, 32, (32, 188, 480)),
    (12, 64, (0, 6, 24)),
    (13, 64, (0, 14, 28)),
    (14, 64, (0, 22, 40)),
    (15, 64, (0, 30, 60)),
    (16, 64, (0, 43, 81)),
]


def two_level(names: str | list[str]) -> Space:
    return Space(tuple(Dimension(name, ("low", "high")) for name in names))


def signs(design: FractionalFactorial, space: Space) -> list[tuple[int, ...]]:
    return [tuple(2 * (p.factors[n] == "high") - 1 for n in space.names) for p in design.points(space, 0)]


def constant_words(rows: list[tuple[int, ...]], names: str) -> dict[Word, int]:
    """The words that really are constant, found by looking at the runs."""
    found = {}
    for size in range(1, len(names) + 1):
        for chosen in combinations(range(len(names)), size):
            products = {math.prod(row[nth] for nth in chosen) for row in rows}
            if len(products) == 1:
                found[frozenset(names[nth] for nth in chosen)] = products.pop()
    return found


def listed(words: object) -> set[str]:
    assert isinstance(words, (dict, list))
    return {"".join(sorted(word)) for word in words}


@pytest.mark.parametrize(("factors", "runs", "published", "generators"), TABLE)
def test_the_standard_table(factors: int, runs: int, published: int, generators: str) -> None:
    space = two_level(LETTERS[:factors])
    standard = FractionalFactorial(generators=generators.split()).fraction(space)
    found = FractionalFactorial(runs=runs).fraction(space)
    assert standard.size == found.size == runs
    words = standard.generators(space.names)
    assert resolution(words, factors) == published
    assert word_length_pattern(found.generators(space.names), factors) == word_length_pattern(words, factors)


@pytest.mark.parametrize(("factors", "runs", "counts"), BEYOND)
def test_minimum_aberration_beyond_the_standard_table(
    factors: int, runs: int, counts: tuple[int, ...]
) -> None:
    space = two_level([f"x{nth}" for nth in range(factors)])
    words = FractionalFactorial(runs=runs).fraction(space).generators(space.names)
    pattern = word_length_pattern(words, factors)
    assert tuple(pattern.get(length, 0) for length in (3, 4, 5)) == counts


@pytest.mark.parametrize(
    ("factors", "wanted", "runs"),
    [(3, 3, 4), (7, 3, 8), (8, 3, 16), (5, 4, 16), (8, 4, 16), (9, 4, 32), (5, 5, 16), (6, 5, 32), (8, 5, 64),
     (9, 5, 128), (11, 5, 128), (17, 5, 256), (6, 6, 32), (7, 7, 64), (16, 4, 32), (32, 4, 64)],
)  # fmt: skip
def test_the_smallest_fraction_of_a_resolution(factors: int, wanted: int, runs: int) -> None:
    space = two_level([f"x{nth}" for nth in range(factors)])
    assert FractionalFactorial(resolution=wanted).size(space) == runs


@pytest.mark.parametrize(("factors", "runs", "least"), [(33, 2048, 5), (60, 4096, 4), (100, 128, 3)])
def test_large_fractions_are_taken_without_a_search(factors: int, runs: int, least: int) -> None:
    space = two_level([f"x{nth}" for nth in range(factors)])
    found = FractionalFactorial(runs=runs).fraction(space)
    assert found.size == runs
    assert resolution(found.generators(space.names), factors) == least


def test_the_textbook_half_of_four_factors_run_by_run() -> None:
    # D = ABC in standard order: (1), ad, bd, ab, cd, ac, bc, abcd.
    rows = signs(FractionalFactorial(generators=["D=ABC"]), two_level("ABCD"))
    treatments = ["".join(n for n, s in zip("abcd", row, strict=True) if s > 0) for row in rows]
    assert treatments == ["", "ad", "bd", "ab", "cd", "ac", "bc", "abcd"]


def test_what_the_words_say_is_so() -> None:
    space = two_level("ABCDEF")
    for generators in (
        ["E=ABC", "F=BCD"],
        ["E=-ABC", "F=BCD"],
        ["E=-AB", "F=-ACD"],
        ["F=ABCDE"],
        ["C=AB", "F=DE"],
    ):
        design = FractionalFactorial(generators=generators)
        rows = signs(design, space)
        relation = defining_relation(design.fraction(space).generators(space.names))
        assert relation == constant_words(rows, "ABCDEF")


def test_a_minus_takes_the_other_half() -> None:
    space = two_level("ABC")
    rows = [signs(FractionalFactorial(generators=[text]), space) for text in ("C=AB", "C = -AB", "C=-A*B")]
    assert constant_words(rows[1], "ABC") == {frozenset("ABC"): -1}
    assert rows[1] == rows[2]
    assert len({*rows[0], *rows[1]}) == 8


def test_generators_in_letters_and_in_names_are_the_same() -> None:
    space = two_level(["model", "style", "length", "tone"])
    in_names = FractionalFactorial(generators=["tone = model * style*length"])
    in_letters = FractionalFactorial(generators=["D = ABC"])
    assert list(in_names.points(space, 0)) == list(in_letters.points(space, 0))


def test_a_name_goes_before_a_letter() -> None:
    space = two_level("BAC")
    assert FractionalFactorial(generators=["C=AB"]).fraction(space).generators(space.names) == {
        frozenset("ABC"): 1
    }


@pytest.mark.parametrize(
    ("factors", "blocks", "confounded"),
    [
        # Two-factor interactions given up by 2^k in blocks, and in all, from Montgomery's table of blockings.
        (3, 2, 0), (3, 4, 3), (4, 2, 0), (4, 4, 1), (4, 8, 6), (5, 2, 0), (5, 4, 0), (5, 8, 2), (5, 16, 10),
        (6, 2, 0), (6, 4, 0), (6, 8, 0), (6, 16, 3), (7, 2, 0), (7, 4, 0), (7, 8, 0), (7, 16, 0),
    ],
)  # fmt: skip
def test_blocks_give_up_what_matters_least(factors: int, blocks: int, confounded: int) -> None:
    space = two_level(LETTERS[:factors])
    design = FractionalFactorial(runs=2**factors, blocks=blocks)
    effects = design.fraction(space).confounded(space.names)
    assert len(effects) == blocks - 1
    assert sum(len(effect) == 2 for effect in effects) == confounded
    assert min(map(len, effects)) > 1


@pytest.mark.parametrize(("factors", "word"), [(3, "ABC"), (4, "ABCD"), (5, "ABCDE"), (6, "ABCDEF")])
def test_two_blocks_give_up_the_highest_interaction(factors: int, word: str) -> None:
    space = two_level(LETTERS[:factors])
    assert listed(FractionalFactorial(runs=2**factors, blocks=2).fraction(space).confounded(space.names)) == {
        word
    }


@pytest.mark.parametrize(("runs", "blocks"), [(16, 2), (32, 4), (64, 8), (32, 8)])
def test_main_effects_are_balanced_within_blocks(runs: int, blocks: int) -> None:
    space = two_level("ABCDEFG")
    points = list(FractionalFactorial(runs=runs, blocks=blocks).points(space, 0))
    assert set(Counter(p.block for p in points).values()) == {runs // blocks}
    for name in space.names:
        counts = Counter((p.block, p.factors[name]) for p in points)
        assert set(counts.values()) == {runs // blocks // 2}


def test_blocks_that_would_take_a_main_effect_are_refused() -> None:
    with pytest.raises(Invalid, match="say fewer blocks, or more runs"):
        FractionalFactorial(runs=8, blocks=4).size(two_level("ABCDEFG"))
    with pytest.raises(Invalid, match="say fewer blocks"):
        FractionalFactorial(runs=8, blocks=8).size(two_level("ABC"))


def test_a_full_foldover_clears_main_effects() -> None:
    # 2^(7-4) and its foldover are the 2^(7-3) of resolution IV: words of odd length are gone.
    space = two_level("ABCDEFG")
    design = FractionalFactorial(generators=["D=AB", "E=AC", "F=BC", "G=ABC"], foldover="all")
    rows = signs(design, space)
    assert len(set(rows)) == design.size(space) == 16
    relation = constant_words(rows, "ABCDEFG")
    assert listed(relation) == {"ABCG", "BCDE", "ACDF", "ABEF", "ADEG", "BDFG", "CEFG"}
    assert relation == defining_relation(design.fraction(space).generators(space.names))


def test_a_foldover_on_one_factor_clears_that_factor() -> None:
    space = two_level("ABCDEFG")
    design = FractionalFactorial(
        generators=["D=AB", "E=AC", "F=BC", "G=ABC"], foldover="D", foldover_block=True
    )
    relation = constant_words(signs(design, space), "ABCDEFG")
    assert relation
    assert not any("D" in word for word in relation)
    points = list(design.points(space, 0))
    assert Counter(p.block for p in points) == {"1": 8, "2": 8}
    assert any("D" in word for word in design.fraction(space).confounded(space.names))


def test_a_foldover_that_adds_nothing_is_refused() -> None:
    with pytest.raises(Invalid, match=r"repeat the same runs.*foldover = 'A'"):
        FractionalFactorial(runs=8, foldover="all").size(two_level("ABCD"))
    with pytest.raises(Invalid, match="all combinations are there already"):
        FractionalFactorial(runs=8, foldover="all").size(two_level("ABC"))
    with pytest.raises(Invalid, match="foldover: no factor 'modle'; did you mean 'model'"):
        FractionalFactorial(runs=4, foldover="modle").size(two_level(["model", "style", "tone"]))


def test_centre_runs_go_to_every_block() -> None:
    space = Space(tuple(Dimension(name, low=0, high=10, scale="continuous") for name in "ABCD"))
    design = FractionalFactorial(runs=8, blocks=2, center=3, replicates=2)
    points = list(design.points(space, 0))
    assert len(points) == design.size(space) == 10
    assert [(p.block, p.replicates, set(p.factors.values())) for p in points[8:]] == [
        ("1", 3, {5.0}),
        ("2", 3, {5.0}),
    ]
    assert {p.replicates for p in points[:8]} == {2}


@pytest.mark.parametrize(
    ("parameters", "problem"),
    [
        ({}, "say one of runs, resolution, generators, not none"),
        ({"runs": 8, "resolution": 4}, "not runs and resolution"),
        ({"runs": 12}, "runs: must be a power of two, not 12; say 8 or 16"),
        ({"runs": 2}, "runs: must be at least 4"),
        ({"resolution": 2}, "resolution: must be at least 3"),
        ({"generators": "D=ABC"}, 'must be a list such as ["D=ABC"]'),
        ({"generators": ["DABC"]}, 'is not of the form "D=ABC"'),
        ({"runs": 8, "blocks": 3}, "blocks: must be a power of two, not 3; say 2 or 4"),
        ({"runs": 8, "foldover_block": True}, "there is no foldover"),
        ({"runs": 8, "foldover": 1}, 'foldover: must be "all" or the name of a factor'),
        ({"runs": 8, "center": -1}, "center: must be at least 0"),
        ({"runs": 8, "replicates": 0}, "replicates: must be at least 1"),
    ],
)
def test_bad_parameters(parameters: dict[str, object], problem: str) -> None:
    with pytest.raises(Invalid) as error:
        FractionalFactorial(**parameters)  # type: ignore[arg-type]
    assert problem in str(error.value)


def test_every_problem_is_told_at_once() -> None:
    with pytest.raises(Invalid) as error:
        FractionalFactorial(runs=12, blocks=3, center=-1, replicates=0)
    assert len(error.value.problems) == 4


@pytest.mark.parametrize(
    ("parameters", "names", "problem"),
    [
        ({"runs": 8}, "ABCDEFGH", "8 runs hold at most 7 two-level factors, not 8; say runs = 16"),
        ({"runs": 16}, "ABC", "3 two-level factors have 8 combinations"),
        ({"resolution": 5}, "ABCD", "no fraction of 4 factors has resolution 5; say at most 4"),
        ({"generators": ["D=ABX"]}, "ABCD", "no factor 'X'; the letters are ABCD"),
        ({"generators": ["D=ABA"]}, "ABCD", "names a factor twice"),
        ({"generators": ["D=ABC", "C=ABD"]}, "ABCD", "says the same as another"),
        ({"generators": ["D=AB", "C=AB"]}, "ABCD", "confound main effects with each other"),
        ({"generators": ["D=ABC", "D=-ABC"]}, "ABCD", "says the same as another"),
        ({"generators": ["D=ABC", "E=ABF", "F=CDE"]}, "ABCDEF", "one follows from the others"),
        ({"runs": 4}, "A", "takes at least 2 factors, not 1"),
    ],
)
def test_spaces_that_do_not_fit(parameters: dict[str, object], names: str, problem: str) -> None:
    design = FractionalFactorial(**parameters)  # type: ignore[arg-type]
    for ask in (lambda: design.size(two_level(names)), lambda: design.points(two_level(names), 0)):
        with pytest.raises(Invalid) as error:
            ask()
        assert problem in str(error.value)


def test_a_factor_of_three_levels_is_named() -> None:
    space = Space((*two_level("AB").dimensions, Dimension("style", ("a", "b", "c")), Dimension("one", (1,))))
    with pytest.raises(Invalid, match="one: has one level"):
        FractionalFactorial(runs=8).points(space, 0)
    with pytest.raises(
        Invalid, match=r"style: has 3 levels, and fractional_factorial runs 2; .*orthogonal_array"
    ):
        FractionalFactorial(runs=4).points(Space(space.dimensions[:3]), 0)


def test_many_factors_are_no_trouble() -> None:
    space = two_level([f"x{nth}" for nth in range(127)])
    assert FractionalFactorial(runs=128).size(space) == 128
    with pytest.raises(Invalid, match="say at most so many, or the generators"):
        FractionalFactorial(runs=2**20).size(space)
    with pytest.raises(Invalid, match="in up to 4096 runs; say a lower resolution, or the generators"):
        FractionalFactorial(resolution=40).size(two_level([f"x{nth}" for nth in range(40)]))
    half = FractionalFactorial(runs=2**39)
    space = two_level([f"x{nth}" for nth in range(40)])
    assert half.size(space) == 2**39
    assert set(next(half.points(space, 0)).factors.values()) == {"low"}


@settings(max_examples=30, deadline=None)
@given(st.integers(3, 9), st.integers(2, 6))
def test_every_fraction_is_balanced_and_has_the_strength_of_its_resolution(factors: int, bits: int) -> None:
    if not bits <= factors < 2**bits:
        return
    space = two_level(LETTERS[:factors])
    design = FractionalFactorial(runs=2**bits)
    rows = signs(design, space)
    assert len(set(rows)) == len(rows) == 2**bits
    words = design.fraction(space).generators(space.names)
    strength = (resolution(words, factors) or factors + 1) - 1
    for chosen in combinations(range(factors), min(strength, 3)):
        counts = Counter(tuple(row[nth] for nth in chosen) for row in rows)
        assert len(counts) == 2 ** len(chosen)
        assert len(set(counts.values())) == 1
