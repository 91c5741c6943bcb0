from __future__ import annotations

import pickle
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import FrozenInstanceError
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from peira.core.expressions import MAX_DEPTH, MAX_LENGTH, Expression
from peira.errors import ExpressionError

VALUES = {
    "a": 3,
    "b": -2,
    "x": 0.5,
    "s": "plain",
    "t": "",
    "flag": True,
    "none": None,
    "items": [1, "plain", 3],
}


def refusal(text: str) -> ExpressionError:
    with pytest.raises(ExpressionError) as caught:
        Expression(text)
    return caught.value


def fault(text: str, **values: object) -> ExpressionError:
    with pytest.raises(ExpressionError) as caught:
        Expression(text).evaluate(values)
    return caught.value


@pytest.mark.parametrize(
    ("text", "truth"),
    [
        ("s == 'plain' or a > 100", True),
        ("not (a < 0) and b < 0", True),
        ("-3 < b < 0 < a", True),
        ("0 < a < b", False),
        ("a < b < 100", False),
        ("a or missing", True),
        ("not (0 or t or none)", True),
        ("s in ['plain', 'bold']", True),
        ("s not in ('plain', 'bold')", False),
        ("'lai' in s", True),
        ("a in items", True),
        ("a + b * 2 == -1", True),
        ("a % 2 == 1 and a // 2 == 1 and a / 2 == 1.5", True),
        ("s + '!' == 'plain!'", True),
        ("(a if flag else b) == 3", True),
        ("len(s) == 5 and len(items) == 3", True),
        ("min(a, b) == -2 and max([1, a]) == 3 and abs(b) == 2", True),
        ("implies(s == 'plain', a == 3)", True),
        ("implies(flag, a == 4)", False),
        ("implies(not flag, missing)", True),
        ("flag == true and none == null and none == None and (1 == 2) == false", True),
        ("(1, 2) == [1, 2]", True),
        ("none", False),
        ("  a == 3\r\n", True),
        ("(a == 3 and\n b == -2)", True),
        ("flag or missing", True),
    ],
)
def test_meaning(text: str, truth: bool) -> None:
    assert Expression(text).evaluate(VALUES) is truth


def test_names_are_all_that_is_mentioned_and_dotted_names_are_one() -> None:
    expression = Expression("case.slice == 'hard' or implies(model in ['a', b], len(style) > true)")
    assert expression.names == {"case.slice", "model", "b", "style"}
    assert expression.evaluate({"case.slice": "hard"})


def test_words_of_toml_are_literals_even_when_values_hold_such_names() -> None:
    assert Expression("true").names == frozenset()
    assert Expression("true and null == None").evaluate({"true": False, "null": 1})


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("open('f')", "can be called"),
        ("s.upper()", "can be called"),
        ("len.__call__(s)", "can be called"),
        ("(lambda: 1)()", "can be called"),
        ("'a'.b", "attributes"),
        ("true.b", "attributes"),
        ("s[0]", "subscripts"),
        ("lambda: 1", "lambdas"),
        ("[i for i in items]", "comprehensions"),
        ("min(i for i in items)", "comprehensions"),
        ("f'{s}'", "f-strings"),
        ("(y := 3)", ":="),
        ("2 ** 3", "**"),
        ("1 << 3", "<<"),
        ("a & b", "use 'and'"),
        ("a @ b", "not allowed"),
        ("+a", "unary +"),
        ("a is None", "use =="),
        ("a in {1, 2}", "use a list"),
        ("{'k': 1}", "dictionaries"),
        ("[*items]", "unpacking"),
        ("min(*items)", "unpacking"),
        ("min(a, key=b)", "named arguments"),
        ("len(a, b)", "takes 1 argument, not 2"),
        ("implies(a)", "takes 2 arguments, not 1"),
        ("min()", "takes 1 argument, not 0"),
        ("1j", "complex"),
        ("b'a'", "bytes"),
        ("...", "ellipsis"),
        ("a = 3", "not an expression"),
        ("a ==", "not an expression"),
        (r"s == '\d'", "not an expression"),
        ("a\0", "not an expression"),
        ("s == '\ud800'", "not an expression"),
        ("", "empty"),
        (" \n ", "empty"),
        ("a" * (MAX_LENGTH + 1), "longer than"),
    ],
)
def test_everything_else_is_refused_with_a_clear_word(text: str, word: str) -> None:
    assert word in refusal(text).reason


