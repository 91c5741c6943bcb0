"""Cases that are there twice are found, and near ones by a similarity that is computed in full."""

from __future__ import annotations

import random

from hypothesis import given
from hypothesis import strategies as st

from peira import Case
from peira.data import stats
from peira.data.statistics import duplicates, plain

WORDS = [f"word{n}" for n in range(400)]


def jaccard(one: str, other: str) -> float:
    def runs(text):
        words = text.split()
        return {tuple(words[i : i + 3]) for i in range(max(1, len(words) - 2))}

    return len(runs(one) & runs(other)) / len(runs(one) | runs(other))


def test_the_same_but_for_case_blanks_and_punctuation():
    found = duplicates(["What is 2+2?", "what  is 2 + 2", "Else", "WHAT is: 2+2!", {"a": 1}, "else."])
    assert found.same == ((0, 1, 3), (2, 5))
    assert duplicates(["+", "-", ""]).same == ()


def test_near_ones_are_found_with_their_similarity():
    rng = random.Random(1)
    texts = [" ".join(rng.choices(WORDS, k=60)) for _ in range(80)]
    for n in range(20):
        words = texts[n].split()
        words[rng.randrange(1, len(words))] = "changed"
        texts.append(" ".join(words))
    found = duplicates(texts)
    assert {(a, b) for a, b, _ in found.near} == {(n, 80 + n) for n in range(20)}
    assert all(share == round(jaccard(texts[a], texts[b]), 4) for a, b, share in found.near)
    assert duplicates(texts, threshold=0.99).near == ()


@given(st.lists(st.text(max_size=12), max_size=12))
def test_groups_are_those_of_the_plain_text(texts):
    found = duplicates(texts)
    for group in found.same:
        assert len({plain(texts[place]) for place in group}) == 1
    extra = sum(len(group) - 1 for group in found.same)
    assert len({plain(text) for text in texts}) == len(texts) - extra


def test_what_a_set_is_like():
    cases = [
        Case("one two three", 1, slice="a", cluster="c"),
        Case("One, two three!", slice="a"),
        Case("x", 2, id="mine", slice="b"),
    ]
    found = stats(cases)
    assert (found.cases, found.expected, found.slices, found.clusters) == (3, 2, {"a": 2, "b": 1}, 1)
    assert found.length == (1, 13, 15)
    assert found.same_count == 1
    assert stats(list(cases)).digest == found.digest != stats(cases[::-1]).digest
