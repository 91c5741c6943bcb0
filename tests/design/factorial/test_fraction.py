"""The algebra of words, against relations and alias sets printed in textbooks."""

from __future__ import annotations

from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from peira.design.factorial.fraction import (
    Word,
    alias_sets,
    defining_relation,
    resolution,
    word_length_pattern,
)
from peira.errors import Invalid

NAMES = "ABCDEFGHJK"


def words(*texts: str) -> dict[Word, int]:
    return {frozenset(text): 1 for text in texts}


def shown(found: object) -> list[str]:
    assert isinstance(found, (dict, list, tuple))
    return ["".join(sorted(word)) for word in found]


def test_the_relation_of_the_quarter_of_six_factors() -> None:
    # E = ABC, F = BCD: I = ABCE = BCDF = ADEF.
    generators = words("ABCE", "BCDF")
    assert shown(defining_relation(generators)) == ["ABCE", "ADEF", "BCDF"]
    assert resolution(generators, 6) == 4
    assert word_length_pattern(generators, 6) == {4: 3}


def test_the_alias_sets_of_the_quarter_of_six_factors() -> None:
    found = alias_sets(NAMES[:6], words("ABCE", "BCDF"))
    pairs = {frozenset(shown(together)) for together in found if len(together[0]) == 2 and len(together) > 1}
    assert pairs == {
        frozenset(some)
        for some in (
            ("AB", "CE"), ("AC", "BE"), ("AD", "EF"), ("AE", "BC", "DF"),
            ("AF", "DE"), ("BD", "CF"), ("BF", "CD"),
        )
    }  # fmt: skip
    assert all(len(together) == 1 for together in found if len(together[0]) == 1)


def test_the_alias_sets_of_seven_factors_in_eight_runs() -> None:
    found = {
        shown(together)[0]: set(shown(together)[1:])
        for together in alias_sets(NAMES[:7], words("ABD", "ACE", "BCF", "ABCG"))
    }
    assert found == {
        "": set(),
        "A": {"BD", "CE", "FG"},
        "B": {"AD", "CF", "EG"},
        "C": {"AE", "BF", "DG"},
        "D": {"AB", "CG", "EF"},
        "E": {"AC", "BG", "DF"},
        "F": {"BC", "AG", "DE"},
        "G": {"CD", "BE", "AF"},
    }


def test_signs_multiply() -> None:
    relation = defining_relation({frozenset("ABC"): -1, frozenset("CDE"): -1, frozenset("AF"): 1})
    assert relation[frozenset("ABDE")] == 1
    assert relation[frozenset("BCF")] == -1


def test_a_full_factorial_has_no_words() -> None:
    assert defining_relation({}) == {}
    assert resolution([], 4) is None


def test_effects_that_are_constant_stand_with_the_mean() -> None:
    assert shown(alias_sets("AB", words("AB"))[0]) == ["", "AB"]


def test_a_relation_too_long_to_list_is_still_counted() -> None:
    # 31 factors in 32 runs: as many words of length 3 as the projective space has lines.
    columns = [c for c in range(1, 32) if c.bit_count() > 1]
    names = [str(c) for c in range(1, 32)]
    generators = {
        frozenset([str(c), *(str(1 << bit) for bit in range(5) if c >> bit & 1)]): 1 for c in columns
    }
    with pytest.raises(Invalid, match="too many to list"):
        defining_relation(generators)
    pattern = word_length_pattern(generators, 31)
    assert pattern[3] == 155
    assert pattern[4] == 1085
    assert sum(pattern.values()) == 2**26 - 1
    assert len(alias_sets(names, generators)) == 32


@given(st.sets(st.frozensets(st.sampled_from(NAMES), min_size=3), min_size=1, max_size=4))
def test_aliases_differ_by_a_word(generators: set[Word]) -> None:
    signed = dict.fromkeys(generators, 1)
    relation = {frozenset(), *defining_relation(signed)}
    for together in alias_sets(NAMES, signed):
        assert all(one ^ other in relation for one, other in combinations(together, 2))
