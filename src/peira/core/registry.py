"""Names to plug-ins, and the life-cycle hooks: the one door, for built-ins and third parties alike.

A distribution offers an entry point in the group `peira`, naming a function that takes this registry
and calls `add` or `hook`. Nothing is imported before something is first looked up.

Hooks are methods of any object given to `hook`, called by name with keywords:

    run_began(run)            run_ended(run, status)
    trial_began(task)         trial_ended(task, state)
    stage_began(run, stage)   stage_ended(run, stage)
    attempt_began(task, epoch)  attempt_ended(task, epoch, state)

A hook that raises is reported once and never fails a trial.
"""

from __future__ import annotations

import difflib
import logging
import threading
from collections.abc import Callable, Iterable
from typing import Any

from peira.errors import Invalid, Unknown

GROUP = "peira"
HOOKS = (
    "run_began",
    "run_ended",
    "stage_began",
    "stage_ended",
    "trial_began",
    "trial_ended",
    "attempt_began",
    "attempt_ended",
)
log = logging.getLogger("peira")


class Registry:
    def __init__(self) -> None:
        self._made: dict[tuple[str, str], Callable[..., Any]] = {}
        self._hooks: dict[str, tuple[Callable[..., None], ...]] = {}
        self._loaded = False
        self._loading = threading.RLock()
        self._complained: set[str] = set()
        self.listening = False
        """Whether any hook is there to be called."""

    def add(self, kind: str, name: str, make: Callable[..., Any]) -> None:
        """Offer `make(**config)` as the plug-in of this kind and name. A name has one owner."""
        if self._made.setdefault((kind, name), make) is not make:
            raise Invalid(f"two plug-ins offer the {kind} {name!r}")

    def hook(self, listener: object) -> None:
        """Call the listener's life-cycle methods from now on."""
        found = [name for name in HOOKS if callable(getattr(listener, name, None))]
        if not found:
            raise Invalid(f"{type(listener).__name__} has none of the hooks {', '.join(HOOKS)}")
        for name in found:
            self._hooks[name] = (*self._hooks.get(name, ()), getattr(listener, name))
        self.listening = True

    def unhook(self, listener: object) -> None:
        for name, called in self._hooks.items():
            self._hooks[name] = tuple(c for c in called if getattr(c, "__self__", None) is not listener)
        self.listening = any(self._hooks.values())

    def call(self, name: str, **facts: object) -> None:
        """Tell every listener; one that raises is named in the log, once."""
        for called in self._hooks.get(name, ()):
            try:
                called(**facts)
            except Exception as problem:
                self._complain(f"{getattr(called, '__qualname__', called)}", problem)

    def _complain(self, who: str, problem: Exception) -> None:
        if who not in self._complained:
            self._complained.add(who)
            log.warning("hook %s failed and is ignored: %s: %s", who, type(problem).__name__, problem)

    def make(self, kind: str, name: str, /, **config: object) -> Any:
        """The plug-in, made with its configuration."""
        self.load()
        try:
            make = self._made[kind, name]
        except KeyError:
            raise Unknown(f"no {kind} {name!r}{nearest(name, self.names(kind))}") from None
        return make(**config)

    def names(self, kind: str) -> list[str]:
        self.load()
        return sorted(n for k, n in self._made if k == kind)

    def load(self) -> None:
        """Let every installed plug-in register, once."""
        from importlib.metadata import entry_points  # slow, and not needed before this

        with self._loading:  # who asks meanwhile waits, except a plug-in that is just registering
            if not self._loaded:
                self._loaded = True
                for entry in sorted(entry_points(group=GROUP), key=lambda e: e.name):
                    entry.load()(self)

    def load_module(self, register: Callable[[Registry], None]) -> None:
        """Let a plug-in named in the project file register."""
        register(self)


def nearest(name: str, known: Iterable[str]) -> str:
    """The end of a message about an unknown name: what was probably meant."""
    known = sorted(known)
    close = difflib.get_close_matches(name, known, n=1, cutoff=0.6)
    if close:
        return f"; did you mean {close[0]!r}?"
    return f"; known: {', '.join(known)}" if known else ""


registry = Registry()
"""The process's registry."""
