"""The registry of plug-ins (built-in and third-party) and of the life-cycle hooks.

A plug-in is a callable registered under a kind and a name. The module also parses how people write a plug-in:
a name, or a name with its options.
"""

from __future__ import annotations

import difflib
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from contextvars import ContextVar
from functools import partial
from importlib import import_module
from importlib.util import module_from_spec, spec_from_file_location
from operator import attrgetter
from typing import TYPE_CHECKING, Any, NamedTuple

from peira.core.code.signature import TakenArguments, wants
from peira.core.text.terminal import printable
from peira.errors import Invalid, Unknown, message_of

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

GROUP = "peira"
"""The group of entry points with plug-ins of any kind. Those in a group `peira.KIND` are of that kind,
and are imported when the first one is looked up."""
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


AT = "at"
"""The timestamp of an event, passed only to hooks that name it as a parameter."""


class Hook(NamedTuple):
    """One method of a listener, and which arguments it takes."""

    method: Callable[..., None]
    wants: TakenArguments
    listener: object

    @property
    def name(self) -> str:
        """The qualified name of the method, for log messages."""
        return str(getattr(self.method, "__qualname__", type(self.method).__qualname__))

    def chosen(self, facts: Mapping[str, object]) -> dict[str, object]:
        """Those of the facts that the method takes."""
        names, anything = self.wants.names, self.wants.anything
        return {name: fact for name, fact in facts.items() if name in names or (anything and name != AT)}


OutcomeCallback = Callable[[object], None]
"""A function that takes the outcome of what was surrounded."""


class UserCodeContext(NamedTuple):
    """What a listener puts around user code."""

    listener: object
    enter: Callable[..., AbstractContextManager[OutcomeCallback]]


