"""What to type next."""

from __future__ import annotations

import shlex

from peira.core.ids import short


def command(name: str, run: str, store: str | None) -> str:
    """A command to type next."""
    words = ["peira", name, short(run), *(["--store", store] if store else [])]
    return shlex.join(words)
