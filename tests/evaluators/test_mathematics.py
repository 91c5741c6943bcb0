from __future__ import annotations

import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import psutil
import pytest

from peira.core.transforms import NoAnswer
from peira.errors import Invalid, ProcessDied, TimedOut
from peira.evaluators import math_equal
from peira.evaluators.mathematics import HelperProcesses
from peira.evaluators.mathematics_worker import marked


def judged(output: object, expected: object, seconds: float = 20.0) -> Any:
    return math_equal(seconds).judge({"output": output, "expected": expected})


@pytest.mark.parametrize(
    ("output", "expected"),
    [
        ("so it is $\\frac{1}{2}$.", "0.5"),
        ("\\frac{2}{4}", "1/2"),
        ("\\boxed{\\frac{1}{2}}", "\\frac{1}{2}"),
        ("x^2 + 2x + 1", "(x+1)^2"),
        ("\\sqrt{8}", "2\\sqrt{2}"),
        ("\\{3, 1\\}", "\\{1, 3\\}"),
        ("1,234", "1234"),
        ("the answer is 42", 42),
        ("2\\pi", ["\\pi", "\\pi + \\pi"]),
        ("no mathematics", "no mathematics"),
    ],
)
def test_what_means_the_same_is_equal(output: str, expected: object) -> None:
    assert judged(output, expected) is True


@pytest.mark.parametrize(
    ("output", "expected"),
    [
        ("\\frac{1}{3}", "0.5"),
        ("x + 1", "x + 2"),
        ("2\\pi", "2"),
        ("", "5"),
        ("many", "5"),
        (NoAnswer("empty"), "5"),
    ],
)
def test_what_does_not_is_not(output: object, expected: object) -> None:
    assert judged(output, expected) is False


def test_it_works_in_many_threads_at_once() -> None:
    with ThreadPoolExecutor(3) as pool:
        found = pool.map(lambda i: judged(f"\\frac{{{i}}}{{7}}", f"{i + i % 2}/7"), range(30))
    assert list(found) == [i % 2 == 0 for i in range(30)]


def test_what_takes_too_long_is_a_failure_and_the_next_is_judged() -> None:
    with pytest.raises(TimedOut, match=r"not computed within 0\.5 s"):
        judged("$10^{10^{10}}$", "5", seconds=0.5)
    assert judged("\\frac{1}{2}", "0.5") is True


@pytest.mark.parametrize(
    ("text", "as_latex"),
    [
        ("x^2", True),
        ("\\text{even}", True),
        ("1/2", False),
        ("the answer", False),
        ("$x$", False),
        ("\\boxed{x}", False),
    ],
)
def test_a_text_that_is_an_expression_is_read_as_latex(text: str, as_latex: bool) -> None:
    assert marked(text) == (f"${text}$" if as_latex else text)


def test_an_aide_that_dies_is_a_failure() -> None:
    aides = HelperProcesses("peira.no_such_module")
    with pytest.raises(ProcessDied, match="ended with 1"):
        aides.ask("anything", 5)


@pytest.mark.parametrize("question", ["1/2", "10^{10^{10}}"], ids=["idle", "busy"])
def test_no_aide_outlives_the_process_that_started_it(question: str) -> None:
    script = (
        "import os, psutil, threading, time; from peira.evaluators import math_equal\n"
        f"facts = {{'output': '${question}$', 'expected': '0.5'}}\n"
        "thread = threading.Thread(target=math_equal(5).judge, args=[facts], daemon=True); thread.start()\n"
        "while not (aides := psutil.Process().children()): time.sleep(0.01)\n"
        "while thread.is_alive() and aides[0].cpu_times().user < 1.5: time.sleep(0.01)\n"
        "print(aides[0].pid, flush=True)\n"
        "os.kill(os.getpid(), 9)"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    aide = int(done.stdout)
    if psutil.pid_exists(aide):
        psutil.Process(aide).wait(timeout=30)


@pytest.mark.parametrize("seconds", [0, -1, "5", True, 10_000])
def test_wrong_options_are_refused(seconds: Any) -> None:
    with pytest.raises(Invalid, match="seconds"):
        math_equal(seconds)
