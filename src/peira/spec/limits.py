"""How much may be done, how failures are met, and how results are kept."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field

from peira.errors import Invalid
from peira.spec.values import Duration, Value

MiB = 1024 * 1024


class Budget(Value):
    """What a run may use. A larger plan is refused before it starts, or reduced to a balanced subset."""

    trials: int | None = Field(default=None, ge=1)
    time: Duration | None = Field(default=None, gt=0)
    excess: Literal["refuse", "subset"] = "refuse"


def _failures(value: Any) -> int | float | None:
    if value is None or (type(value) is int and value >= 0) or (type(value) is float and 0 < value < 1):
        return value
    raise Invalid(f"must be a number of failures, or a share of the trials between 0 and 1, not {value!r}")


class Policy(Value):
    """How attempts are made, and when a run gives up.

    `backoff` is the wait before the first retry; it doubles up to `max_backoff`, and `jitter` shortens it at
    random. `max_failures` stops the run once more trials than that (or, below 1, a larger share of them) have
    failed. `interruptions` is how often a trial may be cut off by the death of its process before it fails.
    `in_doubt` is what becomes of a call that may have been billed and brought no answer: `resend` it (the
    resend is recorded first), or `hold` the trial. `call_tries` is how often a call is sent at the most.
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


class Storage(Value):
    """How results are kept: payloads above `inline` bytes go to blobs, compressed or not."""

    compression: Literal["zstd", "none"] = "zstd"
    inline: int = Field(default=2048, ge=0)
