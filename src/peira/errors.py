"""Every error peira raises, on one page.

    PeiraError
    ├── Invalid (ValueError)        bad input: every problem at once            exit 2
    │   └── NotJson (TypeError)     a value that canonical JSON cannot carry
    ├── Unknown (LookupError)       no such run, trial, plug-in, name           exit 2
    ├── OverBudget                  the plan is larger than its budget          exit 3
    ├── StoreInUse                  another process owns the store              exit 4
    ├── StoreFault (OSError)        the disk refused a write or a sync          exit 1
    ├── StoreDamaged                the store contradicts itself                exit 1
    ├── Fenced                      a change by an attempt that lost its epoch
    ├── AttemptFailed               why an attempt failed
    │   ├── TimedOut (TimeoutError)
    │   ├── TooLarge                an output over the size limit
    │   ├── ProcessDied             the process running it ended
    │   └── InDoubt                 a call may have been billed and its answer is unknown
    └── NotInTrial                  ask, step, current_trial outside an agent

Two signals are not errors, and user code must not catch them by accident, so they derive from
BaseException: `Abandoned` (this attempt may do nothing more; `Exhausted` if a limit is why, `Parked` if it
will be made again after a wait) and `Loading` (a `run` reached while a file is only being loaded).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator


def carried(text: str) -> str:
    """Text that UTF-8 can carry."""
    return text.encode("utf-8", "backslashreplace").decode()


def message_of(problem: BaseException) -> str:
    """What an exception says, whatever it is: some cannot even say that."""
    try:
        return carried(str(problem))
    except Exception:
        return "(its message could not be read)"


class PeiraError(Exception):
    """The base of all peira errors; `exit_code` is what the command line answers."""

    exit_code = 1


class Invalid(PeiraError, ValueError):
    """Bad input. `problems` holds one line for each, so that all can be mended at once."""

    exit_code = 2

    def __init__(self, problems: str | Iterable[str]) -> None:
        self.problems = (problems,) if isinstance(problems, str) else tuple(problems)
        super().__init__("\n".join(self.problems))


class NotJson(Invalid, TypeError):
    """A value that canonical JSON cannot carry, with the path to it."""


class Unknown(PeiraError, LookupError):
    exit_code = 2


class OverBudget(PeiraError):
    exit_code = 3


class StoreInUse(PeiraError):
    exit_code = 4


class StoreFault(PeiraError, OSError):
    """A commit or a sync failed: nothing more is written, what was acknowledged stands."""


class StoreDamaged(PeiraError):
    pass


class Fenced(PeiraError):
    pass


class AttemptFailed(PeiraError):
    pass


class TimedOut(AttemptFailed, TimeoutError):
    pass


class TooLarge(AttemptFailed):
    pass


class ProcessDied(AttemptFailed):
    pass


class InDoubt(AttemptFailed):
    pass


class NotInTrial(PeiraError, RuntimeError):
    pass


class Abandoned(BaseException):
    """This attempt was cancelled or timed out: its channel is closed."""


class Exhausted(Abandoned):
    """This attempt was ended by a limit."""


class Parked(Abandoned):
    """This attempt would have to wait so many seconds: its worker is freed, and it is made again then. `inf`
    is until what it waits for is there."""

    def __init__(self, seconds: float, why: str) -> None:
        super().__init__(why)
        self.seconds = seconds


class Loading(BaseException):
    """`run` and its kin stop the loading of a file at the place where they stand."""


def unwrapped(problem: BaseException | None) -> BaseException | None:
    """The signal in a group of nothing but signals, as a TaskGroup makes them; else the problem itself."""
    if not isinstance(problem, BaseExceptionGroup):
        return problem
    signals, others = problem.split(Abandoned)
    if signals is None or others is not None:
        return problem
    return min(_leaves(signals), key=lambda one: (isinstance(one, Parked), getattr(one, "seconds", 0.0)))


def _leaves(group: BaseExceptionGroup[BaseException]) -> Iterator[BaseException]:
    for one in group.exceptions:
        if isinstance(one, BaseExceptionGroup):
            yield from _leaves(one)
        else:
            yield one
