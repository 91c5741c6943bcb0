"""Named places where a test may pull the plug.

`PEIRA_FAILPOINT=store.after_commit:3` kills the process, as kill -9 would, the third time it passes
that place. Unset, a failpoint costs one look at a constant.
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
    "engine.after_plan",
    "engine.after_claim",
    "engine.before_end",
    "engine.before_finish",
    "step.before_record",
    "step.after_record",
)
_name, _, _count = os.environ.get("PEIRA_FAILPOINT", "").partition(":")
_left = int(_count or 1)


def reach(name: str) -> None:
    """Die here if this is the armed place and its count has run out."""
    if _name and name == _name:
        _pass()


def _pass() -> None:
    global _left
    _left -= 1
    if _left == 0:
        os.kill(os.getpid(), signal.SIGKILL)
