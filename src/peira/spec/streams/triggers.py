"""Triggers: what creates jobs of a stream besides submissions: timers, webhooks, and the ends of other jobs.

A trigger says when it fires and with which input; it does nothing by itself. Timers are pure: `due` lists the
moments between two others, so that a host that was away finds the ones it missed.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from functools import cached_property
from itertools import takewhile
from typing import Annotated, Any, Literal
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from pydantic import AfterValidator, Field

from peira.core.expressions import Expression
from peira.errors import ExpressionError, Invalid
from peira.spec.values import Duration, Name, Plain, Value, read_value

Missed = Literal["one", "all", "skip"]
"""What a timer does about moments at which no host was there: one job for all of them, one each, or none."""
MOST_MISSED = 10_000
"""The most moments that are made up for; older ones are left out."""
SHORTEST = 0.1
"""Seconds: the shortest interval of a timer."""


def _cron(text: str) -> str:
    """The expression, if it is one with five (or, with seconds, six) fields."""
    from cronsim import CronSim, CronSimError

    try:
        CronSim(text, datetime(2000, 1, 1, tzinfo=UTC))
    except CronSimError as error:
        raise Invalid(
            f": {text!r} is not a cron expression ({error}); write five fields, as '0 9 * * 1-5'"
        ) from None
    return text


def _zone(name: str) -> str:
    """The name of a time zone, if there is one."""
    try:
        ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise Invalid(f": {name!r} is not a time zone; write UTC, or a place as Europe/Berlin") from None
    return name


def _condition(text: str) -> str:
    """The expression, if it can be read and names only what an ended job has."""
    try:
        names = Expression(text).names if text else ()
    except ExpressionError as error:
        raise Invalid(f": {error}") from None
    wrong = sorted(name for name in names if name.partition(".")[0] not in ENDED)
    if wrong:
        raise Invalid(f": {wrong[0]!r} is not known; an ended job has {', '.join(ENDED)}")
    return text


ENDED = ("input", "output", "state", "key", "session", "group", "factors")
"""What the condition of an `After` may name, of the job that ended."""


class Every(Value):
    """A timer with a fixed interval: at all multiples of it since 1970, so that restarts change nothing."""

    every: Duration = Field(ge=SHORTEST)
    input: Plain = None
    missed: Missed = "one"
    name: str = ""

    @property
    def label(self) -> str:
        """The trigger's name."""
        return self.name or f"every-{self.every:g}s"

    def due(self, after: float, until: float) -> Iterator[float]:
        """The moments after the first time and up to the second, in order, in seconds since the epoch."""
        n = int(after // self.every) + 1
        while (moment := n * self.every) <= until:
            if moment > after:
                yield moment
            n += 1

    def upcoming(self, after: float) -> float:
        """The next moment."""
        return next(self.due(after, after + 2 * self.every))


class Cron(Value):
    """A timer at the moments of a cron expression in a time zone."""

    cron: Annotated[str, AfterValidator(_cron)]
    zone: Annotated[str, AfterValidator(_zone)] = "UTC"
    input: Plain = None
    missed: Missed = "one"
    name: str = ""

    @property
    def label(self) -> str:
        """The trigger's name."""
        return self.name or f"cron-{self.cron}".replace(" ", "_").replace("/", "%")

    def due(self, after: float, until: float) -> Iterator[float]:
        """The moments after the first time and up to the second, in order, in seconds since the epoch."""
        return takewhile(lambda moment: moment <= until, self._moments(after))

    def upcoming(self, after: float) -> float:
        """The next moment."""
        return next(self._moments(after))

    def _moments(self, after: float) -> Iterator[float]:
        from cronsim import CronSim

        begin = datetime.fromtimestamp(after, ZoneInfo(self.zone))
        for found in CronSim(self.cron, begin):
            # In the hour that comes twice, a moment of its first time is found in its second one, too.
            if (moment := found.timestamp()) > after:
                yield moment


class After(Value):
    """The end of a job of another stream; `where` selects which, and `input` says what the new job gets.

    It fires for jobs that succeeded, unless the condition names their `state`.
    """

    after: Name
    where: Annotated[str, AfterValidator(_condition)] = ""
    input: Literal["output", "input"] = "output"
    name: str = ""

    @property
    def label(self) -> str:
        """The trigger's name."""
        return self.name or f"after-{self.after}"

    @cached_property
    def _expression(self) -> Expression | None:
        return Expression(self.where) if self.where else None

    def fires(self, job: Mapping[str, Any]) -> bool:
        """Whether it fires for an ended job, given what `ENDED` names of it.

        A condition that cannot be evaluated for this job does not hold.
        """
        expression = self._expression
        if job["state"] != "succeeded" and (expression is None or "state" not in expression.names):
            return False
        if expression is None:
            return True
        try:
            return expression.evaluate({name: looked_up(job, name) for name in expression.names})
        except ExpressionError:
            return False


def _variable(name: str) -> str:
    """The name of an environment variable."""
    if not VARIABLE.fullmatch(name):
        raise Invalid(f": {name!r} is not the name of an environment variable, which holds the secret")
    return name


VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


class Webhook(Value):
    """A job for every signed request to /hooks/STREAM/NAME; its input is the request's JSON.

    The secret is the value of the environment variable that `webhook` names; only who knows it can sign.
    """

    webhook: Annotated[str, AfterValidator(_variable)]
    name: str = "webhook"

    @property
    def label(self) -> str:
        """The trigger's name: the last part of the address."""
        return self.name


Timer = Every | Cron
Trigger = Every | Cron | After | Webhook
KINDS: Mapping[str, type[Value]] = {"every": Every, "cron": Cron, "after": After, "webhook": Webhook}
"""The key that only one kind of trigger has, and that kind."""


def looked_up(values: Mapping[str, Any], name: str) -> Any:
    """The value of a dotted name in nested tables; None where there is nothing."""
    found: Any = values
    for part in name.split("."):
        found = found.get(part) if isinstance(found, Mapping) else None
    return found


def last_moments(timer: Timer, after: float, until: float, most: int) -> list[float]:
    """The last `most` moments of a timer after the first time and up to the second, in order."""
    span = most * (timer.every if isinstance(timer, Every) else 1.0)
    while True:  # a longer part of the time is looked at until there are enough
        begin = max(after, until - span)
        found = deque(timer.due(begin, until), maxlen=most)
        if len(found) == most or begin <= after:
            return list(found)
        span *= 4


def made_up_for(timer: Timer, after: float, until: float) -> list[float]:
    """The missed moments between two others for which a timer still fires, by its option `missed`."""
    if timer.missed == "skip":
        return []
    return last_moments(timer, after, until, 1 if timer.missed == "one" else MOST_MISSED)


def read_trigger(raw: object) -> Trigger:
    """A trigger, or one made from a table; the problems of Invalid are continuations."""
    if isinstance(raw, (Every, Cron, After, Webhook)):
        return raw
    if not isinstance(raw, Mapping):
        raise Invalid(f": must be a trigger or a table with one of {', '.join(KINDS)}, not {raw!r}")
    if "secret" in raw and "webhook" not in raw:  # as the function calls it
        raw = {"webhook": raw["secret"], **{key: value for key, value in raw.items() if key != "secret"}}
    kinds = [kind for key, kind in KINDS.items() if key in raw]
    if len(kinds) != 1:
        raise Invalid(f": needs exactly one of {', '.join(KINDS)}")
    found: Trigger = read_value(kinds[0], raw)
    return found


def label_of(trigger: Trigger) -> str:
    """The name of a trigger, unique in its stream."""
    return trigger.label


def every(interval: float | str, *, input: Any = None, missed: Missed = "one", name: str = "") -> Every:
    """A job at fixed intervals ("1h"); `missed` says what happens after the host was away."""
    fields: dict[str, Any] = {"every": interval, "input": input, "missed": missed, "name": name}
    return Every(**fields)


def cron(text: str, *, zone: str = "UTC", input: Any = None, missed: Missed = "one", name: str = "") -> Cron:
    """A job at the moments of a cron expression ("0 9 * * 1-5") in a time zone."""
    return Cron(cron=text, zone=zone, input=input, missed=missed, name=name)


def after(
    stream: str, *, where: str = "", input: Literal["output", "input"] = "output", name: str = ""
) -> After:
    """A job for every job of another stream that ended so that `where` holds ("output.urgent")."""
    return After(after=stream, where=where, input=input, name=name)


def webhook(secret: str, *, name: str = "webhook") -> Webhook:
    """A job for every request to /hooks/STREAM/NAME that is signed with the secret in this variable."""
    return Webhook(webhook=secret, name=name)
