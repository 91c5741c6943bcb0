"""Names to plug-ins, and the life-cycle hooks: the one door, for built-ins and third parties alike.

A distribution offers an entry point in the group `peira`, naming a function that takes this registry
and calls `add` or `hook`. Nothing is imported before something is first looked up.

Hooks are methods of any object given to `hook`, called by name with those of these facts that they take:

    run_began(run)                          run_ended(run, status)
    stage_began(run, stage)                 stage_ended(run, stage)
    trial_began(task)                       trial_ended(task, state)
    attempt_began(run, task, epoch, attempt)    attempt_ended(run, task, epoch, state)
    call_began(run, task, epoch, key, model, request, batch)
    call_ended(run, task, epoch, key, model, reply, problem, status, batch)

An attempt that is put aside until what it asked for is there ends as `waiting`. A call is told of once for
each time that a model is really asked: `reply` is None if that brought none, `problem` says why, and `status`
is what the provider answered with. One in a `batch` begins when that is handed in and ends when it is
collected, at epoch 0: the attempt that asked is over by then; if an earlier process handed it in, only its
end is told. A hook that raises is reported once and never fails a trial.
"""

from __future__ import annotations

import difflib
import logging
import threading
from collections.abc import Callable, Iterable, Mapping
from importlib import import_module
from typing import Any, NamedTuple

from peira.core.signature import Wants, wants
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
    "call_began",
    "call_ended",
)
log = logging.getLogger("peira")


class Hook(NamedTuple):
    method: Callable[..., None]
    wants: Wants

    def __call__(self, facts: Mapping[str, object]) -> None:
        if not self.wants.anything:
            facts = {name: fact for name, fact in facts.items() if name in self.wants.names}
        self.method(**facts)


class Registry:
    def __init__(self) -> None:
        self._made: dict[tuple[str, str], Callable[..., Any]] = {}
        self._hooks: dict[str, tuple[Hook, ...]] = {}
        self._promised: dict[tuple[str, str], str] = {}
        self._kept: list[str] = []
        self._loaded = False
        self._registered: list[Callable[[Registry], None]] = []
        self._loading = threading.RLock()
        self._complained: set[str] = set()
        self.listening = False
        """Whether any hook is there to be called."""

    def add(self, kind: str, name: str, make: Callable[..., Any]) -> None:
        """Offer `make(**config)` as the plug-in of this kind and name. A name has one owner."""
        room = self._promised.get((kind, name))
        if room not in (None, *self._kept) or self._made.setdefault((kind, name), make) is not make:
            raise Invalid(f"two plug-ins offer the {kind} {name!r}")

    def promise(self, kind: str, names: Iterable[str], room: str) -> None:
        """The module `room` has a `register` that adds these; it is imported when one is first looked up."""
        for name in names:
            taken = (kind, name) in self._made and (kind, name) not in self._promised
            if taken or self._promised.setdefault((kind, name), room) != room:
                raise Invalid(f"two plug-ins offer the {kind} {name!r}")

    def hook(self, listener: object) -> None:
        """Call the listener's life-cycle methods from now on."""
        found = [name for name in HOOKS if callable(getattr(listener, name, None))]
        if not found:
            raise Invalid(f"{type(listener).__name__} has none of the hooks {', '.join(HOOKS)}")
        for name in found:
            method = getattr(listener, name)
            self._hooks[name] = (*self._hooks.get(name, ()), Hook(method, wants(method)))
        self.listening = True

    def unhook(self, listener: object) -> None:
        for name, hooks in self._hooks.items():
            self._hooks[name] = tuple(h for h in hooks if getattr(h.method, "__self__", None) is not listener)
        self.listening = any(self._hooks.values())

    def call(self, name: str, **facts: object) -> None:
        """Tell every listener; one that raises is named in the log, once."""
        for hook in self._hooks.get(name, ()):
            try:
                hook(facts)
            except Exception as problem:
                self._complain(f"{getattr(hook.method, '__qualname__', hook.method)}", problem)

    def _complain(self, who: str, problem: Exception) -> None:
        if who not in self._complained:
            self._complained.add(who)
            log.warning("hook %s failed and is ignored: %s: %s", who, type(problem).__name__, problem)

    def look(self, kind: str, name: str) -> Callable[..., Any]:
        """What makes the plug-in of this kind and name."""
        self.load()
        self._keep(self._promised.get((kind, name)))
        try:
            return self._made[kind, name]
        except KeyError:
            raise Unknown(f"no {kind} {name!r}{nearest(name, self.names(kind))}") from None

    def _keep(self, room: str | None) -> None:
        with self._loading:
            if room is not None and room not in self._kept:
                self._kept.append(room)
                import_module(room).register(self)

    def make(self, kind: str, name: str, /, **config: object) -> Any:
        """The plug-in, made with its configuration."""
        return self.look(kind, name)(**config)

    def names(self, kind: str) -> list[str]:
        self.load()
        return sorted(n for k, n in {*self._made, *self._promised} if k == kind)

    def load(self) -> None:
        """Let every installed plug-in register, once."""
        from importlib.metadata import entry_points  # slow, and not needed before this

        with self._loading:  # who asks meanwhile waits, except a plug-in that is just registering
            if not self._loaded:
                self._loaded = True
                for entry in sorted(entry_points(group=GROUP), key=lambda e: e.name):
                    entry.load()(self)

    def load_module(self, register: Callable[[Registry], None]) -> None:
        """Let a plug-in named in the project file register, once."""
        if register not in self._registered:
            self._registered.append(register)
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
