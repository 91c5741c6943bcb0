"""Failpoints: named places in the code where a test may kill the process.

`PEIRA_FAILPOINT=store.after_commit:3` kills the process with SIGKILL the third time it passes that place. If
it is unset, a failpoint costs one comparison.
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
    "shared.before_close",
    "step.before_record",
    "step.after_record",
)
_name, _, _count = os.environ.get("PEIRA_FAILPOINT", "").partition(":")
_left = int(_count or 1)


def reach(name: str) -> None:
    """Kill the process if this failpoint is armed and its count is reached."""
    if _name and name == _name:
        _pass()


def _pass() -> None:
    """Count one pass of the armed failpoint."""
    global _left
    _left -= 1
    if _left == 0:
        os.kill(os.getpid(), signal.SIGKILL)
