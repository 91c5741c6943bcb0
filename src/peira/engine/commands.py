"""Executing the commands that other processes send to the owner of a store.

There is one `CommandService` for a store that is owned, shared by all its runs under way, so that no command
is lost between them. Every command is executed and committed before its file is removed; one that is found
again (its owner was killed in between) changes nothing the second time, because it is about a state that is
reached already, or a question that carries its id.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import groupby, islice
from typing import Any, Protocol
from weakref import WeakValueDictionary

from peira.core.clock import Clock, SystemClock
from peira.core.contracts import Op, OpenStore
from peira.core.failpoints import reach
from peira.core.log.events import AnyEvent, CommandTaken
from peira.engine.control import ANSWER, SKIP, Command, control_of
from peira.engine.inbox import (
    AskedQuestion,
    answering,
    closing,
    expiring,
    find_question,
    is_due,
    rated_before,
)
from peira.errors import Fenced, PeiraError, StoreFault

Handler = Callable[["CommandService", Command], None]
"""Executes a command about no run under way in this process.

It must have committed what it did when it returns, and change nothing if it is called again.
"""


Pending = tuple[Any, Command]
"""A command with where it is."""
MOST_GROUPED = 1000
"""The most commands that are executed together."""


class LiveRun(Protocol):
    """A run under way in this process, as commands see it."""

    @property
    def run(self) -> str:
        """Its id."""
        ...

    def close_question(self, event: AnyEvent, note: AnyEvent | None = None) -> Fenced | None:
        """Record how a question was closed and let its task go on; the refusal if it was closed before."""
        ...

    def awaits(self, task: str) -> bool:
        """Whether this run has the task, and it waits."""
        ...

    def arrive(self, keys: Iterable[str]) -> None:
        """Questions were closed that tasks of this run may wait for."""
        ...

    def obey(self, command: Command) -> None:
        """Execute a command about this run, and commit that."""
        ...


class CommandService:
    """Executes the commands that arrive for a store which this process owns; thread-safe."""

    def __init__(self, store: OpenStore, clock: Clock | None = None) -> None:
        self.store, self.clock = store, clock or SystemClock()
        self._control: Any = control_of(store)
        self.more_handlers: Callable[[], object] | None = None
        """Imports modules that register handlers."""
        self._live: dict[str, LiveRun] = {}
        self._acting = threading.RLock()

    @contextmanager
    def attached(self, run: LiveRun) -> Iterator[None]:
        """Within it, commands about this run are executed by the run itself."""
        self._live[run.run] = run
        try:
            yield
        finally:
            with self._acting:
                del self._live[run.run]

    def live(self, run: str) -> LiveRun | None:
        """The run of this id, if it is under way in this process."""
        return self._live.get(run)

    @property
    def busy(self) -> bool:
        """Whether a run is under way."""
        return bool(self._live)

    def serve(self) -> None:
        """Execute the commands that have arrived, in the order of sending."""
        if self._control is None:
            return
        with self._acting:
            for word, group in groupby(self._control.pending(), lambda one: one[1].command):
                for some in _chunks(group, MOST_GROUPED if word in GROUP_HANDLERS else 1):
                    reach("control.before_act")
                    self._execute([command for _, command in some])
                    reach("control.before_remove")
                    for place, _ in some:
                        self._control.remove(place)

    def _execute(self, commands: Sequence[Command]) -> None:
        """Execute commands of one kind; several are executed together, if that is possible."""
        if len(commands) == 1:
            self.execute(commands[0])
            return
        try:
            GROUP_HANDLERS[commands[0].command](self, commands)
        except StoreFault:
            raise
        except PeiraError:  # one of them cannot be executed: the others are
            for command in commands:
                self.execute(command)

    def execute(self, command: Command) -> None:
        """Execute a command; it is committed when this returns. One that cannot be executed does nothing."""
        with self._acting:
            try:
                if (live := self._live.get(command.run)) is not None:
                    live.obey(command)
                elif (handler := self._handler(command.command)) is not None:
                    handler(self, command)
            except StoreFault:
                raise
            except PeiraError:
                return  # the sender looks at what became of it

    def _handler(self, command: str) -> Handler | None:
        """The handler of a command; more of them are loaded if it has none."""
        if command not in HANDLERS and self.more_handlers is not None:
            self.more_handlers()
        return HANDLERS.get(command)

    def close_question(self, asked: AskedQuestion, event: AnyEvent, command: Command | None = None) -> None:
        """Record how a question was closed: in the run that has its task, or else in the one that asked."""
        note = None if command is None else CommandTaken(command.command, command.id, command.by)
        for live in list(self._live.values()):
            if live.awaits(asked.task):
                live.close_question(event, note)
                return
        events = (event,) if note is None else (note, event)
        self.store.commit([Op(asked.run, events)]).result()
        for live in list(self._live.values()):
            live.arrive([asked.key])


def _answer(service: CommandService, command: Command) -> None:
    """Close a question, unless somebody did before; one whose deadline has passed is closed by that."""
    asked = find_question(service.store, str(command.body.get("key", "")))
    if not asked.open:
        return
    now = service.clock.now()
    if is_due(asked.row, now):
        service.close_question(asked, expiring(asked))
    elif rated_before(service.store, asked, command.by):
        return
    elif command.command == SKIP:
        service.close_question(asked, closing(asked, "skipped", now, command.by, command.id), command)
    else:
        took = float(command.body.get("took", -1.0))
        event = answering(asked, command.body.get("value"), now, command.by, command.id, took)
        service.close_question(asked, event, command)


def _chunks(commands: Iterable[Pending], n: int) -> Iterator[list[Pending]]:
    """The commands in groups of at most so many."""
    rest = iter(commands)
    while some := list(islice(rest, n)):
        yield some


GROUP_HANDLERS: dict[str, Callable[[CommandService, Sequence[Command]], None]] = {}
"""Handlers that execute several commands of their kind together, as if one after the other."""
HANDLERS: dict[str, Handler] = {ANSWER: _answer, SKIP: _answer}
"""The handlers of commands; other modules add theirs."""
_services: WeakValueDictionary[str, CommandService] = WeakValueDictionary()
_making = threading.Lock()


def service_of(store: OpenStore, more_handlers: Callable[[], object] | None = None) -> CommandService:
    """The service of a store that this process owns; always the same while somebody holds it.

    `more_handlers` imports modules that register handlers, once a command has none.
    """
    with _making:
        found = _services.get(store.address)
        if found is None or found.store is not store:
            found = _services[store.address] = CommandService(store)
        found.more_handlers = more_handlers or found.more_handlers
        return found


def running_service(address: str) -> CommandService | None:
    """The service of a store that is owned by this process with runs under way; None if there are none."""
    found = _services.get(address)
    return found if found is not None and found.busy else None
