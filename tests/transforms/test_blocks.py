from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from peira.core.transforms import NoAnswer
from peira.errors import Invalid
from peira.transforms import boxed, code_block, strip_reasoning

SEVERAL = """Some words
```
plain
```
```python
first = 1
```
~~~~js
```
not a fence here
~~~~
   ```py
last = 2
   ```
"""


@pytest.mark.parametrize(
    ("language", "which", "answer"),
    [
        ("python", "last", "last = 2"),
        ("Python3", "first", "first = 1"),
        ("js", "last", "```\nnot a fence here"),
        ("rust", "last", "plain"),
        (None, "first", "plain"),
        (None, "last", "last = 2"),
    ],
)
def test_a_block_is_found_by_language_and_place(language: str | None, which: str, answer: str) -> None:
    assert code_block(language, which).apply(SEVERAL) == answer  # type: ignore[arg-type]


def test_a_fence_that_is_never_closed_goes_to_the_end() -> None:
    assert code_block().apply("so:\n```python\nx = 1\ny = 2") == "x = 1\ny = 2"


def test_a_block_of_another_language_is_no_answer() -> None:
    assert code_block("python").apply("```sql\nselect 1\n```") == NoAnswer("no code block")


def test_an_empty_block_is_an_empty_answer() -> None:
    assert code_block().apply("```\n```") == ""


@pytest.mark.parametrize(
    ("output", "answer"),
    [
        (r"\boxed{42}", "42"),
        (r"first \boxed{1}, then \boxed{2}.", "2"),
        (r"$\boxed{\frac{1}{1+\frac{1}{2}}}$", r"\frac{1}{1+\frac{1}{2}}"),
        (r"\boxed{\{1, 2\}}", r"\{1, 2\}"),
        (r"\boxed {7}", "7"),
        (r"\fbox{7}", "7"),
        (r"$\boxed 5$", "5"),
        (r"\\boxed{8}", "8"),
        (r"\boxed{1} and \boxed{2", "1"),
        (r"} } \boxed{3} {", "3"),
        (r"\boxed{ }", NoAnswer(r"no \boxed{...}")),
        (r"\boxed{", NoAnswer(r"no \boxed{...}")),
        ("boxed{5}", NoAnswer(r"no \boxed{...}")),
    ],
)
def test_boxed_finds_the_last_closed_box(output: str, answer: object) -> None:
    assert boxed().apply(output) == answer


INNER = st.recursive(
    st.text("ab1 +\\", max_size=4).map(lambda text: text.replace("\\", "\\\\")),
    lambda inner: st.lists(inner, max_size=3).map(lambda parts: "{" + "".join(parts) + "}"),
    max_leaves=8,
)


@given(INNER, st.text("ab {}", max_size=10))
def test_any_balanced_braces_may_be_in_a_box(inner: str, before: str) -> None:
    answer = boxed().apply(before + "\\boxed{" + inner + "}")
    assert answer == (inner.strip() or NoAnswer(r"no \boxed{...}"))


@pytest.mark.parametrize(
    ("output", "answer"),
    [
        ("<think>hm\n</think>\n\nParis", "Paris"),
        ("yes", "yes"),
        ("<think>a</think>b<Thinking>c</THINKING>d", "bd"),
        ("<think>a<think>b</think>c</think>d", "d"),
        ("hm, so\n</think>Paris", "Paris"),
        ("Paris <think>but", "Paris"),
        ("<think>and so on", NoAnswer("nothing but reasoning")),
        ("<think></think>", NoAnswer("nothing but reasoning")),
        ("  ", NoAnswer("empty")),
        ({"a": "<think>"}, {"a": "<think>"}),
    ],
)
def test_reasoning_is_stripped(output: object, answer: object) -> None:
    assert strip_reasoning().apply(output) == answer


def test_tags_can_be_named() -> None:
    assert strip_reasoning(["plan"]).apply("<plan>a</plan><think>b</think>") == "<think>b</think>"


@pytest.mark.parametrize(
    "make",
    [
        lambda: code_block(""),
        lambda: code_block(which="second"),  # type: ignore[arg-type]
        lambda: strip_reasoning([]),
        lambda: strip_reasoning("think"),
        lambda: strip_reasoning([5]),  # type: ignore[list-item]
    ],
)
def test_wrong_options_are_refused(make: object) -> None:
    with pytest.raises(Invalid):
        make()  # type: ignore[operator]
