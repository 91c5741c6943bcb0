"""Every exception class of peira, and the helpers that read exceptions.

    PeiraError
    ├── Invalid (ValueError)        bad input: every problem at once            exit 2
    │   ├── NotJson (TypeError)     a value that canonical JSON cannot represent
    │   ├── RefusedPlan             a work plan that is not sound
    │   └── MergeConflict           files that have changed since a work plan began
    ├── Unknown (LookupError)       no such run, trial, plug-in, name           exit 2
    │   └── NotKept                 a payload that the store was told not to keep
    ├── OverBudget                  the plan is larger than its budget          exit 3
    ├── StoreInUse                  another process owns the store              exit 4
    ├── StoreFault (OSError)        the disk refused a write or a sync          exit 1
    ├── StoreDamaged                the store contradicts itself                exit 1
    ├── Fenced                      a change by an attempt that lost its epoch
    │   ├── Unwritable              an event that could not be read again
    │   ├── LeaseLost               the lease of this process on its part of a run has ended
    │   └── NotGranted              a pool of a shared budget has less than is needed of it
    ├── AttemptFailed               why an attempt failed
    │   ├── TimedOut (TimeoutError)
    │   ├── TooLarge                an output over the size limit
    │   ├── ProcessDied             the process running it ended
    │   ├── CommandFailed           a command ended with another exit code than 0, or exceeded a limit
    │   ├── ToolFailed              the server of a tool cannot be used
    │   ├── InDoubt                 a call may have been billed and its answer is unknown
    │   ├── Unanswered              nobody answered a question in time, or it was skipped
    │   └── PermanentFailure (Invalid)  a failure in a child process that a retry would only repeat
    ├── CallFailed                  a request to a model that got no answer
    │   ├── Unfit                   no answer matches the schema of the request
    │   └── ModelRefused            not sent: the provider refuses this key or this model
    ├── JobFailed                   a job of a stream ended without an output
    └── NotInTrial (RuntimeError)   ask, step, current_trial outside an agent

Internal exceptions, which their callers catch and turn into one of the above, a verdict or a fallback:

    ExpressionError (ValueError)    an expression that is not allowed, or cannot be evaluated
    NotPlain (TypeError)            a value that is not a constant, found while fingerprinting code
    BrokenJson (ValueError)         text that is not JSON and cannot be repaired
    └── TruncatedJson               text that ended within a JSON value
    ToolRefused (ValueError)        a tool call whose arguments do not fit, or that nobody approved
    Undecided                       a part of a combined evaluator came to no verdict
    Unconnected                     no connection before the timeout: nothing was sent
    ReadTimeout (TimeoutError)      nothing was received on a connection before the timeout
    Undecodable                     an answer whose content encoding is broken
    UntranslatableRequest (ValueError)  a program's request that has no meaning in another API
    StreamBroken                    a stream that reported a failure, or ended early
    StaleRows                       rows that were read have changed meanwhile: nothing was written
    InsufficientPool                a pool has less than a group of changes needs: nothing was written

Two signals are not errors, and user code must not catch them by accident, so they derive from BaseException:
`Abandoned` (this attempt must stop; `Exhausted` if a limit is the reason, `Parked` if it is retried after a
wait, `Waiting` if its task waits for people or other tasks) and `Loading` (`run` was called while a file is
only being loaded).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

_WINDOW = 60
"""How many characters are shown on either side of the one at fault."""


def carried(text: str) -> str:
    """Text that UTF-8 can encode: lone surrogates are replaced by backslash escapes."""
    return text.encode("utf-8", "backslashreplace").decode()


def message_of(problem: BaseException) -> str:
    """The message of an exception, as valid UTF-8; a fixed text if its `__str__` raises."""
    try:
        return carried(str(problem))
    except Exception:
        return "(its message could not be read)"


class PeiraError(Exception):
    """The base class of peira's errors; `exit_code` is the exit status of the command line."""

    exit_code = 1


