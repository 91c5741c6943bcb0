"""Types as users' checkers and frameworks see them."""

from __future__ import annotations

import inspect
import json
import pickle
import subprocess
import sys
import typing
from pathlib import Path

import pytest

import peira
from peira import Case, Study, match, study

PROJECT = Path(__file__).with_name("typed_project.py")


def echo(case: Case) -> str:
    return str(case.input)


@study(cases=["a"], evaluators=[match("end")], factors={"n": [1, 2]})
def decorated(case: Case, n: int) -> str:
    return str(case.input)


def public() -> list[tuple[str, object]]:
    found: list[tuple[str, object]] = []
    for name in peira.__all__:
        value = getattr(peira, name)
        found.append((name, value))
        if inspect.isclass(value):
            own = (item for item in vars(value).items() if inspect.isfunction(item[1]))
            found += [(f"{name}.{key}", method) for key, method in own if not key.startswith(("_", "model_"))]
    return found


@pytest.mark.parametrize(("name", "value"), public(), ids=[name for name, _ in public()])
def test_hints_can_be_resolved(name: str, value: object) -> None:
    assert isinstance(typing.get_type_hints(value), dict)


def test_the_project_of_a_user_uses_every_public_name() -> None:
    """`make check` runs mypy --strict on it."""
    used = PROJECT.read_text()
    assert [name for name in peira.__all__ if name not in used] == []


def test_pyright_accepts_the_project_of_a_user() -> None:
    command = [sys.executable, "-m", "pyright", "--outputjson", "--pythonpath", sys.executable, str(PROJECT)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if not done.stdout.startswith("{"):
        pytest.skip(f"pyright cannot be started here: {done.stderr[-200:]}")
    told = json.loads(done.stdout)["generalDiagnostics"]
    assert [one["message"] for one in told] == []


def test_studies_can_be_pickled() -> None:
    local = Study(name="local", agent=echo, cases=["a", Case("b", "c")], evaluators=[match("end")], repeats=3)
    for one in (local, Study(name="several", agents={"x": echo, "y": echo}, cases=["a"])):
        again = pickle.loads(pickle.dumps(one))
        assert (again, again.name, again.function) == (one, one.name, one.function)
        assert peira.plan(again).conditions == peira.plan(one).conditions


def test_a_decorated_function_is_pickled_by_its_name(tmp_path: Path) -> None:
    """As functions are: what is unpickled is what the module has."""
    (tmp_path / "mine.py").write_text(
        "from peira import study\n@study(cases=['a'])\ndef echo(case):\n    return case.input\n"
    )
    code = "import mine, pickle; assert pickle.loads(pickle.dumps(mine.echo)) is mine.echo"
    subprocess.run([sys.executable, "-c", code], cwd=tmp_path, check=True)


def test_the_command_line_is_a_module() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "peira", "--version"], capture_output=True, text=True, check=True
    )
    assert done.stdout.startswith("peira ")
