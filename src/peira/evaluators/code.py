"""Evaluators of code: `code_tests` runs it with its tests in a sandbox, `code_bleu` compares it.

The tests run in another process than the candidate, which answers by values over a pipe: what is expected,
and what decides, never is in the process that could look for it. `code_driver` is both.
"""

from __future__ import annotations

import inspect
import marshal
import os
import platform
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from functools import lru_cache, partial
from typing import Any, ClassVar, NamedTuple

from peira.core.ids import Json
from peira.core.registry import nearest
from peira.core.text.numbers import is_number
from peira.core.transforms import NoAnswer, as_transform
from peira.errors import Invalid
from peira.evaluators import code_driver, code_values
from peira.evaluators.comparison import VERSION, Comparison, load, needs, text_of, texts
from peira.sandbox.confinement import MIB, Limits, interpreter, needs_confinement
from peira.sandbox.run import ProcessOutcome, run_confined

SAID = ("none", "assertion", "exception", "syntax", "exit", "memory", "timeout", "tests")
"""Results that the driver in the sandbox may report; "no code" is determined here."""

KEYS = ("tests", "entry_point", "prompt")
PYTHON = ("-S", "-s", "-P", "-B")
"""Interpreter options: only the standard library, not shadowed by the working directory."""

START = """
import marshal, os, sys
def take(length):
    found = b""
    while len(found) < length:
        found += os.read(0, length - len(found)) or os._exit(1)
    return found
for name, code in marshal.loads(take(int(take(16), 16))):
    sys.modules[name] = type(sys)(name)
    exec(code, sys.modules[name].__dict__)
sys.modules[name].main()
"""
"""Reads the compiled driver, and nothing beyond it, from standard input, and starts it."""

ENVIRONMENT = {"PYTHONHASHSEED": "0"}
BLOCK = {"name": "code_block", "language": "python"}


class CodeTask(NamedTuple):
    """The prompt, the tests, and the name of the function under test ("" if none is given)."""

    prompt: str
    tests: str
    entry: str


@dataclass(frozen=True, repr=False)
class CodeTests:
    """Runs the code of an output with the tests of its case; see `code_tests`."""

    seconds: float
    """The time limit of a run."""
    memory: int
    """The memory limit of a run in MiB."""
    fenced: bool
    """Whether to extract the last fenced code block."""
    allow_unconfined: bool
    """Whether to run without a sandbox where none is available."""
    name: ClassVar[str] = "code_tests"
    asynchronous: ClassVar[bool] = False
    takes: ClassVar[frozenset[str]] = frozenset({"output", "expected", "case"})

    @property
    def identity(self) -> Json:
        """Options, Python version, and whether the code is confined."""
        python = f"{platform.python_implementation()} {platform.python_version()}"
        confined = needs_confinement(self.name, allow_unconfined=True) is not None
        about = {"python": python, "confined": confined}
        return {
            "evaluator": self.name,
            "config": asdict(self),
            "version": VERSION,
            "checks": "apart",
            **about,
        }

    def judge(self, facts: Mapping[str, Any]) -> dict[str, bool | str]:
        """`passed`, and the `error` if not; raises `Invalid` for a case without valid tests."""
        asked = _asked(facts["expected"], facts["case"].metadata)
        code = self._code(facts["output"])
        if not code.strip():
            return {"passed": False, "error": "no code"}
        error, confined = self._run(asked, code)
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

    def _run(self, asked: CodeTask, code: str) -> tuple[str, bool]:
        """The result of one run, and whether it was confined."""
        word = os.urandom(16).hex().encode()
        texts = (asked.prompt + code, asked.entry, asked.prompt, asked.tests)
        candidate, *rest = (text.encode(errors="replace") for text in texts)
        outcome = run_confined(
            [interpreter(), *PYTHON, "-c", START],
            stdin=b"".join([*_sized(_driver()), *_sized(candidate), word, *_sized(*rest)]),
            limits=Limits(seconds=self.seconds, memory=self.memory * MIB),
            env=ENVIRONMENT,
            allow_unconfined=self.allow_unconfined,
        )
        return _error(outcome, word), outcome.confined


