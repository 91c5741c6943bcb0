"""An agent that does what its case says, wherever it runs: in a thread, on a loop, in another process.

A script is a list of acts, each a list of a verb and its arguments; the value of the last one is the output.

    ["return", value]         ["raise", message]        ["hang"]     until it is abandoned
    ["step", name, value]     ["log", name, value]      ["report", name, number]
    ["attach", name, text]    ["trial"]                 ["random"]   a draw from the trial's own generator
    ["write", text]           in a file of its private folder; gives back what it reads there
    ["exit", code]            ["kill"]                  its process, where that is one of its own
    ["spawn"]                 starts a process that would live on; gives back its pid
"""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import time
from collections.abc import Callable
from typing import Any, NoReturn

from peira.agents import FunctionAgent
from peira.core.context import SeenCase, Trial, current_trial
from peira.core.contracts import Attempt
from peira.core.events import TaskSpec
from peira.core.ids import Json, digest
from peira.core.steps import step
from peira.engine.work import Generate

KIND = "scripted"
PAUSE = 0.01


def scripted(case: SeenCase) -> Json:
    value: Json = None
    for verb, *arguments in case.input:
        if verb == "hang":
            _hang()
        value = VERBS[verb](current_trial(), *arguments)
    return value


async def scripted_async(case: SeenCase) -> Json:
    value: Json = None
    for verb, *arguments in case.input:
        if verb == "hang":
            await asyncio.Event().wait()
        value = VERBS[verb](current_trial(), *arguments)
    return value


def scripted_attempt(name: str, *acts: Json, asynchronous: bool = False, epoch: int = 1) -> Attempt:
    """An attempt, of a task known by this name, at the acts of a script."""
    task = digest(name)
    agent = FunctionAgent(scripted_async if asynchronous else scripted, label=KIND)
    work = Generate(agent, task, SeenCase([list(act) for act in acts], name), {}, 0)
    return Attempt(TaskSpec(task, KIND, KIND), epoch, work)


def _hang() -> NoReturn:
    while True:  # until the channel says that the attempt was abandoned: no thread outlives a test
        current_trial().channel.recall(digest("hang"))
        time.sleep(PAUSE)


def _raise(_: Trial, message: str) -> None:
    raise ValueError(message)


def _same(value: Json) -> Json:
    return value


def _write(trial: Trial, text: str) -> str:
    file = trial.workdir / "note.txt"
    file.write_text(text)
    return file.read_text()


def _trial(trial: Trial) -> Json:
    return [trial.id, trial.case.id, trial.attempt]


def _kill(_: Trial) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def _spawn(_: Trial) -> int:
    apart = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL, "start_new_session": True}
    return subprocess.Popen(["sleep", "600"], **apart).pid  # type: ignore[call-overload, no-any-return]


VERBS: dict[str, Callable[..., Any]] = {
    "return": lambda _, value: value,
    "raise": _raise,
    "step": lambda _, name, value: step(name, _same, value),
    "log": lambda trial, name, value: trial.log(name, value=value),
    "report": lambda trial, name, number: trial.report(**{name: number}),
    "attach": lambda trial, name, text: trial.attach(name, text),
    "trial": _trial,
    "random": lambda trial: trial.rng.random(),
    "write": _write,
    "exit": lambda _, code: os._exit(code),
    "kill": _kill,
    "spawn": _spawn,
}
