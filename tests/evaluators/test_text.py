from __future__ import annotations

import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st

from peira.core.contracts import Evaluator
from peira.core.ids import digest
from peira.errors import Invalid, TimedOut
from peira.evaluators import exact, includes, match, numeric, regex

TEXT = st.text(st.characters(exclude_categories=["Cs"]))
JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**53) + 1, 2**53 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=6,
)


def judged(evaluator: Evaluator, output: object, expected: object = None) -> object:
    return evaluator.judge({"output": output, "expected": expected})


@pytest.mark.parametrize(
    ("output", "expected", "agrees"),
    [
        ("Paris", "Paris", True),
        ("Paris", "paris", False),
        (1, 1.0, True),
        (-0.0, 0, True),
        ((1, 2), [1.0, 2], True),
        ({"a": 1, "b": [2]}, {"b": [2.0], "a": 1}, True),
        (True, 1, False),
        ([False], [0], False),
        ("1", 1, False),
        (None, "", False),
    ],
)
def test_exact_is_equality_of_json_values(output: object, expected: object, agrees: bool) -> None:
    assert judged(exact(), output, expected) is agrees


@given(JSON, JSON)
def test_exact_agrees_with_identity(output: object, expected: object) -> None:
    if expected is not None:
        assert judged(exact(), output, expected) is (digest(output) == digest(expected))


@pytest.mark.parametrize(
    ("output", "expected"),
    [
        ("Paris", "paris"),
        ("  the  Capital\nis Paris. ", "The capital is Paris"),
        ("**Paris!**", "Paris"),
        ("“Paris”。", "Paris"),
        ("STRASSE", "straße"),
        ("e\u0301te\u0301", "ÉTÉ"),
        ("True", True),
        (42, "42"),
        (["a", 1.0], '["A",1]'),
        (".5", ".5."),
        ("?", " ? "),
    ],
)
def test_match_ignores_case_blanks_and_wrapping(output: object, expected: object) -> None:
    assert judged(match(), output, expected) is True


@pytest.mark.parametrize(
    ("output", "expected"),
    [("-5", "5"), (".5", "5"), ("C#", "C"), ("C++", "C"), ("5%", "5"), ("?", "!"), ("", "a"), ("a b", "ab")],
)
def test_match_keeps_what_carries_meaning(output: str, expected: str) -> None:
    assert judged(match(), output, expected) is False


@pytest.mark.parametrize(
    ("where", "output", "expected", "agrees"),
    [
        ("start", "Yes, because it is.", "yes", True),
        ("start", "Nothing", "no", False),
        ("start", "5.3", "5", False),
        ("start", "5. And so on", "5", True),
        ("start", "I say yes", "yes", False),
        ("end", "The answer is: **B**.", "b", True),
        ("end", "It is Arab", "b", False),
        ("end", "B is the answer", "b", False),
        ("end", "It is -5", "5", False),
        ("end", "It is -5", "-5", True),
        ("end", "It is 2.5", "5", False),
        ("word", "I think Paris, France", "paris", True),
        ("word", "New   York City", "new york", True),
        ("word", "Parisian", "paris", False),
        ("word", "it costs 15 or 5.3 or 1,5", "5", False),
        ("word", "a+b (see c++)", "c++", True),
    ],
)
def test_match_where_goes_by_whole_words(where: str, output: str, expected: str, agrees: bool) -> None:
    assert judged(match(where), output, expected) is agrees  # type: ignore[arg-type]


@given(TEXT.filter(str.strip))
def test_what_matches_as_a_whole_matches_everywhere(text: str) -> None:
    for where in ("whole", "start", "end", "word"):
        assert judged(match(where), f" {text.upper().lower()}\n", text.upper().lower()) is True  # type: ignore[arg-type]


def test_includes_any_of_the_expected_texts() -> None:
    assert judged(includes(), "It is PARIS, France.", "paris") is True
    assert judged(includes(), "It is Paris", ["Rome", "Paris"]) is True
    assert judged(includes(), "It is Paris", ["Rome", "Oslo"]) is False
    assert judged(includes(ignore_case=False), "It is PARIS", "Paris") is False
    assert judged(includes(), {"city": "Paris"}, "paris") is True
    assert judged(includes(), "42 apples", 42) is True