NESTS = {
    "minus": lambda n: "-" * n + "1",
    "not": lambda n: "not " * n + "a",
    "sum": lambda n: "1" + "+1" * n,
    "dots then call": lambda n: "a" + ".a" * n + "()",
    "calls": lambda n: "a" + "()" * n,
    "subscripts": lambda n: "a" + "[0]" * n,
    "lists": lambda n: "[" * n + "]" * n,
    "parentheses": lambda n: "(" * n + "1" + ")" * n,
    "choices": lambda n: "a if a else " * n + "a",
    "lambdas": lambda n: "lambda:" * n + "1",
    "powers": lambda n: "1" + "**1" * n,
}


@pytest.mark.parametrize("nest", NESTS)
@pytest.mark.parametrize("depth", [MAX_DEPTH * 2 + 1, 800, 2_400, 4_900, 9_998])
def test_deep_nesting_is_refused_and_never_exhausts_the_stack(nest: str, depth: int) -> None:
    text = NESTS[nest](depth)
    if len(text) <= MAX_LENGTH:
        assert refusal(text).reason


@pytest.mark.parametrize(
    "text", ["not " * (MAX_DEPTH - 2) + "a", "0" + "+1" * (MAX_DEPTH - 2), "a<=" * 3_000 + "a"]
)
def test_what_is_allowed_can_be_evaluated(text: str) -> None:
    assert Expression(text).evaluate(VALUES)


def test_a_value_too_deep_to_compare_is_an_expression_error() -> None:
    one: list[Any] = []
    two: list[Any] = []
    for _ in range(100_000):
        one, two = [one], [two]
    assert "one == two" in fault("one == two", one=one, two=two).reason


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("flag and (s < a)", "s < a"),
        ("0 < a < s", "0 < a < s"),
        ("s * 3 == ''", "s * 3"),
        ("3 * s == ''", "3 * s"),
        ("items * 3 == []", "items * 3"),
        ("items + items == []", "items + items"),
        ("'%999999999d' % a == s", "'%999999999d' % a"),
        ("s + a == s", "s + a"),
        ("1 + (a / (b + 2)) > 0", "a / (b + 2)"),
        ("-s == 1", "-s"),
        ("len(a) == 1", "len(a)"),
        ("min([]) == 1", "min([])"),
        ("a in b", "a in b"),
        ("s == missing", "missing"),
    ],
)
def test_faults_name_their_part_and_point_at_it(text: str, part: str) -> None:
    error = fault(text, **VALUES)
    assert part in error.reason
    assert error.text.startswith(part, error.offset)


def test_the_message_shows_the_text_with_a_caret() -> None:
    assert str(refusal("é == 1 and open('f')")) == (
        "only len, min, max, abs and implies can be called\n  é == 1 and open('f')\n             ^"
    )
    assert str(refusal("(a and\n b[0])")).endswith("\n   b[0])\n   ^")


def test_the_message_can_always_be_printed() -> None:
    message = str(refusal("a == '\ud800\x1b[31m'"))
    assert message.encode().decode() == message
    assert "\x1b" not in message


def test_expressions_are_values() -> None:
    expression = Expression("a > 1")
    assert expression == Expression("a > 1") != Expression("a > 2")
    assert len({expression, Expression("a > 1")}) == 1
    with pytest.raises(FrozenInstanceError):
        expression.text = "a < 1"  # type: ignore[misc]


def test_expressions_and_their_errors_cross_process_borders() -> None:
    expression = pickle.loads(pickle.dumps(Expression("a > 1")))
    assert expression == Expression("a > 1")
    assert expression.evaluate({"a": 2})
    assert expression.names == {"a"}
    error = refusal("a[0]")
    assert str(pickle.loads(pickle.dumps(error))) == str(error)


# Random trees: pairs of our text and the Python text that must mean the same.
Pair = tuple[str, str]


def same(*texts: str) -> st.SearchStrategy[Pair]:
    return st.sampled_from([(text, text) for text in texts])


def shape(form: str, *parts: st.SearchStrategy[Pair], python: str | None = None) -> st.SearchStrategy[Pair]:
    def fill(pairs: tuple[Pair, ...]) -> Pair:
        ours, theirs = zip(*pairs, strict=True)
        return form.format(*ours), (python or form).format(*theirs)

    return st.tuples(*parts).map(fill)


