"""Every failure has one of the declared causes, whatever raised it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from peira.core.log.events import Failure, State
from peira.results.causes import CAUSES, NAMES, cause_of

CALLS = {
    "/v1/chat/completions: 401: Incorrect API key provided (invalid_api_key)": "key",
    "m refuses its calls (4 in a row): /v1/x: 401: Incorrect API key provided": "key",
    "/v1/x: 429: You exceeded your current quota (insufficient_quota)": "key",
    "/v1/x: 404: The model `gpt-9` does not exist": "model",
    "/v1/x: 429: slow down": "rate limit",
    "/v1/x: 529: Overloaded": "rate limit",
    "m does not answer and was given up: /v1/x: 429: slow down": "rate limit",
    "/v1/x: 400: This model's maximum context length is 8192 tokens": "context length",
    "/v1/x: 400: prompt is too long: 210000 tokens > 200000 maximum": "context length",
    "/v1/x: 400: The response was filtered (content_filter)": "content filter",
    "/v1/x: 422: temperature must be below 2": "request",
    "/v1/x: 405 (is the base URL right?)": "request",
    "/v1/x: 500: internal error": "provider",
    "/v1/x: 504: gateway": "timeout",
    "/v1/x: sent, but no answer: silent for 600 s": "timeout",
    "/v1/x: sent, but no answer: the connection was closed": "connection",
    "/v1/x: not sent: connection refused": "connection",
    '/v1/x: an answer that is no JSON: {"choices": [ (sent 3 times; ...)': "malformed answer",
    "m: its answer is recorded, and cannot be read: TypeError: no": "malformed answer",
}


@pytest.mark.parametrize(("message", "cause"), CALLS.items())
def test_calls_of_models(message: str, cause: str) -> None:
    assert cause_of(Failure("CallFailed", message), "generate", State.failed) == cause


@pytest.mark.parametrize(
    ("type", "stage", "cause"),
    [
        ("ValueError", "generate", "agent code"),
        ("KeyError", "transform", "transform code"),
        ("KeyError", "evaluate", "evaluator code"),
        ("TimedOut", "generate", "timeout"),
        ("ReadTimeout", "generate", "timeout"),
        ("ConnectionResetError", "generate", "connection"),
        ("RateLimitError", "generate", "rate limit"),
        ("AuthenticationError", "generate", "key"),
        ("ContextWindowExceededError", "generate", "context length"),
        ("ToolFailed", "generate", "tool"),
        ("CommandFailed", "generate", "command"),
        ("NotJson", "generate", "output"),
        ("ProcessDied", "generate", "infrastructure"),
        ("Unanswered", "evaluate", "people"),
        ("Unfit", "generate", "malformed answer"),
    ],
)
def test_exceptions_by_their_type(type: str, stage: str, cause: str) -> None:
    assert cause_of(Failure(type, "why"), stage, State.failed) == cause


def test_what_did_not_fail_has_the_cause_of_its_end() -> None:
    ends = {State.exhausted: "limit", State.cancelled: "cancelled", State.in_doubt: "doubt"}
    for state, cause in ends.items():
        assert cause_of(Failure("CallFailed", "/v1: 500: x"), "generate", state) == cause
    assert cause_of(None, "generate", State.failed) == "unknown"
    missing = Failure("Invalid", "match needs an expected value; this case has none")
    assert cause_of(missing, "evaluate", State.failed) == "expected value"


@given(
    st.text(),
    st.text(),
    st.sampled_from(["generate", "transform", "evaluate"]),
    st.sampled_from([State.failed, State.exhausted, State.cancelled, State.blocked, State.in_doubt]),
    st.booleans(),
)
def test_whatever_was_recorded_has_a_declared_cause(
    type: str, message: str, stage: str, state: State, call: bool
) -> None:
    found = cause_of(Failure("CallFailed" if call else type, message), stage, state)
    assert found in NAMES


def test_the_list_names_each_once_and_says_what_to_do() -> None:
    assert len(NAMES) == len(CAUSES)
    assert all(cause.about.endswith(".") and cause.remedy for cause in CAUSES)