@pytest.mark.parametrize("nothing", ["", [], ["a", ""]])
def test_includes_refuses_the_empty_text_which_is_in_every_output(nothing: object) -> None:
    with pytest.raises(Invalid, match="includes needs some expected text"):
        judged(includes(), "anything", nothing)


@pytest.mark.parametrize("where", ["start", "end", "word"])
def test_match_refuses_an_empty_expectation_that_would_match_everything(where: str) -> None:
    with pytest.raises(Invalid, match="match needs some expected text"):
        judged(match(where), "anything", " ")  # type: ignore[arg-type]


def test_regex_searches_with_its_pattern_the_expected_pattern_or_a_group() -> None:
    assert judged(regex(r"\bB\b"), "Answer: B.") is True
    assert judged(regex(r"\bB\b"), "Answer: AB.") is False
    assert judged(regex(), "abc123", r"\d{3}$") is True
    assert judged(regex(r"answer: (\w+)", 1), "the answer: Paris.", "paris") is True
    assert judged(regex(r"answer: (?P<it>\w+)", "it"), "answer: Rome", "paris") is False
    assert judged(regex(r"answer: (\w+)|none", 1), "none", "paris") is False
    assert judged(regex(r'"n":2'), {"n": 2.0}) is True


def test_a_regex_that_would_take_for_ever_ends_and_says_so() -> None:
    with pytest.raises(TimedOut, match="took more than"):
        judged(regex(r"(a|a|b?a)+$"), "a" * 64 + "!")


def test_a_regex_with_a_pattern_of_its_own_does_not_depend_on_what_is_expected() -> None:
    assert regex("a").takes == {"output"}
    assert regex().takes == regex("(a)", 1).takes == exact().takes == {"output", "expected"}


@pytest.mark.parametrize(
    "make",
    [
        lambda: regex("("),
        lambda: regex("a{99999999999999}"),
        lambda: regex("(a)", 2),
        lambda: regex("(a)", "name"),
        lambda: regex(group=1),
        lambda: regex(5),  # type: ignore[arg-type]
        lambda: match("anywhere"),  # type: ignore[arg-type]
        lambda: includes("yes"),  # type: ignore[arg-type]
    ],
)
def test_wrong_options_are_refused_when_the_evaluator_is_made(make: object) -> None:
    with pytest.raises(Invalid):
        make()  # type: ignore[operator]


def test_an_invalid_expected_pattern_is_a_failure_and_not_a_wrong_answer() -> None:
    with pytest.raises(Invalid, match="not a valid pattern"):
        judged(regex(), "abc", "(")
    with pytest.raises(Invalid, match="is not a pattern"):
        judged(regex(), "abc", 5)


@pytest.mark.parametrize("evaluator", [exact(), match(), includes(), regex(), numeric()], ids=repr)
def test_a_case_without_an_expected_value_is_a_failure_and_not_a_wrong_answer(evaluator: Evaluator) -> None:
    with pytest.raises(Invalid, match=f"{evaluator.name} needs an expected value; this case has none"):
        judged(evaluator, "output", None)


def test_evaluators_are_values_with_their_options_in_repr_and_identity() -> None:
    assert repr(match("end")) == "match(where='end')"
    assert repr(numeric(0.1)) == "numeric(tolerance=0.1, relative=False)"
    assert repr(exact()) == "exact()"
    assert match("end").identity == {"evaluator": "match", "config": {"where": "end"}, "version": 1}
    assert digest(numeric(0.1).identity) != digest(numeric(0.2).identity)
    assert match("end") == match("end") != match()
    assert len({match(), match("whole"), match("end")}) == 2


@pytest.mark.parametrize("evaluator", [exact(), match("word"), includes(), regex("a"), numeric(1)], ids=repr)
def test_evaluators_satisfy_the_contract_and_travel(evaluator: Evaluator) -> None:
    assert isinstance(evaluator, Evaluator)
    copy = pickle.loads(pickle.dumps(evaluator))
    assert copy == evaluator
    assert judged(copy, "a 1", "1") is judged(evaluator, "a 1", "1")
