"""Functions as tools: schema from signature and docstring, strict arguments."""

from __future__ import annotations

from functools import partial
from typing import Any, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from peira.core.chat.tools import function_tool, tool_schema
from peira.errors import Invalid, ToolRefused


def search(
    query: str, most: int = 5, kind: Literal["web", "files"] = "web", tags: list[str] | None = None
) -> str:
    """Search for something.

    Over two paragraphs.

    Args:
        query: What to look for,
            in words.
        most (int): How many.

    Returns:
        What was found.
    """
    return f"{query} {most} {kind} {tags}"


def test_the_schema_is_that_of_the_signature_and_docstring() -> None:
    assert tool_schema(search) == {
        "name": "search",
        "description": "Search for something.\n\nOver two paragraphs.",
        "parameters": {
            "type": "object",
            "additionalProperties": False,
            "required": ["query"],
            "properties": {
                "query": {"type": "string", "description": "What to look for, in words."},
                "most": {"type": "integer", "default": 5, "description": "How many."},
                "kind": {"type": "string", "enum": ["web", "files"], "default": "web"},
                "tags": {
                    "anyOf": [{"type": "array", "items": {"type": "string"}}, {"type": "null"}],
                    "default": None,
                },
            },
        },
    }


def test_sphinx_docstrings_are_read_too() -> None:
    def f(a: int, model_config: str, json: bool = True) -> None:
        """Do it.

        :param a: the first
        :param model_config: the second
        :returns: nothing
        """

    found = tool_schema(f)
    assert found["description"] == "Do it."
    assert found["parameters"]["properties"]["model_config"] == {
        "type": "string",
        "description": "the second",
    }
    assert function_tool(f).checked({"a": 1, "model_config": "x"}) == {"a": 1, "model_config": "x"}


def test_every_wrong_argument_is_told_at_once() -> None:
    with pytest.raises(ToolRefused) as refused:
        function_tool(search).call({"most": "5", "kind": "mail", "more": 1})
    said = str(refused.value)
    assert all(part in said for part in ("search:", "query: Field required", "most:", "kind:", "more: Extra"))


@pytest.mark.parametrize("wrong", [None, "query", ["query"], 3])
def test_arguments_are_an_object(wrong: Any) -> None:
    with pytest.raises(ToolRefused, match="must be a JSON object"):
        function_tool(search).call(wrong)


VALUES = (
    st.none()
    | st.booleans()
    | st.integers(-9, 9)
    | st.text(max_size=3)
    | st.lists(st.text(max_size=2), max_size=2)
)


@given(st.dictionaries(st.sampled_from(["query", "most", "kind", "tags", "more"]), VALUES))
def test_what_is_refused_is_what_the_schema_forbids(arguments: dict[str, Any]) -> None:
    tool = function_tool(search)
    allowed = Draft202012Validator(tool.parameters).is_valid(arguments)
    try:
        assert tool.call(arguments)
        accepted = True
    except ToolRefused:
        accepted = False
    assert accepted == allowed


def test_only_what_was_given_is_passed() -> None:
    assert function_tool(search).call({"query": "x"}) == "x 5 web None"
    assert function_tool(partial(search, most=2), "two").call({"query": "x"}) == "x 2 web None"


def _any(*args: int) -> None: ...


@pytest.mark.parametrize(("fn", "why"), [(_any, "'args' cannot be described"), (3, "a tool is a function")])
def test_what_is_no_tool_is_refused_when_it_is_declared(fn: Any, why: str) -> None:
    with pytest.raises(Invalid, match=why):
        function_tool(fn)


def test_the_identity_has_the_code() -> None:
    def one(a: int) -> int:
        """Add."""
        return a + 1

    first = function_tool(one).identity

    def one(a: int) -> int:  # type: ignore[no-redef]
        """Add."""
        return a + 2

    assert function_tool(one).identity != first
