"""What runs in the sandbox for `code_tests`: the candidate in one process, its tests in another.

This file and `code_values`, compiled, are given to the sandbox's Python, which sees nothing else of peira.
Standard input holds the candidate, and after it a secret word, the prompt and the tests. The process forks
when it has read the candidate and nothing of the rest: the child executes the candidate, and answers requests
over a pair of pipes; the parent executes the tests, and writes the word and the result. So neither what is
expected nor the word ever are in the candidate's process. It is never asked whether something of it equals a
value of the tests: that is decided in theirs.
"""

from __future__ import annotations

import builtins
import io
import operator
import os
import sys
from _thread import RLock

from peira.evaluators.code_values import (
    CLOSED,
    EXTENSIONS,
    MOST,
    OPERATIONS,
    Opaque,
    Oversized,
    Remote,
    RemoteFunction,
    ValueDecoder,
    ValueEncoder,
    content,
    deeply,
    harmless,
    restore,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from types import CodeType
    from typing import Any, NoReturn

CPU_LIMIT = 24
"""SIGXCPU; the module `signal` takes long to import."""
LARGE = 16 << 20
"""Bytes of an encoded result; a larger one stays in the candidate's process until it is compared."""

MODULES = (
    *("bisect", "cmath", "collections", "copy", "datetime", "decimal", "fractions", "functools", "heapq"),
    *("itertools", "json", "math", "operator", "os", "random", "re", "statistics", "sys", "time", "typing"),
)
"""Modules that tests may use as if they had imported them; never taken from the candidate."""


def take(length: int) -> bytes:
    """Exactly so many bytes of standard input, and none beyond: what follows is not for every process."""
    found = b""
    while len(found) < length:
        piece = os.read(0, length - len(found))
        if not piece:
            os._exit(1)
        found += piece
    return found


class PeerGone(BaseException):
    """The other process has ended, or says what cannot be understood."""


class PipeEnd:
    """One of the two processes: its pipes, what it exports, and what represents the other's objects.

    A request is (operation, arguments, named arguments, streams); its reply is (whether it succeeded, the
    value or exception, what has become of the mutable arguments, streams). While it waits for a reply, a
    process serves requests.
    """

    guarded: bool
    """Whether only what tests expect to be used may be used: the side of the tests."""

    def __init__(self, reads: int, writes: int, guarded: bool) -> None:
        self.guarded = guarded
        self.exported: list[Any] = []
        self._numbers: dict[int, int] = {}
        self._known: dict[int, Any] = {}
        self._reads, self._writes, self._lock = reads, writes, RLock()
        self.streams = (sys.stdin, sys.stdout, builtins.input)
        self.place = 0
        self.depth = 0

    def number(self, value: Any) -> int:
        """The number under which the other process knows an object of this one."""
        if id(value) not in self._numbers:
            self._numbers[id(value)] = len(self.exported)
            self.exported.append(value)
        return self._numbers[id(value)]

    def owned_elsewhere(self, value: Any) -> int | None:
        """The number of an object of the other process, which this value represents; else None."""
        kind = type(value)
        if isinstance(value, BaseException):
            value = value.__dict__.get("_peira_object")
        elif not issubclass(kind, Remote) and kind not in EXTENSIONS.values():
            known = isinstance(value, type) and issubclass(value, BaseException)
            return value.__dict__.get("_number") if known else None
        return None if value is None else int(value._number)

    def represented(self, number: int, make: Callable[[], Any]) -> Any:
        if number not in self._known:
            self._known[number] = make()
        return self._known[number]

    def shares(self, value: Any) -> bool:
        """Whether a type or function is built in, and crosses by its name. Of the candidate only types do:
        functions of its choice do not run in the process of the tests."""
        known = getattr(builtins, value.__name__, None) is value
        return known and (self.guarded or harmless(value))

    def builtin(self, name: str) -> Any:
        found = getattr(builtins, name)
        if self.guarded and not harmless(found):
            raise ValueError(name)
        return found

    # Messages.

    def send(self, data: bytes) -> None:
        whole = memoryview(b"%08x%s" % (len(data), data))
        while whole:
            whole = whole[os.write(self._writes, whole) :]

    def receive(self) -> bytes:
        """The next message; PeerGone if there is none. What is not a message ends it too."""
        try:
            length = int(self._bytes(8), 16)
        except ValueError:
            raise PeerGone from None
        if not 0 <= length <= MOST:
            raise PeerGone
        return self._bytes(length)

    def _bytes(self, length: int) -> bytes:
        pieces, missing = [], length
        while missing:
            piece = os.read(self._reads, min(missing, 1 << 20))
            if not piece:
                raise PeerGone
            pieces.append(piece)
            missing -= len(piece)
        return b"".join(pieces)

    # Requests.

    def request(self, operation: str, *args: Any, **named: Any) -> Any:
        """Ask the other process, and wait for its reply; raises what it raised there."""
        if not self.guarded and not self.depth:
            raise RuntimeError("the tests are not waiting for this")
        with self._lock:
            encoder = ValueEncoder(self)
            self.send(b"?" + encoder.encoded((operation, args, named, self._lent())))
            while True:
                message = self.receive()
                if message[:1] == b"!":
                    return self._result(message, encoder.containers)
                self.serve(message)

    def decoded(self, decoder: ValueDecoder) -> tuple[Any, Any, Any, Any]:
        """A message of four parts; PeerGone if it is none."""
        try:
            parts = deeply(decoder.value)
        except (ValueError, TypeError, LookupError, AttributeError, ArithmeticError, RecursionError):
            raise PeerGone from None
        if type(parts) is not tuple or len(parts) != 4:  # a remote object must not be iterated over here
            raise PeerGone
        return parts

    def _result(self, message: bytes, containers: list[Any]) -> Any:
        fine, value, changes, streams = self.decoded(ValueDecoder(self, message[1:], containers))
        try:
            for place, items in changes:
                restore(containers[place], items)
            self._returned(*streams)
            error = None if fine is True else self._error(*value)
        except (ValueError, TypeError, LookupError):
            raise PeerGone from None
        if error is None:
            return value
        raise error from None

    def serve(self, message: bytes) -> None:
        """Perform a request, and reply."""
        self.depth += 1
        decoder = ValueDecoder(self, message[1:])
        operation, args, named, streams = self.decoded(decoder)
        before = [content(one) for one in decoder.containers]
        borrowed = self._borrow(*streams)
        fine, value = self._performed(operation, args, named)
        back = self._give_back(*borrowed)
        now = [content(one) for one in decoder.containers]
        changed = (place for place, items in enumerate(now) if not _same(before[place], items))
        changes = tuple((place, now[place]) for place in changed)
        self._reply(fine, value, changes, back, decoder.containers)
        self.depth -= 1

    def _performed(self, operation: str, args: Any, named: Any) -> tuple[bool, Any]:
        try:
            self._permit(operation, args)
            return True, OPERATIONS[operation](*args, **named)
        except PeerGone:
            raise
        except BaseException as error:
            return False, self._described(error)

    def _reply(self, fine: bool, value: Any, changes: Any, back: Any, containers: list[Any]) -> None:
        """Send a result; what is too large or too deep to be copied stays here."""
        failed: tuple[Any, ...] = (RuntimeError, (), "", None)
        for result in ((fine, value), (fine, Opaque(value) if fine else failed), (False, failed)):
            try:
                encoder = ValueEncoder(self, containers, MOST if self.guarded else LARGE)
                message = encoder.encoded((*result, changes, back))
            except (Oversized, RecursionError, MemoryError) as error:
                failed = (type(error) if isinstance(error, MemoryError) else RuntimeError, (), "", None)
                continue
            with self._lock:
                return self.send(b"!" + message)
        raise PeerGone

    def _permit(self, operation: str, args: Any) -> None:
        """Refuse what would show the candidate more of the tests than they hand to it."""
        if not self.guarded or operation not in ("get", "set", "del"):
            return
        target, name = args[:2]
        kind = target if isinstance(target, type) else type(target)
        if name.startswith("_") or (kind.__module__ != "tests" and type(target).__name__ in CLOSED):
            raise AttributeError(name)

    # Exceptions.

    def _described(self, error: BaseException) -> tuple[Any, ...]:
        """An exception as it crosses: type, arguments, text; and itself, if its type is the candidate's."""
        known = [kind for kind in type(error).__mro__ if getattr(builtins, kind.__name__, None) is kind]
        own = not self.guarded and known[0] is not type(error)
        try:
            text = str(error)
        except Exception:
            text = ""
        return type(error) if own else known[0], tuple(error.args), text, Opaque(error) if own else None

    def _error(self, kind: Any, args: Any, text: Any, itself: Any) -> BaseException:
        if not (isinstance(kind, type) and issubclass(kind, BaseException)):
            raise ValueError(kind)
        try:
            made = kind(*args)
        except Exception:
            made = kind.__new__(kind)
            made.args = (text,)
        if itself is not None:
            made.__dict__.update(_peira_object=itself, _peira_text=text)
        return made

    # Standard streams that tests have replaced: they are lent for a call.

    def _lent(self) -> tuple[Any, ...]:
        stdin, stdout, asked = self.streams
        if not self.guarded:
            return (None, False, None)
        rest = None
        if sys.stdin is not stdin and isinstance(sys.stdin, io.StringIO):
            self.place = sys.stdin.tell()
            rest = sys.stdin.read()
        return (rest, sys.stdout is not stdout, None if builtins.input is asked else builtins.input)

    def _borrow(self, rest: str | None, captured: bool, asked: Any) -> tuple[Any, ...]:
        before = (sys.stdin, sys.stdout, builtins.input)
        if not self.guarded:
            sys.stdin = sys.stdin if rest is None else io.StringIO(rest)
            sys.stdout = io.StringIO() if captured else sys.stdout
            builtins.input = builtins.input if asked is None else asked
        return (before, rest, captured)

    def _give_back(self, before: Any, rest: str | None, captured: bool) -> tuple[Any, ...]:
        if self.guarded:
            return (None, None)
        lent = (sys.stdin, sys.stdout)
        sys.stdin, sys.stdout, builtins.input = before
        used = lent[0].tell() if rest is not None and isinstance(lent[0], io.StringIO) else None
        return (used, lent[1].getvalue() if captured and isinstance(lent[1], io.StringIO) else None)

    def _returned(self, used: Any, printed: Any) -> None:
        if not self.guarded:
            return
        if isinstance(used, int) and isinstance(sys.stdin, io.StringIO):
            sys.stdin.seek(self.place)
            sys.stdin.read(used)
        if isinstance(printed, str):
            sys.stdout.write(printed)


def _same(before: tuple[Any, ...], now: tuple[Any, ...]) -> bool:
    return len(before) == len(now) and all(map(operator.is_, before, now))


# The process of the candidate.


def candidate(source: bytes, reads: int, writes: int) -> NoReturn:
    """Execute the candidate, and answer what the tests ask of it."""
    side = PipeEnd(reads, writes, guarded=False)
    module = type(sys)("candidate")
    sys.modules["candidate"] = module
    names, code = module.__dict__, compiled(source)

    def load() -> bool:
        if code is not None:
            exec(code, names)
        return code is not None

    OPERATIONS["load"] = load
    OPERATIONS["name"] = lambda name: names[name]
    OPERATIONS["defined"] = lambda *known: tuple(name for name in known if name in names)
    try:
        while True:
            side.serve(side.receive())
    except BaseException:  # the tests have ended, or this process is broken: nobody is to hear of it
        os._exit(0)


def compiled(source: bytes) -> CodeType | None:
    try:
        return compile(source, "source", "exec", dont_inherit=True)
    except (SyntaxError, ValueError, RecursionError, MemoryError, OverflowError):
        return None


# The process of the tests.


class TestNames(dict):  # type: ignore[type-arg]
    """The built-in names of the tests; others are the candidate's. Its functions are remembered."""

    def __init__(self, side: PipeEnd) -> None:
        super().__init__(vars(builtins))
        self._side = side

    def __missing__(self, name: str) -> Any:
        if name.startswith("__"):
            raise KeyError(name)
        try:
            found = self._side.request("name", name)
        except KeyError:
            raise KeyError(name) from None
        if isinstance(found, RemoteFunction):
            self[name] = found
        return found


def uses(tree: Any) -> tuple[set[str], set[str], set[str]]:
    """The names that a syntax tree reads, those that it defines, and those of whose attributes it reads."""
    read, bound, bases = set[str](), set[str](), set[str]()
    left = [tree]
    while left:
        node = left.pop()
        kind = type(node).__name__
        if kind == "Name":
            (read if type(node.ctx).__name__ == "Load" else bound).add(node.id)
        elif kind == "Attribute" and type(node.value).__name__ == "Name":
            bases.add(node.value.id)
        elif kind == "alias":
            bound.add(node.asname or node.name.partition(".")[0])
        elif kind == "arg":
            bound.add(node.arg)
        elif kind in ("FunctionDef", "AsyncFunctionDef", "ClassDef", "ExceptHandler"):
            bound.add(node.name)
        for field in getattr(node, "_fields", ()):
            value = getattr(node, field, None)
            left += value if isinstance(value, list) else [value] if hasattr(value, "_fields") else []
    return read, bound, bases


TREE = 0x400
"""`compile` returns the syntax tree."""


def judged(side: PipeEnd, prompt: bytes, entry: str, tests: bytes) -> bytes:
    """What came of the candidate."""
    checks = compiled(tests)
    if checks is None:
        return b"tests"
    read, bound, bases = uses(compile(tests, "tests", "exec", TREE, True))
    names: dict[str, Any] = {"__name__": "tests", "__builtins__": TestNames(side)}
    sys.modules["tests"] = type(sys)("tests")
    sys.modules["candidate"] = _CandidateModule(names["__builtins__"])
    try:
        if side.request("load") is not True:
            return b"syntax"
        _helpers(names, prompt, entry)
        for module in (bases & set(MODULES)) - bound - set(names):
            names[module] = __import__(module)
        others = read - bound - set(vars(builtins)) - set(names)
        under = {entry} if entry else set() if others else (read - bound) & set(vars(builtins))
        for name in side.request("defined", *sorted(under)):
            names[name] = side.request("name", name)
        exec(checks, names)
    except AssertionError:
        return b"assertion"
    except MemoryError:
        return b"memory"
    except SystemExit:
        return b"exit"
    except BaseException:  # whatever it raises, it has not passed
        return b"exception"
    return b"none"


def _helpers(names: dict[str, Any], prompt: bytes, entry: str) -> None:
    """Define what the prompt defines, but for the function that the candidate completes: the case's own
    helpers are not taken from the candidate, which could have replaced them."""
    code = compiled(prompt)
    if code is None or not prompt.strip():
        return
    tree: Any = compile(prompt, "prompt", "exec", TREE, True)
    last = tree.body[-1:]
    open_ends = {entry, *(getattr(node, "name", "") for node in last)}
    try:
        exec(code, names)
    except Exception:
        return
    for name in open_ends:
        names.pop(name, None)


class _CandidateModule(type(sys)):  # type: ignore[misc]
    """What `import candidate` gives to tests."""

    def __init__(self, names: TestNames) -> None:
        super().__init__("candidate")
        self.__names = names

    def __getattr__(self, name: str) -> Any:
        try:
            return self.__names[name]
        except KeyError:
            raise AttributeError(name) from None


class TestsEnd(PipeEnd):
    """The side of the tests, whose result is final: a candidate that is gone leaves nothing to be caught."""

    def __init__(self, reads: int, writes: int, child: int, answers: int, word: bytes) -> None:
        super().__init__(reads, writes, guarded=True)
        self._child, self._answers, self._word = child, answers, word

    def request(self, operation: str, *args: Any, **named: Any) -> Any:
        try:
            return super().request(operation, *args, **named)
        except (PeerGone, BrokenPipeError):
            self.finish(self._end())
        except Oversized:
            raise MemoryError from None

    def _end(self) -> bytes:
        """How the candidate's process ended."""
        os.kill(self._child, 9)  # if it only closed its pipes
        _, status = os.waitpid(self._child, 0)
        late = os.WIFSIGNALED(status) and os.WTERMSIG(status) == CPU_LIMIT
        return b"timeout" if late else b"exit"

    def finish(self, result: bytes) -> NoReturn:
        """Write the result, and end this process and whatever threads it has."""
        os.write(self._answers, self._word + result)
        os._exit(0)


def main() -> None:
    source = take(int(take(16), 16))
    (to_child, from_parent), (to_parent, from_child) = os.pipe(), os.pipe()
    nowhere = os.open(os.devnull, os.O_RDWR)
    child = os.fork()
    if child == 0:
        for standard in (0, 1, 2):
            os.dup2(nowhere, standard)
        os.close(from_parent)
        os.close(to_parent)
        candidate(source, to_child, from_child)
    answers = os.dup(1)
    os.close(to_child)
    os.close(from_child)
    os.dup2(nowhere, 1)
    os.dup2(nowhere, 2)
    word = take(32)
    entry, prompt, tests = (take(int(take(16), 16)) for _ in range(3))
    os.dup2(nowhere, 0)
    side = TestsEnd(to_parent, from_parent, child, answers, word)
    side.finish(judged(side, prompt, entry.decode(), tests))
