"""The conformance suite of transforms."""

from __future__ import annotations

import random
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import ClassVar

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from peira.core.ids import Json, canonical, digest, normalise, own_copy
from peira.core.transforms import NoAnswer, Transform, from_json, to_json

TEXT = st.text(st.characters(exclude_categories=["Cs"]))
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53) + 1, 2**53 - 1) | st.floats(-1e300, 1e300) | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=6,
)
# fmt: off
PIECES = (
    "a", " ", "\n", "9", "-", ".", ",", ":", "$", "%", "e1", "1,", "1/", "1.", "1,234.5", "3/4", "True",
    "`", "~", "```\n", "{", "[", "}", "]", '"', "'", "\\", '{"a":', '"\\', "\\u00e9", "\u00e9\u0301",
    "\\boxed{", "<think>", "</think>", "A", "b", "(A", "A ", "**", "the answer is ", "answer", "#### ", "A:",
    "Error: ",
)
# fmt: on
MARKS = st.lists(st.sampled_from(PIECES), max_size=30).map("".join)
LONG, MEGABYTE = 100_000, 1_000_000
few = settings(max_examples=50)


class TransformSuite:
    """Override the fixtures `transform` and `twin`, and set `found` to outputs and their answers."""

    found: ClassVar[Sequence[tuple[Json, Json | NoAnswer]]] = ()
    total = True
    """Whether it takes any JSON; a user's transform may be for texts only."""

    @pytest.fixture
    def transform(self) -> Transform:
        """The transform under test."""
        raise NotImplementedError("override the fixture `transform`")

    @pytest.fixture
    def twin(self) -> Transform:
        """A second transform, made in the same way."""
        raise NotImplementedError("override the fixture `twin`")

    def test_it_is_a_transform_with_a_name(self, transform: Transform) -> None:
        assert isinstance(transform, Transform)
        assert transform.name

    def test_it_finds_what_it_is_for(self, transform: Transform) -> None:
        for output, answer in self.found:
            assert transform.apply(output) == answer, output

    def test_its_identity_is_json_and_stays_the_same(self, transform: Transform) -> None:
        before = canonical(normalise(transform.identity))
        transform.apply("a text")
        assert canonical(normalise(transform.identity)) == before

    def test_two_made_alike_are_the_same_transform(self, transform: Transform, twin: Transform) -> None:
        assert digest(transform.identity) == digest(twin.identity)
        assert (transform.name, transform.apply("A: 5")) == (twin.name, twin.apply("A: 5"))

    def test_no_answer_stays_no_answer(self, transform: Transform) -> None:
        nothing = NoAnswer("nothing was there before")
        assert transform.apply(nothing) == nothing

    def test_any_text_has_an_answer_or_none_and_always_the_same(self, transform: Transform) -> None:
        self.check_all(transform, TEXT | MARKS)

    def test_any_output_has_an_answer_or_none_and_always_the_same(self, transform: Transform) -> None:
        if not self.total:
            pytest.skip("it is for texts only")
        self.check_all(transform, JSON.map(normalise))

    def check_all(self, transform: Transform, outputs: st.SearchStrategy[Json]) -> None:
        """Check it on many generated outputs."""

        @few
        @given(outputs)
        def check(output: Json) -> None:
            self.check(transform, output)

        check()

    def check(self, transform: Transform, output: Json) -> None:
        """Assert that it is deterministic, changes nothing, and gives JSON or a NoAnswer with a reason."""
        before = own_copy(output)
        answer = transform.apply(output)
        assert canonical(output) == canonical(before), "it changed what it was given"
        assert transform.apply(output) == answer
        assert isinstance(answer, NoAnswer) or canonical(normalise(answer))
        assert from_json(normalise(to_json(answer))) == answer
        if isinstance(answer, NoAnswer):
            assert answer.reason
            assert "\n" not in answer.reason

    def test_no_text_takes_forever(self, transform: Transform) -> None:
        """The time limit of the test decides: quadratic time would take hours."""
        for piece in PIECES:
            transform.apply(
                piece * (LONG // len(piece)) + "`!"
            )  # an ending that does not match makes a regex backtrack
        transform.apply("".join(random.Random(1).choices(PIECES, k=MEGABYTE // 3)))

    def test_outputs_at_the_same_time_are_as_outputs_one_by_one(self, transform: Transform) -> None:
        outputs = [f"<think>{i}</think> the answer is {i}\n\\boxed{{{i}}}\nA: {i}" for i in range(50)]
        alone = [transform.apply(output) for output in outputs]
        with ThreadPoolExecutor(8) as pool:
            assert list(pool.map(transform.apply, outputs)) == alone
