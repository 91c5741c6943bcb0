"""Failpoints: named places in the code where a test may kill the process.

`PEIRA_FAILPOINT=store.after_commit:3` kills the process with SIGKILL the third time it passes that place, and
`store.after_commit:3:stop` stops it there with SIGSTOP. If it is unset, a failpoint costs one comparison.
"""

from __future__ import annotations

import os
import signal

NAMES = (
    "store.before_fold",
    "store.before_commit",
    "store.after_commit",
    "store.after_acknowledge",
    "blob.before_rename",
    "blob.after_rename",
    "blob.before_put",
    "blob.after_put",
    "backup.before_blobs",
    "backup.before_rename",
    "retention.before_replace",
    "retention.after_replace",
    "merge.before_blobs",
    "forget.before_files",
    "engine.after_plan",
    "engine.after_claim",
    "engine.before_end",
    "engine.before_wait",
    "engine.before_finish",
    "control.before_rename",
    "control.before_act",
    "control.before_remove",
    "shared.after_submit",
    "shared.after_take",
    "shared.before_done",
    "recovery.before_release",
    "shared.before_look",
    "shared.after_look",
    "shared.before_close",
    "ledger.after_intent",
    "ledger.before_answer",
    "ledger.after_answer",
    "ledger.after_loss",
    "batch.after_intent",
    "batch.after_submit",
    "step.before_record",
    "step.after_record",
    "tool.before_record",
    "tool.after_record",
)
_name, _count, _how, *_ = *os.environ.get("PEIRA_FAILPOINT", "").split(":"), "", ""
_left = int(_count or 1)
_signal = signal.SIGSTOP if _how == "stop" else signal.SIGKILL


def reach(name: str) -> None:
    """Kill or stop the process if this failpoint is armed and its count is reached."""
    if _name and name == _name:
        _pass()


def _pass() -> None:
    """Count one pass of the armed failpoint."""
    global _left
    _left -= 1
    if _left == 0:
        os.kill(os.getpid(), _signal)
