"""Locks are taken in the order that docs/architecture.md draws."""

from __future__ import annotations

import ast
import json
import re
import subprocess
import sys
from itertools import pairwise
from pathlib import Path

import pytest

import peira

SOURCE = Path(peira.__file__).parent
PAGE = Path(__file__).parents[2] / "docs" / "architecture.md"
FIGURE = re.compile(r"^```text\n(access\._busy .*?)^```$", re.MULTILINE | re.DOTALL)
OUTERMOST = "access._busy"
CONDITIONS = {"RunState.lock": "RunState.changed"}
"""A lock that is known by one of its conditions."""

# In a process of its own: locks are told apart by the place at which they are made, also those of modules.
RECORDER = """
import sys, threading
plain, held, nested = threading.Lock, threading.local(), set()

def made_in_peira():
    frame = sys._getframe(2)
    while frame.f_code.co_filename == threading.__file__:
        frame = frame.f_back
    name = frame.f_code.co_filename
    return (name, frame.f_lineno) if "/peira/" in name else None

def take(lock):
    mine = held.__dict__.setdefault("locks", [])
    nested.update((outer.place, lock.place) for outer in mine if outer is not lock)
    mine.append(lock)

def leave(lock):
    held.locks.remove(lock)

class Recorded:
    def __init__(self, place):
        self.place, self.lock = place, plain()
    def acquire(self, *how, **more):
        taken = self.lock.acquire(*how, **more)
        if taken:
            take(self)
        return taken
    def release(self):
        leave(self)
        self.lock.release()
    def locked(self):
        return self.lock.locked()
    def __enter__(self):
        return self.acquire()
    def __exit__(self, *_):
        self.release()

class Reentrant(threading._RLock):
    def acquire(self, blocking=True, timeout=-1):
        taken = super().acquire(blocking, timeout)
        if taken:
            take(self)
        return taken
    __enter__ = acquire
    def release(self):
        leave(self)
        super().release()
    def __exit__(self, *_):
        self.release()
    def _release_save(self):
        times = held.locks.count(self)
        for _ in range(times):
            leave(self)
        return times, super()._release_save()
    def _acquire_restore(self, saved):
        super()._acquire_restore(saved[1])
        for _ in range(saved[0]):
            take(self)

def lock():
    place = made_in_peira()
    return Recorded(place) if place else plain()

def reentrant():
    made = Reentrant()
    made.place = made_in_peira()
    return made if made.place else threading._RLock()

threading.Lock, threading.RLock = lock, reentrant
"""

STUDIES = """
import recorder  # before anything of peira
import asyncio, json
from peira import ask, ask_async, run, study
from peira.core.registry import registry

class Listener:
    def attempt_began(self, attempt): pass
    def attempt_ended(self, state): pass
    def call_ended(self, reply): pass

CASES = [(str(n), str(n)) for n in range(40)]
LARGE = 100_000
LONGER = {"id": "H1", "factor": "style", "levels": ["long", "short"], "direction": "greater"}

def talks(case, style):
    if case.input == "7":
        raise ValueError("seven")
    return ask("scripted:echo", case.input).text + ("x" * LARGE if style == "long" else "")

async def awaits(case, style):
    if case.input == "3":
        await asyncio.sleep(60)
    return (await ask_async("scripted:echo", case.input)).text

def plain(case, style):
    return case.input if style == "long" else ""

def settings(agent, **more):
    return study(agent=agent, cases=CASES, factors={"style": ["short", "long"]}, evaluators=["exact"], **more)

def succeeded(study, store, **options):
    return run(study, store=store, progress=False, **options).counts["succeeded"]

registry.hook(Listener())
done = [
    succeeded(settings(talks, policy={"retries": 1, "backoff": 0.01}), "a.db"),
    succeeded(settings(awaits, policy={"timeout": 2.0}), "b.db"),
    succeeded(settings(plain, hypotheses=[LONGER], stop="when decided"), "c.db"),
    succeeded("agent.py", "d.db", runner="process", parallel=2, policy={"timeout": 3.0}),
]
print(json.dumps([done, [[*outer, *inner] for outer, inner in recorder.nested]]))
"""

AGENT = """
import time
from peira import ask, study

@study(cases=[str(n) for n in range(6)])
def inner(case):
    if case.input == "2":
        time.sleep(60)
    return ask("scripted:echo", case.input).text
"""


def lock_at(path: Path, line: int) -> str | None:
    """The name of the lock that is made on a line, as the page writes it; None if another thing is."""
    text = path.read_text()
    made = text.splitlines()[line - 1]
    if not re.search(r"threading\.(R?Lock|Condition)\(", made):
        return None
    names = re.findall(r"\b_\w+", made.split("threading.")[0]) or ["lock"]
    owner = next(
        (
            node.name
            for node in ast.walk(ast.parse(text))
            if isinstance(node, ast.ClassDef) and node.lineno <= line <= (node.end_lineno or 0)
        ),
        path.stem,
    )
    name = f"{owner}.{names[-1]}"
    return CONDITIONS.get(name, name)


def drawn() -> set[tuple[str, str]]:
    """Every order that the page's figure allows."""
    [figure] = FIGURE.findall(PAGE.read_text())
    allowed = set()
    for line in figure.splitlines():
        chain = [re.findall(r"\w+\.\w+", part) for part in line.split(">")]
        allowed |= {(a, b) for outer, inner in pairwise(chain) for a in outer for b in inner}
    while more := {(a, d) for a, b in allowed for c, d in allowed if b == c} - allowed:
        allowed |= more
    return allowed


@pytest.fixture(scope="module")
def observed(tmp_path_factory: pytest.TempPathFactory) -> set[tuple[str, str]]:
    """Which lock was taken while which was held, in runs with calls, hooks, retries, a rule and processes."""
    folder = tmp_path_factory.mktemp("locks")
    (folder / "agent.py").write_text(AGENT)
    (folder / "recorder.py").write_text(RECORDER)
    (folder / "locks.py").write_text(STUDIES)
    done = subprocess.run(
        [sys.executable, "locks.py"], cwd=folder, capture_output=True, text=True, timeout=50, check=False
    )
    assert done.returncode == 0, done.stderr
    succeeded, nested = json.loads(done.stdout.splitlines()[-1])
    assert min(succeeded) > 0
    found = set()
    for outer, outer_line, inner, inner_line in nested:
        pair = lock_at(Path(outer), outer_line), lock_at(Path(inner), inner_line)
        if Path(outer).is_relative_to(SOURCE) and None not in pair:
            found.add(pair)
    return found


def test_locks_are_taken_in_the_order_of_the_page(observed: set[tuple[str, str]]) -> None:
    told = {pair for pair in observed if pair[0] != OUTERMOST and _is_of_a_run(pair)}
    assert ("RunState.changed", "Journal._lock") in told
    assert ("RunState.changed", "Hooks._lock") in told
    assert ("Journal._lock", "CommitThread._gate") in told
    assert ("Journal._lock", "BlobFolder._writing") in told
    assert told - drawn() == set()


def test_nothing_is_held_around_the_lock_of_a_run(observed: set[tuple[str, str]]) -> None:
    assert {outer for outer, inner in observed if inner == "RunState.changed"} == {OUTERMOST}


def _is_of_a_run(pair: tuple[str, str]) -> bool:
    """Not one of the registry's or of loading, which nobody holds for long."""
    return not any(name.startswith(("Registry.", "modules.", "source.")) for name in pair)
