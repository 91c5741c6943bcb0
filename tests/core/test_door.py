"""Packages that open their rooms when something of them is asked for."""

from __future__ import annotations

import ast
import subprocess
import sys
from importlib import import_module
from pathlib import Path
from types import ModuleType

import pytest

import peira.data
import peira.models
import peira.runners
from peira.core.door import late
from peira.core.registry import Registry
from peira.models.names import PROVIDERS

SHELVES = [
    "peira.agents",
    "peira.data",
    "peira.evaluators",
    "peira.models",
    "peira.runners",
    "peira.transforms",
]
DOORS = [*SHELVES, "peira.api", "peira.engine", "peira.report.telemetry", "peira.sandbox", "peira.spec"]


def test_a_room_opens_when_something_of_it_is_asked_for() -> None:
    code = (
        "import sys, peira.evaluators as shelf\n"
        "assert 'peira.evaluators.calibration' not in sys.modules\n"
        "import peira.evaluators.calibration\n"
        "from peira.evaluators import calibration\n"
        "assert callable(calibration) and shelf.calibration is calibration\n"
        "assert 'peira.evaluators.code' not in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.fixture(params=DOORS)
def door(request: pytest.FixtureRequest) -> ModuleType:
    return import_module(request.param)


def test_every_name_is_there_and_no_other(door: ModuleType) -> None:
    for name in door.__all__:
        assert getattr(door, name)
    assert set(door.__all__) <= set(dir(door))
    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        _ = door.nonsense


def test_what_checkers_see_is_what_is_there(door: ModuleType) -> None:
    tree = ast.parse(Path(door.__file__ or "").read_text())
    [checked] = [node for node in tree.body if isinstance(node, ast.If)]
    seen = {
        alias.name: node.module
        for node in checked.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    assert seen == door.room_of


@pytest.mark.parametrize("name", SHELVES)
def test_registering_opens_no_room(name: str) -> None:
    code = (
        f"import sys, {name} as shelf\n"
        "from peira.core.registry import Registry\n"
        "registry = Registry()\n"
        "shelf.register(registry)\n"
        "print(sorted({*shelf.room_of.values()} & {*sys.modules}))\n"
    )
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    names = "['peira.models.names']" if name == "peira.models" else "[]"
    assert done.stdout.strip() == names


def test_what_is_made_late_is_made_with_what_was_given() -> None:
    made = late("fractions", "Fraction")(numerator=1, denominator=2)
    assert repr(made) == "Fraction(1, 2)"
    assert late("fractions", "Fraction") is late("fractions", "Fraction")
    with pytest.raises(TypeError, match="unexpected keyword argument 'tolerence'"):
        late("peira.evaluators", "numeric")(tolerence=1)


def test_the_shelves_offer_what_their_rooms_have() -> None:
    for name, runner in peira.runners.BUILT_IN.items():
        assert getattr(peira.runners, runner).name == name
    registry = Registry()
    peira.data.register(registry)
    assert registry.names("benchmark") == sorted(make.__name__ for make in peira.data.BENCHMARKS)
    for make in peira.data.BENCHMARKS:
        assert registry.make("benchmark", make.__name__) == make()


def test_the_room_of_the_providers_keeps_its_promise() -> None:
    book = Registry()
    import_module("peira.models.providers").register(book)
    assert sorted(name for kind, name in book._made if kind == "model") == sorted(PROVIDERS)


def test_a_promise_made_again_after_it_was_kept_is_no_quarrel() -> None:
    registry = Registry()
    for _ in range(2):
        peira.models.register(registry)
        assert registry.make("model", "scripted", model="").name == "scripted:"