class Invalid(PeiraError, ValueError):
    """Bad input; `problems` lists every problem, one line each, so that all can be fixed at once."""

    exit_code = 2

    def __init__(self, problems: str | Iterable[str]) -> None:
        self.problems = (problems,) if isinstance(problems, str) else tuple(problems)
        super().__init__("\n".join(self.problems))


class NotJson(Invalid, TypeError):
    """A value that canonical JSON cannot represent; the message starts with the path to it."""


class RefusedPlan(Invalid):
    """A work plan that could be read and is not sound; `name` is what it is called."""

    name = "work"


class MergeConflict(Invalid):
    """Files that are not as they were when a work plan began; one line for each."""


class Unknown(PeiraError, LookupError):
    """There is no such run, trial, plug-in, blob or name."""

    exit_code = 2


class NotKept(Unknown):
    """The content was recorded by its digest only (`storage` in peira.toml or in the study)."""


class OverBudget(PeiraError):
    """The plan is larger than its budget; nothing was started."""

    exit_code = 3


class StoreInUse(PeiraError):
    """Another process owns the store for writing."""

    exit_code = 4


class StoreFault(PeiraError, OSError):
    """A commit or a sync failed: the store takes no further writes, and acknowledged ones stay durable."""


class StoreDamaged(PeiraError):
    """The contents of the store contradict each other, or its files cannot be read."""


class Fenced(PeiraError):
    """A change was refused because it contradicts the current state.

    Usually it is a change by an attempt that no longer holds the task's current epoch.
    """


class Unwritable(Fenced):
    pass


class LeaseLost(Fenced):
    """The lease of this process has run out; others have taken over what it had."""


class NotGranted(Fenced):
    """A pool of a shared budget has less than an op needs of it."""


class AttemptFailed(PeiraError):
    """The base class of the reasons why an attempt failed."""


class TimedOut(AttemptFailed, TimeoutError):
    """The attempt, or a search in a text, took longer than its time limit."""


class TooLarge(AttemptFailed):
    """The output of the attempt is over the size limit."""


class ProcessDied(AttemptFailed):
    """The process that was executing the attempt ended before it gave a result."""


class CommandFailed(AttemptFailed):
    """A command ended with an exit code other than 0, exceeded a limit, or printed what cannot be parsed."""


class ToolFailed(AttemptFailed):
    """The server of a tool did not start, or has ended: not the doing of the model that called it."""


class InDoubt(AttemptFailed):
    """A call may have been billed and its answer is unknown, so it must not be repeated silently."""


class Unanswered(AttemptFailed):
    """Nobody answered a question: its deadline passed, or somebody skipped it."""


class PermanentFailure(AttemptFailed, Invalid):
    """A failure in a child process that a retry would only repeat."""

    def __init__(self, message: str) -> None:
        Invalid.__init__(self, message)


class CallFailed(PeiraError):
    """A request to a model that got no answer.

    `doubt`: it may have been billed. `free`: it was not billed and may be retried (after `retry_after`
    seconds, if the provider gave a time). Neither: a retry will not help. `busy`: the provider is overloaded
    or rate limiting, so lower concurrency will help. `status` is the HTTP status, 0 if there was none.
    `call` is the key of the call in the ledger, "" if it was not recorded.
    """

    call = ""

    def __init__(
        self,
        message: str,
        *,
        free: bool = False,
        doubt: bool = False,
        retry_after: float | None = None,
        status: int = 0,
        busy: bool = False,
    ) -> None:
        super().__init__(message)
        self.free, self.doubt, self.retry_after, self.status = free, doubt, retry_after, status
        self.busy = busy


class Unfit(CallFailed):
    """A model answered, and none of its answers matches the schema of the request."""


class ModelRefused(CallFailed):
    """Not sent: the provider has refused this key or this model several times in a row."""


class JobFailed(PeiraError):
    """A job of a stream ended without an output; `job` is its id, `state` says how it ended."""

    def __init__(self, job: str, state: str, why: str) -> None:
        super().__init__(f"job {job[:12]} {state}{f': {why}' if why else ''}")
        self.job, self.state = job, state