def code_tests(
    seconds: float = 10.0, memory: int = 512, fenced: bool = True, allow_unconfined: bool = False
) -> CodeTests:
    """Whether Python code passes the case's tests, run in a sandbox; `error` says why not.

    The expected value is the tests, or {"tests": ..., "entry_point": ..., "prompt": ...}; fields that the
    agent may see can be in the metadata instead. Tests are code that raises, or a list of such lines; with an
    `entry_point` they define `check`, which is called with it. The `prompt` is put before the code. The code
    is the last fenced block of the output, or the whole output if there is none or `fenced` is false.

    `seconds` and `memory` (MiB) limit each run. Only the standard library can be imported. Without bubblewrap
    there is no sandbox and this raises, unless `allow_unconfined`: such scores have `confined` = false, and
    are not reused where there is a sandbox.
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


def _asked(expected: Json, metadata: Mapping[str, Json]) -> CodeTask:
    """The prompt and tests of a case, from the expected value and the metadata; raises `Invalid`."""
    own = expected if isinstance(expected, Mapping) else {} if expected is None else {"tests": expected}
    given = {key: own.get(key, metadata.get(key)) for key in KEYS}
    tests, entry, prompt = _lines(given["tests"]), given["entry_point"], given["prompt"]
    if not tests:
        raise Invalid("code_tests needs tests, as a text or a list of lines; this case has none")
    if entry is not None and not (isinstance(entry, str) and entry.isidentifier()):
        raise Invalid(f"code_tests: entry_point={entry!r} is not the name of a function")
    if prompt is not None and not isinstance(prompt, str):
        raise Invalid(f"code_tests: prompt={prompt!r} is not a text")
    return CodeTask(prompt or "", tests if entry is None else f"{tests}\ncheck({entry})\n", entry or "")


def _lines(given: Json) -> str:
    """The tests as one text; "" if they are not texts."""
    lines = given if isinstance(given, list | tuple) else [given]
    return "\n".join(lines) if all(isinstance(line, str) and line.strip() for line in lines) else ""


@lru_cache(maxsize=1)
def _driver() -> bytes:
    """The program that runs in the sandbox, compiled: compiling it takes longer than most tests."""
    modules = (code_values, code_driver)
    return marshal.dumps(
        [(one.__name__, compile(inspect.getsource(one), one.__name__, "exec")) for one in modules]
    )


def _sized(*parts: bytes) -> Iterator[bytes]:
    """Each part after its length in 16 digits."""
    for part in parts:
        yield b"%016x" % len(part)
        yield part


def _error(outcome: ProcessOutcome, word: bytes) -> str:
    """The reported result if it carries the secret word, else the reason from the process outcome."""
    said = outcome.stdout.removeprefix(word).decode(errors="replace")
    if outcome.stdout.startswith(word) and said in SAID:
        return said
    if outcome.timed_out:
        return "timeout"
    return "memory" if outcome.killed_by == "memory" else "exit"


PARTS = (
    "codebleu",
    "ngram_match_score",
    "weighted_ngram_match_score",
    "syntax_match_score",
    "dataflow_match_score",
)
NAMES = ("score", "ngrams", "keywords", "syntax", "dataflow")
LANGUAGES = ("python", "c", "c_sharp", "cpp", "go", "java", "javascript", "ruby", "rust")
GRAMMARS = {language: f"tree-sitter-{language.replace('_', '-')}" for language in LANGUAGES}


def code_bleu(language: str = "python") -> Comparison:
    """CodeBLEU and its four parts: n-grams, keyword-weighted n-grams, syntax and data flow.

    It measures how similar two programs look; `code_tests` measures whether one works. `language` is one of
    python, c, c_sharp, cpp, go, java, javascript, ruby and rust.
    """
    if language not in GRAMMARS:
        raise Invalid(f"code_bleu: language={language!r}{nearest(str(language), GRAMMARS)}")
    known = needs("code_bleu", "codebleu", GRAMMARS[language], install="'peira[code]'")
    options = (("language", language),)
    none = dict.fromkeys(NAMES, 0.0)
    return Comparison("code_bleu", partial(_code_bleu, language), options, no_answer=none, libraries=known)


def _code_bleu(language: str, output: Json, expected: Json) -> dict[str, float]:
    said, references = texts("code_bleu", output, expected)
    found: dict[str, Any] = load("codebleu").calc_codebleu([references], [said], lang=language)
    return {name: min(max(float(found[part]), 0.0), 1.0) for name, part in zip(NAMES, PARTS, strict=True)}
