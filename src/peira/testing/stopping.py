"""The conformance suite of stopping rules."""

from __future__ import annotations

import random
from collections.abc import Sequence
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from peira.core.codec import encode
from peira.core.contracts import StopRule
from peira.core.looks import Look, Question, Span, Unit

few = settings(max_examples=10, deadline=None)
UNITS = 90


class StopRuleSuite:
    """Override the fixtures `rule` and `question`, with conditions to which the rule can be applied."""

    @pytest.fixture
    def rule(self) -> StopRule:
        """The stopping rule under test."""
        raise NotImplementedError("override the fixture `rule`")

    @pytest.fixture
    def question(self) -> Question:
        """The question that the rule is given."""
        raise NotImplementedError("override the fixture `question`")

    def test_it_says_where_values_lie(self, rule: StopRule) -> None:
        least, most = rule.range
        assert least < most

    def test_before_anything_there_is_no_answer(self, rule: StopRule, question: Question) -> None:
        look = rule.watch(question).finish()
        assert (look.units, look.answer, look.given_up) == (0, "", ())

    def test_the_same_units_bring_the_same_looks(self, rule: StopRule, question: Question) -> None:
        def check(units: list[Unit]) -> None:
            assert looks_at(rule, question, units) == looks_at(rule, question, units)

        self.check_all(rule, question, check)

    def test_looks_go_forward_and_nothing_given_up_comes_back(
        self, rule: StopRule, question: Question
    ) -> None:
        def check(units: list[Unit]) -> None:
            looks = looks_at(rule, question, units)
            for one, two in pairwise(looks):
                assert one.units <= two.units <= len(units)
                assert one.number < two.number
                assert {*one.given_up} <= {*two.given_up}
            for look in looks:
                assert {*look.given_up} < {*range(len(question.conditions))}, "it gives up everything"

        self.check_all(rule, question, check)

    def test_looks_can_be_recorded(self, rule: StopRule, question: Question) -> None:
        for look in looks_at(rule, question, drawn(rule, question, 1, 0.1)):
            assert encode(look)
            assert all(one.low <= one.high for one in look.standings)

    def test_two_runs_do_not_disturb_each_other(self, rule: StopRule, question: Question) -> None:
        units, watch, other = drawn(rule, question, 2, 0.0), rule.watch(question), rule.watch(question)
        alone = looks_at(rule, question, units)
        for unit in units:
            watch.take(unit)
            other.take(unit)
        assert other.finish().standings == alone[-1].standings or alone[-1].answer

    def check_all(self, rule: StopRule, question: Question, check: object) -> None:
        """Run the check on random evidence, with and without lost trials."""

        @few
        @given(st.integers(0, 2**32), st.sampled_from([0.0, 0.1, 1.0]))
        def tried(seed: int, lost: float) -> None:
            check(drawn(rule, question, seed, lost))  # type: ignore[operator]

        tried()


def drawn(rule: StopRule, question: Question, seed: int, lost: float) -> list[Unit]:
    """Random units: each condition has a success rate of its own, and some trials are lost."""
    rng, (least, most) = random.Random(seed), rule.range
    chances = [rng.random() for _ in question.conditions]

    def span(chance: float) -> Span:
        if rng.random() < lost:
            return Span(least, most)
        value = most if rng.random() < chance else least
        return Span(value, value)

    return [{n: span(chance) for n, chance in enumerate(chances)} for _ in range(UNITS)]


def looks_at(rule: StopRule, question: Question, units: Sequence[Unit]) -> list[Look]:
    """The looks at these units, as the engine takes them.

    Until there is an answer, without the conditions that were given up, and once more at the end.
    """
    watch, looks = rule.watch(question), list[Look]()
    for unit in units:
        gone = looks[-1].given_up if looks else ()
        if (look := watch.take({n: span for n, span in unit.items() if n not in gone})) is not None:
            looks.append(look)
            if look.answer:
                return looks
    return [*looks, watch.finish()]
