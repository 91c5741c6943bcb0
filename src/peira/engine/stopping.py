"""Why a run stops before its work is done, and what that makes of it."""

from __future__ import annotations

from dataclasses import dataclass

from peira.core.events import Status
from peira.errors import Abandoned, Exhausted
from peira.spec.limits import Policy


@dataclass(frozen=True)
class Stop:
    """A request to stop. `now` also ends what is running; otherwise that may finish."""

    status: Status
    reason: str
    now: bool = False
    exit_code: int = 1

    @property
    def signal(self) -> Abandoned:
        """What ends an attempt that is under way."""
        return (Exhausted if self.status is Status.stopped else Abandoned)(self.reason)

    @staticmethod
    def interrupted(now: bool = False) -> Stop:
        return Stop(Status.interrupted, "interrupted", now, exit_code=130)

    @staticmethod
    def cancelled(by: str) -> Stop:
        return Stop(Status.cancelled, f"cancelled by {by}", now=True)

    @staticmethod
    def failing(reason: str) -> Stop:
        return Stop(Status.stopped, reason)

    @staticmethod
    def limit(reason: str, now: bool = False) -> Stop:
        return Stop(Status.stopped, reason, now, exit_code=3)


def most_failures(policy: Policy, planned: int | None) -> int | None:
    """How many failures the policy bears: a count, or a share of what is planned."""
    most: int | float | None = policy.max_failures
    if isinstance(most, float):
        return None if planned is None else int(most * planned)
    return most
