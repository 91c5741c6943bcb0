"""Whether code does what it should: `code_tests` runs it with its tests, in a sandbox of its own.

A candidate shares a process with its tests, as is usual. One that ends early, or prints whatever it likes,
does not pass by that; one that was written to search its own process for how it is judged could pretend to.
"""

from __future__ import annotations

import inspect
import os
import platform
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from functools import lru_cache
from typing import Any, ClassVar, NamedTuple

from peira.core.ids import Json
from peira.core.reading.numbers import is_number
from peira.core.transforms import NoAnswer, as_transform
from peira.errors import Invalid
from peira.evaluators import code_driver
from peira.evaluators.comparison import VERSION, text_of
from peira.sandbox.confine import interpreter, needs_confinement
from peira.sandbox.limits import MIB, Limits
from peira.sandbox.run import Outcome, run_confined

SAID = ("none", "assertion", "exception", "syntax", "exit", "memory", "tests")
"""What the sandbox may say of a candidate; "timeout" and "no code" are said of it here."""

KEYS = ("tests", "entry_point", "prompt")
PYTHON = ("-S", "-s", "-P", "-B")
"""The standard library only, and nothing from the working directory in its place."""

ENVIRONMENT = {"PYTHONHASHSEED": "0"}
BLOCK = {"name": "code_block", "language": "python"}


class Asked(NamedTuple):
    """What a case says of the code it asks for."""

    prompt: str
    tests: str


@dataclass(frozen=True, repr=False)
class CodeTests:
    """Runs the code of an output with the tests of its case."""

    seconds: float
    memory: int
    fenced: bool
    allow_unconfined: bool
    name: ClassVar[str] = "code_tests"
    asynchronous: ClassVar[bool] = False
    takes: ClassVar[frozenset[str]] = frozenset({"output", "expected", "case"})

    @property
    def identity(self) -> Json:
        python = f"{platform.python_implementation()} {platform.python_version()}"
        confined = needs_confinement(self.name, allow_unconfined=True) is not None
        about = {"python": python, "confined": confined}
        return {"evaluator": self.name, "config": asdict(self), "version": VERSION, **about}

    def judge(self, facts: Mapping[str, Any]) -> dict[str, bool | str]:
        asked = _asked(facts["expected"], facts["case"].metadata)
        code = self._code(facts["output"])
        if not code.strip():
            return {"passed": False, "error": "no code"}
        error, confined = self._run(asked.prompt + code, asked.tests)
        if error == "tests":  # a mistake in the case, and no candidate's
            raise Invalid("code_tests: the tests of this case are not Python")
        score: dict[str, bool | str] = {"passed": error == "none", "error": error}
        return score if confined else {**score, "confined": False}

    def __repr__(self) -> str:
        return f"{self.name}({', '.join(f'{key}={value!r}' for key, value in asdict(self).items())})"

    def _code(self, output: Json | NoAnswer) -> str:
        if isinstance(output, NoAnswer):
            return ""
        found = as_transform(BLOCK).apply(output) if self.fenced else output
        return text_of(output if isinstance(found, NoAnswer) else found)

    def _run(self, candidate: str, tests: str) -> tuple[str, bool]:
        """What went wrong, and whether it was confined."""
        word, code = os.urandom(16).hex().encode(), candidate.encode(errors="replace")
        outcome = run_confined(
            [interpreter(), *PYTHON, "-c", _driver()],
            stdin=b"%s %d\n%s%s" % (word, len(code), code, tests.encode(errors="replace")),
            limits=Limits(seconds=self.seconds, memory=self.memory * MIB),
            env=ENVIRONMENT,
            allow_unconfined=self.allow_unconfined,
        )
        return _error(outcome, word), outcome.confined


def code_tests(
    seconds: float = 10.0, memory: int = 512, fenced: bool = True, allow_unconfined: bool = False
) -> CodeTests:
    """Python code passes the case's tests, in a sandbox; where it does not, `error` says why.

    What is expected is the tests, or {"tests": ..., "entry_point": ..., "prompt": ...}; metadata may hold
    what the agent may see of these. Tests are code that raises, or a list of such lines; with an
    `entry_point` they define `check`, which is called with it. The `prompt` comes before the code. The
    code is the last fenced block of the output, and all of it where there is none or `fenced` is false.

    `seconds` and `memory` (MiB) bound each run. The standard library is all that is there to import. Without
    bubblewrap there is no sandbox and this is refused, unless `allow_unconfined`: such scores say
    `confined` = false, and do not count where there is a sandbox.
    """
    problems = [
        *(
            []
            if is_number(seconds) and 0 < seconds <= 3600
            else [f"seconds={seconds!r}: above 0, at most 3600"]
        ),
        *([] if type(memory) is int and 64 <= memory <= 1 << 20 else [f"memory={memory!r}: at least 64 MiB"]),
        *(f"{name}={value!r}: true or false" for name, value in _flags(fenced, allow_unconfined)),
    ]
    if problems:
        raise Invalid([f"code_tests: {problem}" for problem in problems])
    needs_confinement("code_tests", allow_unconfined)
    return CodeTests(float(seconds), memory, fenced, allow_unconfined)


def _flags(fenced: object, allow_unconfined: object) -> list[tuple[str, object]]:
    given = {"fenced": fenced, "allow_unconfined": allow_unconfined}
    return [(name, value) for name, value in given.items() if not isinstance(value, bool)]


def _asked(expected: Json, metadata: Mapping[str, Json]) -> Asked:
    own = expected if isinstance(expected, Mapping) else {} if expected is None else {"tests": expected}
    given = {key: own.get(key, metadata.get(key)) for key in KEYS}
    tests, entry, prompt = _lines(given["tests"]), given["entry_point"], given["prompt"]
    if not tests:
        raise Invalid("code_tests needs tests, as a text or a list of lines; this case has none")
    if entry is not None and not (isinstance(entry, str) and entry.isidentifier()):
        raise Invalid(f"code_tests: entry_point={entry!r} is not the name of a function")
    if prompt is not None and not isinstance(prompt, str):
        raise Invalid(f"code_tests: prompt={prompt!r} is not a text")
    return Asked(prompt or "", tests if entry is None else f"{tests}\ncheck({entry})\n")


def _lines(given: Json) -> str:
    lines = given if isinstance(given, list | tuple) else [given]
    return "\n".join(lines) if all(isinstance(line, str) and line.strip() for line in lines) else ""


@lru_cache(maxsize=1)
def _driver() -> str:
    return inspect.getsource(code_driver)


def _error(outcome: Outcome, word: bytes) -> str:
    said = outcome.stdout.removeprefix(word).decode(errors="replace")
    if outcome.stdout.startswith(word) and said in SAID:
        return said
    if outcome.timed_out:
        return "timeout"
    return "memory" if outcome.killed_by == "memory" else "exit"
