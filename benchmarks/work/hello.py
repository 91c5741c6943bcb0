"""A hello world of 16 trials, and how much of a package's code it executes: one package, one process.

The package is imported first and counting starts after it, so that what counts is the work asked for. What a
package imports only when it is needed is imported then, and counted.

A function is what `def`, `async def` or `lambda` makes, and it is executed if its body ran. The bodies of
classes and comprehensions (from Python 3.12 on part of the function around them) are code objects, but no
functions: `code` counts those, too.
"""

from __future__ import annotations

import argparse
import contextlib
import inspect
import io
import json
import os
import sys
import threading
from collections.abc import Callable
from importlib import import_module
from importlib.metadata import version
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

N = 16


def peira() -> None:
    from peira import Case, run, study

    @study(
        cases=[Case(f"question {i}", expected=f"question {i}") for i in range(N // 2)],
        factors={"style": ["plain", "loud"]},
        evaluators=["exact"],
    )
    def echo(case: Any, style: str) -> str:
        return str(case.input) if style == "plain" else str(case.input).upper()

    print(run(echo, store="hello.db").table("style"))


def optuna() -> None:
    from optuna import create_study, logging  # type: ignore[import-not-found]

    logging.set_verbosity(logging.WARNING)
    study = create_study(storage="sqlite:///hello.db")
    study.optimize(lambda trial: trial.suggest_float("x", -10, 10) ** 2, n_trials=N)
    print(study.best_params)


def dbos() -> None:
    from dbos import DBOS  # type: ignore[import-not-found]

    DBOS(config={"name": "hello", "system_database_url": "sqlite:///hello.db"})

    @DBOS.workflow()  # type: ignore[untyped-decorator]
    def echo(text: str) -> str:
        return text

    DBOS.launch()
    print([echo(f"question {i}") for i in range(N)])
    DBOS.destroy()


def pydantic_evals() -> None:
    from pydantic_evals import Case, Dataset  # type: ignore[import-not-found]
    from pydantic_evals.evaluators import EqualsExpected  # type: ignore[import-not-found]

    texts = [f"question {i}" for i in range(N)]
    cases = [Case(name=text, inputs=text, expected_output=text) for text in texts]
    report = Dataset(name="echo", cases=cases, evaluators=[EqualsExpected()]).evaluate_sync(_same)
    report.print()


def _same(text: str) -> str:
    return text


HELLO: dict[str, Callable[[], None]] = {
    "peira": peira,
    "optuna": optuna,
    "dbos": dbos,
    "pydantic_evals": pydantic_evals,
}


def executed(package: str) -> list[CodeType]:
    """The code of the package that its hello world executed in any thread, except the bodies of modules."""
    os.environ["XDG_CACHE_HOME"] = str(Path.cwd() / "cache")  # nothing is known from another time
    folder = str(Path(str(import_module(package).__file__)).parent) + os.sep
    seen: dict[int, CodeType] = {}

    def note(frame: FrameType, event: str, _: Any) -> None:
        if event == "call":
            seen[id(frame.f_code)] = frame.f_code

    threading.setprofile(note)
    sys.setprofile(note)
    try:
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
            HELLO[package]()
    finally:
        sys.setprofile(None)
        threading.setprofile(None)
    codes = list(seen.values())
    return [code for code in codes if code.co_filename.startswith(folder) and code.co_name != "<module>"]


def is_function(code: CodeType) -> bool:
    """Whether `def`, `async def` or `lambda` made it."""
    written = code.co_name == "<lambda>" or not code.co_name.startswith("<")
    return written and bool(code.co_flags & inspect.CO_OPTIMIZED)  # which the body of a class is not


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("package", choices=tuple(HELLO))
    package = parser.parse_args().package
    codes = executed(package)
    functions = [code for code in codes if is_function(code)]
    row = {
        "name": package.replace("_", "-"),
        "version": version(package.replace("_", "-")),
        "functions": len(functions),
        "function_files": len({code.co_filename for code in functions}),
        "code": len(codes),
        "code_files": len({code.co_filename for code in codes}),
    }
    print(json.dumps(row))


if __name__ == "__main__":
    main()
