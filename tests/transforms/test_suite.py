"""Every built-in transform passes the same suite."""

from __future__ import annotations

from typing import Any, ClassVar

import pytest

from peira.core.transforms import NoAnswer, Transform
from peira.testing.transforms import TransformSuite
from peira.transforms import (
    BUILT_IN,
    boxed,
    chain,
    choice_letter,
    code_block,
    error_taxonomy,
    first_line,
    first_number,
    first_of,
    from_function,
    identity,
    json_field,
    last_line,
    last_number,
    normalise,
    number_after,
    regex,
    strip_reasoning,
)


class Suite(TransformSuite):
    made: Any

    @pytest.fixture
    def transform(self) -> Transform:
        return type(self).made()

    twin = transform


class TestIdentity(Suite):
    made = staticmethod(identity)
    found: ClassVar = [("", ""), (None, None), ([1], [1])]


class TestRegex(Suite):
    made = staticmethod(lambda: regex(r"(?i)answer: *(\w+)"))
    found: ClassVar = [("the Answer: B", "B"), ("none", NoAnswer("the pattern is not found"))]


class TestFirstLine(Suite):
    made = staticmethod(first_line)
    found: ClassVar = [("\n \n yes \nno", "yes"), (" \n", NoAnswer("empty")), (5, "5")]


class TestLastLine(Suite):
    made = staticmethod(last_line)
    found: ClassVar = [("yes\n no\n\n", "no"), ("", NoAnswer("empty"))]


class TestNormalise(Suite):
    made = staticmethod(normalise)
    found: ClassVar = [(" The  Cat! ", "cat"), ("the", NoAnswer("nothing is left")), (True, "true")]


class TestCodeBlock(Suite):
    made = staticmethod(lambda: code_block("python"))
    found: ClassVar = [("a\n```py\nx = 1\n```\nb", "x = 1"), ("x = 1", NoAnswer("no code block"))]


class TestBoxed(Suite):
    made = staticmethod(boxed)
    found: ClassVar = [(r"so \boxed{\frac{1}{2}}.", r"\frac{1}{2}"), ("5", NoAnswer(r"no \boxed{...}"))]


class TestStripReasoning(Suite):
    made = staticmethod(strip_reasoning)
    found: ClassVar = [("<think>hm</think>\nyes", "yes"), ("<think>hm", NoAnswer("nothing but reasoning"))]


class TestFirstNumber(Suite):
    made = staticmethod(first_number)
    found: ClassVar = [
        ("$1,234.50 and 3", 1234.5),
        (7, 7),
        ("none", NoAnswer("no number")),
        ([5], NoAnswer("no number")),
    ]


class TestLastNumber(Suite):
    made = staticmethod(last_number)
    found: ClassVar = [
        ("3 and $1,234.50", 1234.5),
        (7, 7),
        ("none", NoAnswer("no number")),
        ([5], NoAnswer("no number")),
    ]


class TestNumberAfter(Suite):
    made = staticmethod(lambda: number_after("####"))
    found: ClassVar = [
        ("1 #### 2 #### 3 4", 3),
        ("5", NoAnswer("no '####'")),
        ("####", NoAnswer("no number")),
    ]


class TestChoiceLetter(Suite):
    made = staticmethod(choice_letter)
    found: ClassVar = [("the answer is (b)", "B"), ("A cat", NoAnswer("no letter"))]


class TestJsonField(Suite):
    made = staticmethod(lambda: json_field("a.0"))
    found: ClassVar = [('{"a": [5]}', 5), ({"a": [None]}, None), ("{}", NoAnswer("no such field"))]


class TestErrorTaxonomy(Suite):
    made = staticmethod(error_taxonomy)
    found: ClassVar = [("", "empty"), ("Paris.", "answer"), (None, "empty")]


class TestChain(Suite):
    made = staticmethod(lambda: chain(["strip_reasoning", {"number_after": {"marker": "A:"}}]))
    found: ClassVar = [("<think>A: 1</think>A: 2", 2), ("<think>A: 1", NoAnswer("nothing but reasoning"))]


class TestFirstOf(Suite):
    made = staticmethod(lambda: first_of([boxed(), last_number()]))
    found: ClassVar = [(r"\boxed{x} 5", "x"), ("it is 5", 5), ("none", NoAnswer(r"no \boxed{...}"))]


def words(output: Any) -> Any:
    found = str(output).split()
    return found or NoAnswer("no words")


class TestFunction(Suite):
    made = staticmethod(lambda: from_function(words))
    found: ClassVar = [("a b", ["a", "b"]), (" ", NoAnswer("no words"))]


def test_every_built_in_is_here() -> None:
    tested = {suite.__name__.removeprefix("Test").lower() for suite in Suite.__subclasses__()}
    assert tested == {name.replace("_", "") for name in BUILT_IN} | {"function"}
