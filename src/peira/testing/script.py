"""A scripted agent, which does what its case says in every runner: thread, event loop or process.

A script is a list of acts, each a list of a verb and its arguments; the value of the last one is the output.

    ["return", value]         ["raise", message]        ["hang"]     until it is abandoned
    ["step", name, value]     ["log", name, value]      ["report", name, number]
    ["attach", name, text]    ["trial"]                 ["random"]   a draw from the trial's own generator
    ["write", text]           to a file of its private folder; its value is what it reads there
    ["exit", code]            ["kill"]                  its process, if it has one of its own
    ["spawn"]                 starts a process that would live on, and logs it as started; its value is
                              the pid
    ["ask", question]         a model; its value is the answer, or the error
    ["leave", question]       asks, and does not wait for the answer
    ["together", script, script, ...]     concurrently; its value is the values of all their acts
"""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from typing import Any, NoReturn

from peira.agents import FunctionAgent
from peira.core.ask import ask, ask_async
from peira.core.context import SeenCase, Trial, current_trial
from peira.core.contracts import Attempt
from peira.core.ids import Json, digest
from peira.core.log.events import TaskSpec
from peira.core.models import Request
from peira.core.steps import step
from peira.engine.stages import GenerateWork
from peira.errors import PeiraError

Acts = list[list[Any]]
KIND = "scripted"
MODEL = "scripted:"
PAUSE = 0.01


def scripted(case: SeenCase) -> Json:
    """The agent as a plain function."""
    return _last(_perform(case.input))


def _perform(acts: Acts) -> list[Json]:
    """The values of the acts."""
    return [VERBS[verb](current_trial(), *arguments) for verb, *arguments in acts]


async def scripted_async(case: SeenCase) -> Json:
    """The agent as a coroutine function."""
    return _last(await _perform_async(case.input))


async def _perform_async(acts: Acts) -> list[Json]:
    """The values of the acts, awaited where the verb has an asynchronous form."""
    values = []
    for verb, *arguments in acts:
        value = AWAITED.get(verb, VERBS[verb])(current_trial(), *arguments)
        values.append(await value if verb in AWAITED else value)
    return values


def _last(values: list[Json]) -> Json:
    """The output of a script."""
    return values[-1] if values else None


def scripted_attempt(name: str, *acts: Json, asynchronous: bool = False, epoch: int = 1) -> Attempt:
    """An attempt at a task of this name, whose case is a script of these acts."""
    task = digest(name)
    agent = FunctionAgent(scripted_async if asynchronous else scripted, label=KIND)
    work = GenerateWork(agent, task, SeenCase([list(act) for act in acts], name), {}, 0)
    return Attempt(TaskSpec(task, KIND, KIND), epoch, work)


def _hang(_: Trial) -> NoReturn:
    while True:  # until the channel raises Abandoned, so that no thread outlives a test
        current_trial().channel.recall(digest("hang"))
        time.sleep(PAUSE)


async def _hang_async(_: Trial) -> None:
    await asyncio.Event().wait()


def _together(_: Trial, *scripts: Acts) -> list[list[Json]]:
    with ThreadPoolExecutor(len(scripts)) as threads:
        under_way = [threads.submit(copy_context().run, _perform, acts) for acts in scripts]
        return [one.result() for one in under_way]


async def _together_async(_: Trial, *scripts: Acts) -> list[list[Json]]:
    return await asyncio.gather(*map(_perform_async, scripts))


def _ask(_: Trial, question: str) -> str:
    try:
        return ask(MODEL, question).text
    except PeiraError as problem:
        return f"{type(problem).__name__}: {problem}"


async def _ask_async(_: Trial, question: str) -> str:
    try:
        return (await ask_async(MODEL, question)).text
    except PeiraError as problem:
        return f"{type(problem).__name__}: {problem}"


def _leave(trial: Trial, question: str) -> None:
    trial.channel.call(MODEL, Request(({"role": "user", "content": question},)), "")


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


def _spawn(trial: Trial) -> int:
    apart = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL, "start_new_session": True}
    pid: int = subprocess.Popen(["sleep", "600"], **apart).pid  # type: ignore[call-overload]
    trial.log("started", pid=pid)
    return pid


AWAITED: dict[str, Callable[..., Any]] = {
    "hang": _hang_async,
    "ask": _ask_async,
    "together": _together_async,
}
VERBS: dict[str, Callable[..., Any]] = {
    "hang": _hang,
    "ask": _ask,
    "leave": _leave,
    "together": _together,
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