class Registry:
    """Maps kinds and names of plug-ins to the callables that make them, and holds the hooks.

    Plug-ins are loaded under a reentrant lock, so that lookups may come from any thread. What a project's own
    plug-ins register is found only where that project was entered (`enter`), so that two projects in one
    process may use the same names. Threads of the engine, which enter none, find those of all projects, the
    latest first. Hooks are of the whole process.
    """

    def __init__(self) -> None:
        self._made: dict[tuple[str, str], Callable[..., Any]] = {}
        self._hooks: dict[str, tuple[Hook, ...]] = {}
        self._promised: dict[tuple[str, str], str] = {}
        self._kept: list[str] = []
        self._installed: Mapping[str, Sequence[EntryPoint]] = {}
        self._loaded: set[str] = set()
        self._called: set[str] = set()
        self._registered: dict[tuple[str, Callable[[Registry], None]], str] = {}
        self._projects: dict[str, dict[tuple[str, str], Callable[..., Any]]] = {}
        self._entered: ContextVar[str | None] = ContextVar("peira_entered_project", default=None)
        self._filling = ""  # the project whose plug-ins register just now
        self._loading = threading.RLock()
        self._complaining = threading.Lock()
        self._complained: set[str] = set()
        self.listening = False
        """Whether any hook is there to be called."""
        self._surrounds: tuple[UserCodeContext, ...] = ()
        self.surrounding = False
        """Whether any listener puts something around user code; check this first."""

    def add(self, kind: str, name: str, make: Callable[..., Any]) -> None:
        """Register `make(**config)` under this kind and name; Invalid if the name is taken."""
        self.load(kind)
        module = self._promised.get((kind, name))
        if self._filling:
            own = self._projects[self._filling]
            taken = module is not None or (kind, name) in self._made
            if taken or own.setdefault((kind, name), make) is not make:
                raise Invalid(f"two plug-ins offer the {kind} {name!r}")
            return
        if module not in (None, *self._kept) or self._made.setdefault((kind, name), make) is not make:
            raise Invalid(f"two plug-ins offer the {kind} {name!r}")

    def promise(self, kind: str, names: Iterable[str], module: str) -> None:
        """Register names lazily: `module` is imported, and its `register` called, when one is looked up.

        Raises Invalid if another plug-in offers one of the names.
        """
        self.load(kind)
        for name in names:
            taken = (kind, name) in self._made and (kind, name) not in self._promised
            if taken or self._promised.setdefault((kind, name), module) != module:
                raise Invalid(f"two plug-ins offer the {kind} {name!r}")

    def hook(self, listener: object) -> None:
        """Call the listener's life-cycle methods from now on; Invalid if it has none of `HOOKS`."""
        found = [name for name in HOOKS if callable(getattr(listener, name, None))]
        if not found:
            raise Invalid(f"{type(listener).__name__} has none of the hooks {', '.join(HOOKS)}")
        for name in found:
            method = getattr(listener, name)
            self._hooks[name] = (*self._hooks.get(name, ()), Hook(method, wants(method), listener))
        if callable(surround := getattr(listener, "surround", None)):
            self._surrounds = (*self._surrounds, UserCodeContext(listener, surround))
            self.surrounding = True
        self.listening = True

    def unhook(self, listener: object) -> None:
        """Stop calling the listener."""
        for name, hooks in self._hooks.items():
            self._hooks[name] = tuple(hook for hook in hooks if hook.listener is not listener)
        self._surrounds = tuple(one for one in self._surrounds if one.listener is not listener)
        self.listening = any(self._hooks.values())
        self.surrounding = bool(self._surrounds)

    @contextmanager
    def surrounded(
        self, kind: str, name: str, run: str = "", task: str = "", epoch: int = 0
    ) -> Iterator[OutcomeCallback]:
        """Run user code inside the context managers of listeners (a span, for example), on its own thread.

        A listener's `surround(kind, name, run, task, epoch)` returns a context manager; `kind` is "attempt"
        or "step". Yields a function that takes the outcome. Listeners never stop a run: one that fails
        is left out.
        """
        with ExitStack() as around:
            tell: list[OutcomeCallback] = []
            for one in self._surrounds:
                try:
                    tell.append(around.enter_context(one.enter(kind, name, run, task, epoch)))
                except Exception as problem:
                    self._warn_once(f"{type(one.listener).__name__}.surround", problem)

            def tell_all(outcome: object) -> None:
                for each in tell:
                    each(outcome)

            yield tell_all

    def carried(self) -> list[tuple[str, dict[str, str]]]:
        """What a child process is to put around user code, for the listeners of this one.

        Called inside `surrounded`. A listener's `carry()` returns the name (module:function) of a context
        manager and the data that it takes. Listeners never stop a run: one that fails is left out.
        """
        found: list[tuple[str, dict[str, str]]] = []
        for one in self._surrounds:
            if callable(carry := getattr(one.listener, "carry", None)):
                try:
                    found.append(carry())
                except Exception as problem:
                    self._warn_once(f"{type(one.listener).__name__}.carry", problem)
        return found

    @contextmanager
    def resumed(self, carried: Iterable[tuple[str, dict[str, str]]]) -> Iterator[None]:
        """Run user code inside what another process carried over; what cannot be had is left out."""
        with ExitStack() as around:
            for name, data in carried:
                try:
                    around.enter_context(plugin_function(name)(data))
                except Exception as problem:
                    self._warn_once(name, problem)
            yield

    def hooks(self, name: str) -> tuple[Hook, ...]:
        """The registered hooks of this name."""
        return self._hooks.get(name, ())

    def call(self, name: str, **facts: object) -> None:
        """Call every hook of this name, synchronously, with the facts it takes."""
        for hook in self.hooks(name):
            self.tell(hook, partial(hook.chosen, facts))

    def tell(self, hook: Hook, facts: Callable[[], Mapping[str, object]]) -> None:
        """Call one hook synchronously; the first exception of a hook is logged, later ones are ignored."""
        try:
            hook.method(**facts())
        except BaseException as problem:  # a failing hook must never stop a run
            self._warn_once(hook.name, problem)

    def _warn_once(self, who: str, problem: BaseException) -> None:
        """Log the failure of a hook, the first time only."""
        with self._complaining:
            known = who in self._complained
            self._complained.add(who)
        if not known:
            import logging  # slow, and hooks seldom fail

            logging.getLogger("peira").warning(
                "hook %s failed and is ignored: %s: %s",
                who,
                type(problem).__name__,
                printable(message_of(problem)),
            )

    def look(self, kind: str, name: str) -> Callable[..., Any]:
        """The callable that makes the plug-in of this kind and name; Unknown if there is none."""
        self.load(kind)
        self._import_module(self._promised.get((kind, name)))
        for found in (self._made, *self._visible()):
            if (kind, name) in found:
                return found[kind, name]
        raise Unknown(f"no {kind} {name!r}{nearest(name, self.names(kind))}")

    def enter(self, project: str) -> None:
        """See the plug-ins of this project, and of no other, in this context from now on."""
        self._entered.set(project)

    def _visible(self) -> list[dict[tuple[str, str], Callable[..., Any]]]:
        """What plug-ins of projects registered, as far as it is seen from here."""
        project = self._entered.get()
        if project is None:
            return list(reversed(self._projects.values()))
        return [self._projects[project]] if project in self._projects else []

    def _import_module(self, module: str | None) -> None:
        """Import a module of lazily registered plug-ins and let it register them, once."""
        with self._loading:
            if module is not None and module not in self._kept:
                self._kept.append(module)
                import_module(module).register(self)

    def make(self, kind: str, name: str, /, **config: object) -> Any:
        """Make the plug-in with its configuration; Unknown if there is none of that name."""
        return self.look(kind, name)(**config)

    def make_from(self, kind: str, name: str, facts: Mapping[str, object]) -> Any:
        """Make the plug-in with those of the facts that its maker takes by name."""
        make = self.look(kind, name)
        taken = wants(make)
        return make(**(facts if taken.anything else {n: f for n, f in facts.items() if n in taken.names}))

    def names(self, kind: str) -> list[str]:
        """The names of all plug-ins of this kind, sorted."""
        self.load(kind)
        seen = {*self._made, *self._promised, *(key for found in self._visible() for key in found)}
        return sorted(n for k, n in seen if k == kind)

    def load(self, kind: str) -> None:
        """Call `register` of each installed plug-in of this kind, or of no stated kind, once.

        They are the entry points of the groups `peira.KIND` and `peira`.
        """
        with self._loading:  # reentrant: a plug-in may look up others while it registers
            if kind not in self._loaded:
                self._loaded.add(kind)
                installed = self._installed = self._installed or _installed_plugins()
                for entry in (*installed.get(f"{GROUP}.{kind}", ()), *installed.get(GROUP, ())):
                    if entry.value not in self._called:
                        self._called.add(entry.value)
                        entry.load()(self)

    def load_module(self, register: Callable[[Registry], None], name: str = "", project: str = "") -> None:
        """Let a plug-in register, once; `name` (module:function) is how other processes find it.

        With a `project`, for that project only.
        """
        with self._loading:
            if (project, register) in self._registered:
                return
            self._registered[project, register] = name
            before, self._filling = self._filling, project
            self._projects.setdefault(project, {}) if project else None
            try:
                register(self)
            finally:
                self._filling = before

    @property
    def modules(self) -> list[str]:
        """The names (module:function) of the plug-ins that are seen from here and have one."""
        here = self._entered.get()
        return [
            name
            for (project, _), name in self._registered.items()
            if name and (not project or here is None or project == here)
        ]


