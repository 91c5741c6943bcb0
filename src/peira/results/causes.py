"""The causes of failures: one declared list, and which of them a recorded failure has.

A cause is read from what was recorded: the type of the exception, its message, the stage, and how the task
ended. So failures of earlier releases have one, too, and a corrected rule corrects all of them.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from peira.core.log.events import Failure, State


class FailureCause(NamedTuple):
    """A cause of failures: its name, what it means, and what can be done about it."""

    name: str
    about: str
    remedy: str


CAUSES = (
    FailureCause("key", "The provider refused the key, or has no money left for it.", "check the key"),
    FailureCause("model", "There is no such model, or no right to use it.", "check its name"),
    FailureCause("rate limit", "The provider answered too often that it is asked too often.", "set limits"),
    FailureCause("context length", "The prompt is longer than the model takes.", "shorten the prompt"),
    FailureCause("content filter", "The provider's filter stopped the prompt or the reply.", "look at it"),
    FailureCause("request", "The provider says that the request is wrong.", "see its message"),
    FailureCause("timeout", "There was no result within a time limit.", "raise policy.timeout, or retry"),
    FailureCause("connection", "The provider could not be reached, or broke off.", "run again"),
    FailureCause("provider", "The provider answered with an error of its own (5xx).", "run again"),
    FailureCause(
        "malformed answer", "An answer cannot be read, or does not fit its schema.", "raise retries"
    ),
    FailureCause("doubt", "A call may have been billed, and its answer is unknown.", "peira resolve"),
    FailureCause("tool", "A tool, or the server of one, failed.", "see its message"),
    FailureCause("command", "A command ended with an exit code other than 0.", "see its output"),
    FailureCause("output", "The output is too large, or is no JSON value.", "return less, or plain values"),
    FailureCause("agent code", "The agent's own code raised an exception.", "peira show --traces"),
    FailureCause("transform code", "A transform raised an exception.", "peira show --traces"),
    FailureCause("evaluator code", "An evaluator raised an exception.", "peira show --traces"),
    FailureCause("expected value", "An evaluator has nothing to compare with.", "give the case an expected"),
    FailureCause("people", "A person skipped the question, or nobody answered in time.", "ask again"),
    FailureCause("infrastructure", "A process, a disk or memory gave out.", "peira doctor"),
    FailureCause("limit", "A limit of the study or of the agent was reached.", "raise it"),
    FailureCause("cancelled", "Somebody cancelled it.", "run again"),
    FailureCause("earlier stage", "What it needed did not succeed.", "mend that first"),
    FailureCause("unknown", "No reason is recorded.", "peira events"),
)
"""Every cause, in the order in which they are listed."""
NAMES = frozenset(cause.name for cause in CAUSES)

_BY_STATE = {
    State.exhausted: "limit",
    State.cancelled: "cancelled",
    State.blocked: "earlier stage",
    State.in_doubt: "doubt",
}
_BY_STATUS = {
    **dict.fromkeys((401, 402), "key"),
    **dict.fromkeys((403, 404), "model"),
    **dict.fromkeys((408, 504), "timeout"),
    **dict.fromkeys((429, 529), "rate limit"),
    413: "context length",
}
_WORDS = tuple(
    (name, re.compile(pattern, re.IGNORECASE))
    for name, pattern in (
        ("context length", r"context.?(length|window)|maximum context|too many tokens|prompt is too long"),
        ("content filter", r"content.?(filter|policy|management)|safety (system|filter)|responsibleai"),
        ("key", r"api.?key|authenticat|unauthori[sz]ed|insufficient_quota|insufficient balance|billing"),
        ("rate limit", r"rate.?limit|too many requests|overloaded"),
        ("model", r"model.{0,40}(not.?found|does not exist)|no such model"),
    )
)
"""What messages of providers say, for whatever status; the first that is found counts."""
_TYPES = tuple(
    (name, re.compile(pattern))
    for name, pattern in (
        ("timeout", r"TimedOut|Silence|.*Timeout(Error|Exception)?|TimeoutExpired|Deadline.*"),
        ("connection", r"Unconnected|StreamBroken|.*Connect\w*(Error|Timeout)?|ClientOSError|gaierror"),
        ("rate limit", r"RateLimit\w*|TooManyRequests\w*"),
        ("key", r"Authentication\w*|Unauthorized\w*"),
        ("model", r"PermissionDenied\w*|ModelNotFound\w*|NotFoundError"),
        ("context length", r"Context(Window|Length)\w*"),
        ("content filter", r"Content(Policy|Filter)\w*"),
        ("provider", r"InternalServerError|ServiceUnavailable\w*|APIError"),
        ("request", r"BadRequestError|UnprocessableEntityError|UntranslatableRequest"),
        ("malformed answer", r"Unfit|BrokenJson|TruncatedJson|Undecodable|APIResponseValidationError"),
        ("doubt", r"InDoubt"),
        ("tool", r"Tool(Failed|Refused)|McpError"),
        ("command", r"CommandFailed|CalledProcessError"),
        ("output", r"TooLarge|NotJson"),
        ("people", r"Unanswered"),
        ("infrastructure", r"ProcessDied|StoreFault|StoreDamaged|MemoryError|LeaseLost|BlockingIOError"),
    )
)
"""Names of exceptions, of peira and of the usual clients; the first that matches the whole name counts."""
_CALLS = frozenset({"CallFailed", "ModelRefused"})
_STATUS = re.compile(r"(?:^|: )(\d{3})(?: \([^)]*\))?(?::|$)")
_UNREADABLE = re.compile(r"no JSON|cannot be read|unknown shape|no text in it|not UTF-8|unreadable")
_CODE = {"generate": "agent code", "transform": "transform code", "evaluate": "evaluator code"}


def cause_of(failure: Failure | None, stage: str, state: State) -> str:
    """The name of the cause, one of `CAUSES`, of a task of this stage that ended in this state."""
    if state in _BY_STATE:
        return _BY_STATE[state]
    if failure is None:
        return "unknown"
    if failure.type in _CALLS:
        return _cause_of_call(failure.message)
    if failure.type == "Invalid" and "expected value" in failure.message:
        return "expected value"
    if failure.type == "OSError" and "No space" in failure.message:
        return "infrastructure"
    return next(
        (name for name, type in _TYPES if type.fullmatch(failure.type)), _CODE.get(stage, "evaluator code")
    )


def _cause_of_call(message: str) -> str:
    """The cause of a call of a model that failed: by what its provider says, else by its status."""
    found = _STATUS.search(message)
    status = int(found[1]) if found else 0
    if not status and "sent, but no answer" in message:
        return "timeout" if "within" in message or "silen" in message else "connection"
    if not status and ("not sent" in message or "given up" in message):
        return "connection"
    if not status and _UNREADABLE.search(message):
        return "malformed answer"
    said = next((name for name, words in _WORDS if words.search(message)), "")
    if said or status in _BY_STATUS:
        return said or _BY_STATUS[status]
    return "provider" if status >= 500 or not status else "request"