comparisons = st.sampled_from(["==", "!=", "<", "<=", ">", ">="])
numbers: st.SearchStrategy[Pair] = st.deferred(
    lambda: (
        same("0", "1", "2.5", "7", "a", "b", "x", "flag")
        | st.sampled_from(["+", "-", "*", "/", "%", "//"]).flatmap(
            lambda op: shape(f"({{}} {op} {{}})", numbers, numbers)
        )
        | shape("-{}", numbers)
        | shape("abs({})", numbers)
        | shape("min({}, {})", numbers, numbers)
        | shape("max([{}, {}])", numbers, numbers)
        | shape("len({})", strings)
        | shape("({} if {} else {})", numbers, truths, numbers)
    )
)
strings: st.SearchStrategy[Pair] = st.deferred(
    lambda: same("'a'", "'plain'", "''", "s", "t") | shape("({} + {})", strings, strings)
)
sequences: st.SearchStrategy[Pair] = st.deferred(
    lambda: (
        same("items", "[]")
        | shape("[{}, {}]", anything, anything)
        | shape("({}, {})", anything, anything, python="[{}, {}]")
    )
)
truths: st.SearchStrategy[Pair] = st.deferred(
    lambda: (
        same("True", "False", "flag")
        | st.sampled_from([("true", "True"), ("false", "False"), ("case.hard", "case_hard")])
        | shape("not {}", anything).map(lambda pair: (f"({pair[0]})", f"({pair[1]})"))
        | shape("({} and {})", anything, anything)
        | shape("({} or {} or {})", anything, anything, anything)
        | shape("implies({}, {})", anything, anything, python="bool(not {} or {})")
        | comparisons.flatmap(lambda op: shape(f"({{}} {op} {{}})", anything, anything))
        | st.tuples(comparisons, comparisons).flatmap(
            lambda ops: shape(f"({{}} {ops[0]} {{}} {ops[1]} {{}})", numbers, numbers, numbers)
        )
        | shape("({} in {})", anything, sequences)
        | shape("({} not in {})", anything, sequences)
        | shape("({} in {})", strings, strings)
    )
)
anything: st.SearchStrategy[Pair] = truths | numbers | strings | sequences | same("None", "none")

VARIABLES = st.fixed_dictionaries(
    {
        "a": st.integers(-3, 3),
        "b": st.integers(-100, 100),
        "x": st.floats(-10, 10),
        "s": st.sampled_from(["", "a", "plain"]),
        "t": st.text(max_size=3),
        "flag": st.booleans(),
        "none": st.none(),
        "items": st.lists(st.integers(-3, 3) | st.sampled_from(["a", "plain"]) | st.none(), max_size=3),
    }
)
BUILTINS = {"len": len, "min": min, "max": max, "abs": abs, "bool": bool}


@settings(max_examples=200)
@given(anything, VARIABLES, st.booleans())
def test_random_trees_agree_with_python(pair: Pair, values: dict[str, object], hard: bool) -> None:
    ours, theirs = pair
    known = {**values, "case.hard": hard}
    try:
        value = eval(theirs, {"__builtins__": BUILTINS}, {**values, "case_hard": hard})
    except (TypeError, ValueError, ArithmeticError):
        fault(ours, **known)
    else:
        assert Expression(ours).evaluate(known) is bool(value)
        assert Expression(f"[{ours}] == [expected]").evaluate({**known, "expected": value})


class Canary:
    """Sings when it is called, indexed or asked for an attribute."""

    sang = False

    def sing(self, *_: object) -> Any:
        Canary.sang = True

    __call__ = __getitem__ = __getattr__ = __format__ = __add__ = __mul__ = __pow__ = __lshift__ = sing

    def __iter__(self) -> Iterator[object]:
        return iter(())


WORDS = """
canary open exec eval len min max abs implies lambda for in if else and or not is await yield import
a s case . , : := ( ) [ ] { } + - * / // % ** << >> & | ~ @ == != < > = 'x' "y" f'{canary()}' b'z' 1 2.5 1j
__import__ ... true null None True __class__ # \\ ; !r $ ? ` é
"""
TOKENS = st.sampled_from([*WORDS.split(), "\n", "\t"])


@given(st.text() | st.lists(TOKENS, max_size=12).map(" ".join) | st.lists(TOKENS, max_size=12).map("".join))
def test_arbitrary_text_raises_nothing_else_and_executes_nothing(text: str) -> None:
    Canary.sang = False
    values = dict.fromkeys(["canary", "open", "__import__", "exec", "eval", "a", "s"], Canary())
    with suppress(ExpressionError):
        Expression(text).evaluate(values)
    assert not Canary.sang
