"""Finding and killing whole process trees, by a label in their environment and by descent."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping

import psutil

LABEL = "PEIRA_TREE"

_ROUNDS = 20
_PATIENCE = 1.0
_GONE = (psutil.NoSuchProcess, psutil.AccessDenied)


def labelled(env: Mapping[str, str], label: str) -> dict[str, str]:
    """The environment to start a process tree with, so that all of it can be found again.

    Labels nest: ending the tree "a" also ends "a/1".
    """
    return {**env, LABEL: label}


def members(label: str, root: int | None = None) -> list[psutil.Process]:
    """All live processes of the tree: those with the label, the root, and the descendants of either.

    A pid may have been reused: the root counts only if it has the label or descends from this process.
    Zombies are dead; processes that end meanwhile or may not be inspected are left out.
    """
    return list(_tree([*_carriers(label), *_root(root)]))


def end(label: str, root: int | None = None, grace: float = 0.0) -> int:
    """Kill every member of the tree but this process and its ancestors; returns how many ended.

    With `grace`, all get SIGTERM first and that many seconds; then they are killed. They are suspended while
    being collected, so that none can escape by forking. Blocks and repeats until none is left, but not for
    ever: what could not be killed is not counted, and `members` still shows it. Reaps nothing: a child's exit
    status is left to the process that started it.
    """
    spared = {psutil.Process(), *_ancestors(psutil.Process())}
    known: set[psutil.Process] = set()
    if grace > 0:
        known = _freeze(label, root, known, spared)
        _signal(known, psutil.Process.terminate)
        _signal(known, psutil.Process.resume)
        _wait(known, grace)
    for _ in range(_ROUNDS):
        known = _freeze(label, root, known, spared)
        living = [process for process in known if _alive(process)]
        if not living:
            break
        _signal(living, psutil.Process.kill)
        _wait(living, _PATIENCE)
    return sum(not _alive(process) for process in known)


def _freeze(
    label: str, root: int | None, known: set[psutil.Process], spared: set[psutil.Process]
) -> set[psutil.Process]:
    """All processes known to belong to the tree, now and before, with the living ones suspended."""
    stopped: set[psutil.Process] = set()
    for _ in range(_ROUNDS):
        heads = [*_carriers(label), *_root(root), *known]
        fresh = set(_tree(heads)) - spared - stopped
        if not fresh:
            break
        _signal(fresh, psutil.Process.suspend)
        stopped |= fresh
        known = known | fresh
    return known


def _tree(heads: Iterable[psutil.Process]) -> Iterator[psutil.Process]:
    """The heads and their descendants that are alive, each once."""
    seen: set[psutil.Process] = set()
    for head in heads:
        if head not in seen:
            for process in (head, *_descendants(head)):
                if process not in seen and _alive(process):
                    seen.add(process)
                    yield process


def _carriers(label: str) -> Iterator[psutil.Process]:
    """The processes that have the label, or one nested in it."""
    for pid in psutil.pids():
        if _may_carry(pid, label):
            process = _process(pid)
            # Checked again on the process object, whose identity is fixed: the pid may have been reused.
            if process is not None and _carries(process, label):
                yield process


def _may_carry(pid: int, label: str) -> bool:
    """A fast check before psutil's, on Linux: a machine may run thousands of processes."""
    if not sys.platform.startswith("linux"):
        return True
    try:
        with open(f"/proc/{pid}/environ", "rb") as file:
            return os.fsencode(f"{LABEL}={label}") in file.read()
    except OSError:
        return False


def _carries(process: psutil.Process, label: str) -> bool:
    """Whether the process has the label, or one nested in it."""
    try:
        return f"{process.environ().get(LABEL, '')}/".startswith(f"{label}/")
    except _GONE:
        return False


def _process(pid: int) -> psutil.Process | None:
    """The process of a pid; None if there is none, or it may not be inspected."""
    try:
        return psutil.Process(pid)
    except _GONE:
        return None


def _root(pid: int | None) -> list[psutil.Process]:
    """The root of the tree, if it is this process or descends from it."""
    process = None if pid is None else _process(pid)
    return [process] if process and psutil.Process() in (process, *_ancestors(process)) else []


def _ancestors(process: psutil.Process) -> list[psutil.Process]:
    """Its parent, that one's parent and so on; empty if the process is gone.

    An ancestor may end meanwhile, and its children get another parent: then they are collected again.
    """
    while _alive(process):
        try:
            return process.parents()
        except psutil.NoSuchProcess:
            continue
        except psutil.AccessDenied:
            break
    return []


def _descendants(process: psutil.Process) -> list[psutil.Process]:
    """All descendants; empty if it is gone."""
    try:
        return process.children(recursive=True)
    except _GONE:
        return []


def _alive(process: psutil.Process) -> bool:
    """Whether it is running and no zombie."""
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except _GONE:
        return False


def _signal(processes: Iterable[psutil.Process], send: Callable[[psutil.Process], None]) -> None:
    """Send a signal to each, ignoring those that are gone."""
    for process in processes:
        try:
            send(process)
        except _GONE:
            continue


def _wait(processes: Iterable[psutil.Process], seconds: float) -> None:
    """Poll until all are dead or the time is up; never reaps."""
    deadline, pause = time.monotonic() + seconds, 0.001
    living = list(processes)
    while (living := [process for process in living if _alive(process)]) and time.monotonic() < deadline:
        time.sleep(pause)
        pause = min(2 * pause, 0.02)