class NotInTrial(PeiraError, RuntimeError):
    """`ask`, `step` or `current_trial` was called outside an agent or evaluator that peira runs."""


class ExpressionError(ValueError):
    """A text that is not an allowed expression, or cannot be evaluated on the given values.

    `reason` is one line; the message adds the text with a caret under `offset`, the character at fault.
    """

    def __init__(self, reason: str, text: str, offset: int = 0) -> None:
        super().__init__(reason, text, offset)
        self.reason, self.text, self.offset = reason, text, offset

    def __str__(self) -> str:
        start = self.text.rfind("\n", 0, self.offset) + 1
        line = self.text[start:].split("\n", 1)[0]
        column = self.offset - start
        left = max(0, column - _WINDOW)
        shown = "".join(c if c.isprintable() else "\ufffd" for c in line[left : column + _WINDOW])
        return f"{self.reason}\n  {shown}\n  {' ' * (column - left)}^"


class NotPlain(TypeError):
    """The value is not a constant, or contains something that is not."""


class BrokenJson(ValueError):
    """The text is not JSON and cannot be repaired."""


class TruncatedJson(BrokenJson):
    """The text ended within a JSON value."""


class ToolRefused(ValueError):
    """A tool call that was not executed: its arguments do not fit the tool, or a person refused it.

    The model gets the message as the result of its call.
    """


class Undecided(Exception):
    """A part of a combined evaluator came to no verdict; `reason` says why."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class Unconnected(Exception):
    """No connection was made before the timeout: nothing was sent."""


class ReadTimeout(TimeoutError):
    """Nothing was received before the timeout."""


class Undecodable(Exception):
    """The body of an answer is not in the encoding that its header names; `raw` is the body as it came."""

    def __init__(self, raw: bytes) -> None:
        super().__init__()
        self.raw = raw


class UntranslatableRequest(ValueError):
    """A program's request to a model that has no known shape, or says what another API cannot say."""


class StreamBroken(Exception):
    """A stream reported a failure, or ended before its final event."""


class StaleRows(Exception):
    """Rows from which a group was folded have changed meanwhile; nothing was written."""


class InsufficientPool(Exception):
    """A pool has less than the ops of a group need of it; nothing was written."""


class Abandoned(BaseException):
    """This attempt was cancelled or timed out, and its channel is closed; it must stop."""


class Exhausted(Abandoned):
    """This attempt was stopped because a limit (a budget) was reached."""


class Parked(Abandoned):
    """This attempt would have to wait: its worker is freed, and the attempt is made again later.

    `seconds` is how long to wait; infinity means until the result that it waits for is available.
    """

    def __init__(self, seconds: float, why: str) -> None:
        super().__init__(why)
        self.seconds = seconds


class Waiting(Abandoned):
    """This attempt ends because its task waits for people or other tasks; it is made again afterwards."""


class Loading(BaseException):
    """Raised by `run` and the like to stop the loading of a file at their call."""


def unwrapped(problem: BaseException | None) -> BaseException | None:
    """The signal inside an exception group that holds only signals; otherwise the exception itself.

    A TaskGroup wraps what its tasks raise. Of several signals, one that is neither `Parked` nor `Waiting`
    comes first, then the shortest wait.
    """
    if not isinstance(problem, BaseExceptionGroup):
        return problem
    signals, others = problem.split(Abandoned)
    if signals is None or others is not None:
        return problem
    return min(
        _leaves(signals), key=lambda one: (isinstance(one, (Parked, Waiting)), getattr(one, "seconds", 0.0))
    )


def _leaves(group: BaseExceptionGroup[BaseException]) -> Iterator[BaseException]:
    """The exceptions of a group and of the groups nested in it."""
    for one in group.exceptions:
        if isinstance(one, BaseExceptionGroup):
            yield from _leaves(one)
        else:
            yield one
