from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from peira.transforms import error_taxonomy
from peira.transforms.taxonomy import KINDS


@pytest.mark.parametrize(
    ("output", "kind"),
    [
        ("", "empty"),
        (" \n", "empty"),
        (None, "empty"),
        ([], "empty"),
        ("Traceback (most recent call last):\n  File", "error"),
        ("ValueError: no", "error"),
        ("Error: rate limit", "error"),
        ("429 Too Many Requests", "error"),
        ({"error": {"message": "overloaded"}}, "error"),
        ("I'm sorry, but I can\u2019t help with that.", "refusal"),
        ("As an AI language model, I cannot provide medical advice.", "refusal"),
        ("I must decline.", "refusal"),
        ("and so on " * 100, "repetitive"),
        ("0" * 1000, "repetitive"),
        ("So:\n```python\nx = 1\n", "truncated"),
        (" ".join(f"word{i}" for i in range(100)) + " and then the", "truncated"),
        ("Paris", "answer"),
        ("I can't find a prime below 2, so the answer is none.", "answer"),
        (" ".join(f"word{i}" for i in range(100)) + ".", "answer"),
        ("```python\nx = 1\n```", "answer"),
        ({"answer": 5}, "answer"),
        (0, "answer"),
        (False, "answer"),
    ],
)
def test_outputs_are_told_apart(output: object, kind: str) -> None:
    assert error_taxonomy().apply(output) == kind


@given(st.text())
def test_every_text_is_of_some_kind(text: str) -> None:
    assert error_taxonomy().apply(text) in KINDS
