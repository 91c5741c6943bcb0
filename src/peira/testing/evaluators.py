"""The conformance suite of evaluators."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, ClassVar

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from peira.core.context import Channel, judge
from peira.core.contracts import Evaluator
from peira.core.ids import Json, canonical, digest, normalise, own_copy
from peira.core.transforms import NoAnswer
from peira.errors import Invalid
from peira.evaluators.scores import score_value

FACTS = frozenset({"output", "expected", "case", "trial"})
TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=200)
HUGE = 1_000_000
few = settings(max_examples=40)


class EvaluatorSuite:
    """Override the fixtures `evaluator` and `twin`, and set `judged` to facts and their scores."""

    judged: ClassVar[Sequence[tuple[Mapping[str, Any], Json]]] = ()
    bounds: tuple[float, float] | None = (0.0, 1.0)
    """The range of all numbers in its scores."""

    symmetric = False
    """Whether output and expected text may be exchanged."""

    full: float | bool | None = None
    """The score of a text that equals the expected one; None if there is no such score."""

    @pytest.fixture
    def evaluator(self) -> Evaluator:
        """The evaluator under test."""
        raise NotImplementedError("override the fixture `evaluator`")

    @pytest.fixture
    def twin(self) -> Evaluator:
        """A second evaluator, made in the same way."""
        raise NotImplementedError("override the fixture `twin`")

    def channel(self) -> Channel | None:
        """The channel through which it asks models; override it, with their replies, if it asks any."""
        return None

    def score(self, evaluator: Evaluator, facts: Mapping[str, Any]) -> Json:
        """The score that would be recorded; only the facts that it takes are passed to it."""
        entered = judge(self.channel())
        try:
            return self._score(evaluator, facts)
        finally:
            entered.var.reset(entered)

    def _score(self, evaluator: Evaluator, facts: Mapping[str, Any]) -> Json:
        """The score, computed within the channel."""
        verdict = evaluator.judge({name: facts[name] for name in evaluator.takes})
        assert inspect.isawaitable(verdict) == evaluator.asynchronous
        return score_value(asyncio.run(_complete(verdict)) if evaluator.asynchronous else verdict)

    def outcome(self, evaluator: Evaluator, facts: Mapping[str, Any]) -> Json | Invalid:
        """The score, or the Invalid that was raised."""
        try:
            return self.score(evaluator, facts)
        except Invalid as refused:
            return refused

    def texts(self, evaluator: Evaluator) -> None:
        """Skip the test if it needs more than texts."""
        if "trial" in evaluator.takes or "case" in evaluator.takes:
            pytest.skip("it judges more than texts")

    def check(self, score: Json) -> None:
        """Assert that all numbers of a score are within the bounds."""
        for value in score.values() if isinstance(score, dict) else [score]:
            if self.bounds and not isinstance(value, str):
                assert self.bounds[0] <= value <= self.bounds[1]

    def test_it_is_an_evaluator_that_takes_facts(self, evaluator: Evaluator) -> None:
        assert isinstance(evaluator, Evaluator)
        assert evaluator.name
        assert evaluator.takes
        assert evaluator.takes <= FACTS

    def test_it_judges_what_it_is_for(self, evaluator: Evaluator) -> None:
        assert self.judged, "give `judged` some facts and their scores"
        for facts, score in self.judged:
            found = self.score(evaluator, facts)
            assert found == score, facts
            self.check(found)

    def test_its_identity_is_json_and_stays_the_same(self, evaluator: Evaluator) -> None:
        before = canonical(normalise(evaluator.identity))
        self.score(evaluator, self.judged[0][0])
        assert canonical(normalise(evaluator.identity)) == before

    def test_two_made_alike_are_the_same_evaluator(self, evaluator: Evaluator, twin: Evaluator) -> None:
        assert digest(evaluator.identity) == digest(twin.identity)
        assert (evaluator.name, evaluator.takes) == (twin.name, twin.takes)
        facts = self.judged[0][0]
        assert self.score(evaluator, facts) == self.score(twin, facts)

    def test_it_does_not_change_what_it_is_given(self, evaluator: Evaluator) -> None:
        for facts, _ in self.judged:
            plain = {name: fact for name, fact in facts.items() if name in ("output", "expected")}
            plain = {name: fact for name, fact in plain.items() if not isinstance(fact, NoAnswer)}
            before = own_copy(normalise(plain))
            self.score(evaluator, facts)
            assert canonical(normalise(plain)) == canonical(before)

    def test_any_text_has_one_score_or_is_refused_in_one_line(self, evaluator: Evaluator) -> None:
        self.texts(evaluator)

        @few
        @given(TEXT, TEXT)
        def check(output: str, expected: str) -> None:
            facts = {"output": output, "expected": expected}
            score = self.outcome(evaluator, facts)
            if isinstance(score, Invalid):
                assert len(score.problems) == 1
                return
            self.check(score)
            assert self.score(evaluator, facts) == score
            if self.symmetric:
                assert self.score(evaluator, {"output": expected, "expected": output}) == score

        check()

    def test_the_expected_text_has_the_full_score(self, evaluator: Evaluator) -> None:
        if self.full is None:
            pytest.skip("it has none")

        @few
        @given(TEXT.filter(str.strip))
        def check(text: str) -> None:
            assert self.score(evaluator, {"output": text, "expected": text}) == self.full

        check()

    def test_no_answer_is_scored_lowest_or_refused(self, evaluator: Evaluator) -> None:
        self.texts(evaluator)
        facts = {**self.judged[0][0], "output": NoAnswer("nothing was found")}
        score = self.outcome(evaluator, facts)
        if isinstance(score, Invalid):
            assert "no answer" in str(score)
            return
        for value in score.values() if isinstance(score, dict) else [score]:
            assert isinstance(value, str) or value == (self.bounds or (0.0,))[0]

    @pytest.mark.parametrize(
        "output", ["", " ", "a" * HUGE, "a b " * (HUGE // 4), "(" * HUGE, "1," * (HUGE // 2)]
    )
    def test_an_empty_or_huge_text_is_scored_or_refused(self, evaluator: Evaluator, output: str) -> None:
        self.texts(evaluator)
        score = self.outcome(evaluator, {**self.judged[0][0], "output": output})
        if isinstance(score, Invalid):
            assert len(str(score)) < 1000
        else:
            self.check(score)

    def test_verdicts_at_the_same_time_are_as_verdicts_one_by_one(self, evaluator: Evaluator) -> None:
        facts = [facts for facts, _ in self.judged] * 10
        alone = [self.score(evaluator, one) for one in facts]
        with ThreadPoolExecutor(8) as pool:
            assert list(pool.map(lambda one: self.score(evaluator, one), facts)) == alone


async def _complete(pending: Any) -> Any:
    return await pending
