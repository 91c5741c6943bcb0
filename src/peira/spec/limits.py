"""Limits and policies of runs: budgets, retries and failures, and how results are stored."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field

from peira.errors import Invalid
from peira.spec.values import Duration, Value, join, read_value

MiB = 1024 * 1024


class Allowance(Value):
    """What may be spent on models: US dollars, tokens as the providers count them, calls that are sent."""

    money: float | None = Field(default=None, gt=0, allow_inf_nan=False)
    tokens: int | None = Field(default=None, ge=1)
    calls: int | None = Field(default=None, ge=1)

    @property
    def bounded(self) -> bool:
        """Whether there is any limit."""
        return not (self.money is None and self.tokens is None and self.calls is None)


def _allowance(raw: Any) -> Allowance:
    """The allowance that a table stands for."""
    allowance: Allowance = read_value(Allowance, raw)
    return allowance


def _allowances(raw: Any) -> dict[str, Allowance]:
    """Allowances by model; Invalid holds every problem."""
    if not isinstance(raw, Mapping):
        raise Invalid(f"must be a table of models and what may be spent on each, not {raw!r}")
    problems, read = [], {}
    for name, given in raw.items():
        try:
            read[str(name)] = _allowance(given)
        except Invalid as error:
            problems += [join(f".{name}", problem) for problem in error.problems]
    if problems:
        raise Invalid(problems)
    return read


class Budget(Allowance):
    """What a study may use.

    A plan with more trials is refused before it starts, or reduced to a balanced subset; `time` is for one
    run. `money`, `tokens` and `calls` are for all runs of the study together, retries and judges included;
    `per_model` says it for single models, `per_trial` for each trial. Who reaches one stops as exhausted,
    and goes on when it is raised.
    """

    trials: int | None = Field(default=None, ge=1)
    time: Duration | None = Field(default=None, gt=0)
    excess: Literal["refuse", "subset"] = "refuse"
    per_model: Annotated[
        dict[str, Allowance],
        BeforeValidator(_allowances, json_schema_input_type=dict[str, Allowance]),
    ] = Field(default_factory=dict)
    per_trial: Annotated[Allowance, BeforeValidator(_allowance, json_schema_input_type=Allowance)] = Field(
        default_factory=Allowance
    )


def raised(budget: Budget, limits: Mapping[str, float]) -> Budget:
    """The budget with these limits raised; one that it does not have, or that is higher, stays."""
    now = {name: getattr(budget, name) for name in limits}
    more = {name: most for name, most in limits.items() if now[name] is not None and most > now[name]}
    return budget.model_copy(update={n: int(m) if n in ("tokens", "calls") else m for n, m in more.items()})


RAISABLE = ("money", "tokens", "calls", "time")
"""The limits of a budget that can be raised while a run is under way."""


def _failures(value: Any) -> int | float | None:
    """A number of failures, or a share of the trials."""
    if value is None or (type(value) is int and value >= 0) or (type(value) is float and 0 < value < 1):
        return value
    raise Invalid(f"must be a number of failures, or a share of the trials between 0 and 1, not {value!r}")


class Policy(Value):
    """How attempts are made, and when a run gives up.

    `backoff` is the wait before the first retry; it doubles up to `max_backoff`, and `jitter` shortens it at
    random. `fail_fast` stops the run at the first failure, `max_failures` once more trials than that (or,
    below 1, a larger share of them) have failed; what a limit or a person stopped did not fail.
    `interruptions` is how often a trial may be cut off by the death of its process before it fails.
    `in_doubt` is what becomes of a call that may have been billed and brought no answer: `resend` it (the
    resend is recorded first), or `hold` the trial. `call_tries` is how often a call is sent at the most.
    A retry replays the answers it has; with `redraw` it asks anew instead (counted as `redraws`: asking
    until it parses biases what is measured).
    """

    retries: int = Field(default=0, ge=0)
    backoff: Duration = Field(default=1.0, ge=0)
    max_backoff: Duration = Field(default=60.0, ge=0)
    jitter: bool = True
    timeout: Duration | None = Field(default=None, gt=0)
    fail_fast: bool = False
    max_failures: Annotated[Any, BeforeValidator(_failures, json_schema_input_type=int | float | None)] = None
    retry_failed: bool = True
    output_limit: int = Field(default=16 * MiB, ge=1)
    interruptions: int = Field(default=3, ge=1)
    in_doubt: Literal["resend", "hold"] = "resend"
    call_tries: int = Field(default=6, ge=1)
    redraw: bool = False


SIZE = re.compile(r"\s*(\d+(?:\.\d+)?)\s*([kmgt]?)(i?)b?\s*", re.IGNORECASE)


def byte_count(value: Any) -> int | None:
    """A number of bytes, read from 1000000, "500MB", "2 GiB"; Invalid if it is not one."""
    if value is None or (type(value) is int and value >= 0):
        return value
    found = SIZE.fullmatch(value) if isinstance(value, str) else None
    if not found:
        raise Invalid(f"{value!r} is not a size; write bytes, or 500MB, 2GB, 1.5GiB")
    unit = 1024 if found[3] else 1000
    return int(float(found[1]) * unit ** " kmgt".index(found[2].lower() or " "))


class Keep(Value):
    """Which runs are kept when a store is cleaned up; the others are deleted (`peira gc`).

    Runs that are older than `age` are deleted, those of each study beyond its newest `count`, and the oldest
    ones until the store has about `size` bytes; of one `study`, or of all. Runs with a name are always kept.
    With `after_runs` this is done after every run.
    """

    age: Duration | None = Field(default=None, ge=0)
    count: int | None = Field(default=None, ge=0)
    size: Annotated[int | None, BeforeValidator(byte_count, json_schema_input_type=int | str)] = None
    study: str = ""
    after_runs: bool = False

    @property
    def bounded(self) -> bool:
        """Whether it deletes anything."""
        return not (self.age is None and self.count is None and self.size is None)


class Storage(Value):
    """How results are kept, in the tables and in files alike.

    Values above `inline` bytes are payloads of their own, compressed or not. With `responses` "drop", raw
    answers of models are removed when their run ends; with `payloads` "digest", so are requests, outputs,
    steps and attachments: of each its digest is left. Until then they are kept, so that a run that is killed
    pays for nothing twice; of trials that did not succeed they stay. `tables` says whether the store is told
    what its trials are about, for other programs.
    """

    compression: Literal["zstd", "none"] = "zstd"
    inline: int = Field(default=2048, ge=0)
    responses: Literal["keep", "drop"] = "keep"
    payloads: Literal["keep", "digest"] = "keep"
    tables: bool = True

    @property
    def keeps_all(self) -> bool:
        """Whether nothing is removed."""
        return self.responses == "keep" and self.payloads == "keep"