def _installed_plugins() -> dict[str, list[EntryPoint]]:
    """The entry points of installed distributions that have plug-ins, by group and then by name.

    Those of all other distributions, usually hundreds, are not parsed: that would take several times as long.
    Nor is the metadata of these, which needs a parser of e-mails, but for its line with the name.
    """
    from importlib.metadata import distribution, distributions  # slow, and not needed before this

    names: dict[str, None] = {}
    for one in distributions():
        if f"[{GROUP}" in (one.read_text("entry_points.txt") or ""):
            headers = "\n" + (one.read_text("METADATA") or one.read_text("PKG-INFO") or "")
            names[headers.partition("\nName:")[2].partition("\n")[0].strip()] = None
    found: dict[str, list[EntryPoint]] = {}
    for name in filter(None, names):
        for entry in distribution(name).entry_points:  # of several installations, the one that is imported
            found.setdefault(entry.group, []).append(entry)
    return {group: sorted(entries, key=attrgetter("name")) for group, entries in found.items()}


def plugin_function(name: str) -> Any:
    """The registration function that module:function or file.py:function names; Invalid if there is none."""
    module, _, function = name.rpartition(":")
    try:
        loaded = _module_at(module) if module.endswith(".py") else import_module(module or function)
        found = getattr(loaded, function, None) if module else None
    except (ImportError, ValueError, OSError, SyntaxError) as error:
        raise Invalid(f"cannot import {name!r}: {error}") from None
    if not callable(found):
        raise Invalid(f"{name!r} is no function; write module:function")
    return found


def _module_at(path: str) -> Any:
    """The module in a file, loaded once, under a name that no other file has."""
    from hashlib import sha256  # loads OpenSSL, and most projects have no file of plug-ins

    name = f"peira_plugin_{sha256(path.encode()).hexdigest()[:16]}"
    if name not in sys.modules:
        spec = spec_from_file_location(name, path)
        if spec is None or spec.loader is None:
            raise ImportError(f"no module can be loaded from {path}")
        module = sys.modules[name] = module_from_spec(spec)
        try:
            spec.loader.exec_module(module)
        except BaseException:
            del sys.modules[name]
            raise
    return sys.modules[name]


def nearest(name: str, known: Iterable[str]) -> str:
    """The end of a message about an unknown name: the closest known name, or all of them."""
    known = sorted(known)
    close = difflib.get_close_matches(name, known, n=1, cutoff=0.6)
    if close:
        return f"; did you mean {close[0]!r}?"
    return f"; known: {', '.join(known)}" if known else ""


registry = Registry()
"""The registry of this process."""


def options_of(given: str | Mapping[str, Any], what: str, example: str) -> tuple[str, dict[str, Any]]:
    """Name and options of "numeric", {"name": "numeric", "tolerance": 1} or {"numeric": {"tolerance": 1}}."""
    if isinstance(given, str):
        return given, {}
    if isinstance(given.get("name"), str):
        return given["name"], {str(key): value for key, value in given.items() if key != "name"}
    if len(given) == 1:
        [(name, options)] = given.items()
        if isinstance(options, Mapping):
            return str(name), dict(options)
    raise Invalid(f"{dict(given)!r} is not {what}; write {example}")


def made(kind: str, name: str, options: Mapping[str, Any]) -> Any:
    """Make the plug-in with its options; Invalid if there is none of that name, or it does not take them."""
    try:
        return registry.make(kind, name, **options)
    except Unknown as error:
        raise Invalid(str(error)) from None
    except TypeError as error:
        raise Invalid(f"{name}: {error}") from None
