"""Packages that open their rooms when something of them is asked for."""

from __future__ import annotations

import ast
import builtins
import py_compile
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from importlib import import_module
from pathlib import Path
from threading import Event
from types import ModuleType
from zipfile import ZipFile

import pytest

import peira.data
import peira.models
import peira.runners
from peira.core.lazy import late
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
REGISTERING = {*SHELVES} - {"peira.models"}
"""They name some of what they have a second time, to register it under another name."""
DOORS = [
    "peira.analysis",
    "peira.app",
    "peira.engine",
    "peira.report.telemetry",
    "peira.sandbox",
    "peira.spec",
]
DOORS += SHELVES


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
    [checked] = [node for node in tree.body if isinstance(node, ast.With)]
    seen = {
        alias.name: node.module
        for node in checked.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    assert seen == door.room_of
    assert set(seen) <= set(door.__all__)


def test_each_name_is_declared_once(door: ModuleType) -> None:
    tree = ast.parse(Path(door.__file__ or "").read_text())
    [declared] = [node for node in tree.body if isinstance(node, ast.With)]
    outside = [node for node in tree.body if node is not declared]
    words = [node.value for part in outside for node in ast.walk(part) if isinstance(node, ast.Constant)]
    if door.__name__ not in REGISTERING:
        assert not {*door.room_of} & {*words}
    assert door.__all__ == sorted(door.__all__)


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


PACKAGE = {
    "parcel/__init__.py": """
from peira.core.lazy import lazy_imports
with lazy_imports(__name__, "WEIGHT") as _names:
    from parcel import inner as inner
    from parcel.inner import box as box
    from parcel.inner import crate as crate
    from parcel.deep import deeper as deeper
NAMES = tuple(_names)
WEIGHT = 3
""",
    "parcel/inner.py": "import json\nbox, crate = 'a box', 'a crate'\n",
    "parcel/deep/__init__.py": "",
    "parcel/deep/deeper.py": "",
}
ASKING = """
import builtins, sys
real = builtins.__import__
import parcel
assert builtins.__import__ is real
assert parcel.__all__ == ["WEIGHT", "box", "crate", "deeper", "inner"], parcel.__all__
assert parcel.NAMES == ("inner", "box", "crate", "deeper"), parcel.NAMES
assert not [name for name in sys.modules if name.startswith("parcel.")]
assert parcel.box == "a box" and "parcel.inner" in sys.modules
assert parcel.inner is sys.modules["parcel.inner"]
from parcel import *
assert (WEIGHT, crate, deeper.__name__) == (3, "a crate", "parcel.deep.deeper")
"""


def test_lazy_imports_from_a_zip_file(tmp_path: Path) -> None:
    with ZipFile(tmp_path / "parcel.zip", "w") as archive:
        for name, text in PACKAGE.items():
            archive.writestr(name, text)
    code = f"import sys; sys.path.insert(0, {str(tmp_path / 'parcel.zip')!r})\n{ASKING}"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_lazy_imports_without_source(tmp_path: Path) -> None:
    for name, text in PACKAGE.items():
        source = tmp_path / name
        source.parent.mkdir(exist_ok=True)
        source.write_text(text)
        py_compile.compile(str(source), str(source.with_suffix(".pyc")), doraise=True)
        source.unlink()
    code = f"import sys; sys.path.insert(0, {str(tmp_path)!r})\n{ASKING}"
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.parametrize("statement", ["import json", "from . import inner"])
def test_only_from_module_import_name_can_be_lazy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, statement: str
) -> None:
    package = tmp_path / "wrongly"
    package.mkdir()
    lines = ["from peira.core.lazy import lazy_imports", "with lazy_imports(__name__):", f"    {statement}"]
    (package / "__init__.py").write_text("\n".join(lines))
    monkeypatch.syspath_prepend(tmp_path)
    before = builtins.__import__
    with pytest.raises(ImportError, match="wrongly: a lazy import is written `from module import name`"):
        import_module("wrongly")
    assert builtins.__import__ is before


def test_other_threads_import_as_ever_meanwhile(monkeypatch: pytest.MonkeyPatch) -> None:
    modules = [ModuleType(f"meanwhile_{number}") for number in range(8)]
    for module in modules:
        monkeypatch.setitem(sys.modules, module.__name__, module)
    before = builtins.__import__
    body = "from peira.core.lazy import lazy_imports\nwith lazy_imports(__name__):\n"
    body += "".join(f"    from somewhere import name_{number}\n" for number in range(200))
    stop = Event()

    def declare(module: ModuleType) -> None:
        for _ in range(20):
            module.__class__ = ModuleType
            exec(body, module.__dict__)

    def import_often() -> int:
        done = 0
        while not stop.is_set():
            from fractions import Fraction

            assert Fraction is not None
            done += 1
        return done

    with ThreadPoolExecutor(10) as pool:
        importing = pool.submit(import_often)
        for declared in [pool.submit(declare, module) for module in modules]:
            declared.result()
        stop.set()
        assert importing.result() > 0
    assert builtins.__import__ is before
    for module in modules:
        assert len(module.__dict__["room_of"]) == 200


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
    registry = Registry()
    assert all(callable(registry.look("model", name)) for name in PROVIDERS)
    assert registry.names("model") == sorted(PROVIDERS)


def test_a_promise_made_again_after_it_was_kept_is_no_quarrel() -> None:
    registry = Registry()
    for _ in range(2):
        peira.models.register(registry)
        assert registry.make("model", "scripted", model="").name == "scripted:"
