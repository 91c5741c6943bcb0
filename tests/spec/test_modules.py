from __future__ import annotations

import os
import pickle
import subprocess
import sys
from functools import partial
from pathlib import Path
from types import ModuleType

import pytest

from peira.errors import Invalid, Loading
from peira.spec.modules import (
    LoadedModules,
    Missing,
    load_file,
    reference,
    refuse_while_loading,
    resolve_reference,
)
from peira.spec.study import study


def at_top(case):
    return case


class Holder:
    @staticmethod
    def method(case):
        return case


alias = lambda case: case  # noqa: E731


@study(cases=["q"])
def decorated(case):
    return case


several = study(agents={"a": at_top}, cases=["q"])


@pytest.fixture
def write(tmp_path):
    def write(name, text):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        return path

    return write


def test_a_run_call_ends_the_loading_and_what_was_defined_stays(write):
    path = write(
        "script.py",
        "from peira.spec.modules import refuse_while_loading as run\n"
        "def answer(case):\n    return 1\n"
        "try:\n    results = run()\nexcept Exception:\n    results = 'swallowed'\n"
        "after = 1\n",
    )
    module = load_file(path)
    assert module.answer(None) == 1
    assert not hasattr(module, "results")
    assert not hasattr(module, "after")


def test_outside_of_loading_nothing_is_refused(write):
    refuse_while_loading()
    load_file(write("fine.py", "x = 1\n"))
    with pytest.raises(Invalid):
        load_file(write("fails.py", "1 / 0\n"))
    refuse_while_loading()


def test_a_file_is_executed_once_for_each_content(write):
    path = write("counted.py", "import sys\nsys.peira_count = getattr(sys, 'peira_count', 0) + 1\n")
    try:
        first = load_file(path)
        assert load_file(str(path)) is first
        assert sys.peira_count == 1
        write("counted.py", "import sys\nsys.peira_count = getattr(sys, 'peira_count', 0) + 2\n")
        assert load_file(path) is not first, "the same size, within the same second"
        assert sys.peira_count == 3
    finally:
        del sys.peira_count


def test_a_module_has_a_stable_private_name(write):
    path = write(
        "named.py",
        "import dataclasses\nname = __name__\n@dataclasses.dataclass\nclass Point:\n    x: int = 1\n",
    )
    module = load_file(path)
    assert module.name == module.__name__ != "__main__"
    assert sys.modules[module.__name__] is module
    assert pickle.loads(pickle.dumps(module.Point(2))) == module.Point(2)
    assert load_file(write("named.py", path.read_text() + "y = 2\n")).__name__ == module.__name__


def test_siblings_can_be_imported_also_later(write):
    write("peira_test_sibling.py", "value = 3\n")
    write("peira_test_later.py", "value = 4\n")
    module = load_file(
        write(
            "main.py",
            "from peira_test_sibling import value\n"
            "def f():\n    import peira_test_later as m\n    return m.value\n",
        )
    )
    assert module.value == 3
    assert module.f() == 4


def test_a_file_in_a_package_can_import_its_kin(write):
    write("peira_test_package/__init__.py", "")
    write("peira_test_package/kin.py", "value = 5\n")
    assert load_file(write("peira_test_package/studies.py", "from .kin import value\n")).value == 5


def test_a_file_may_name_itself_while_it_loads(write):
    path = write(
        "itself.py",
        "from peira.spec.study import Study\ndef f(case):\n    return 1\n"
        "s = Study(agent='itself.py:f', cases=['q'])\n",
    )
    module = load_file(path)
    assert module.s.agents == {"f": module.f}


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("def f(:\n", ":1: invalid syntax"),
        ("x = 1\n\nraise KeyError('k')\n", ":3: KeyError: 'k'"),
        ("import sys\nsys.exit(3)\n", ":2: SystemExit: 3"),
        ("x = '\0'\n", ":1: "),
    ],
)
def test_what_is_wrong_in_a_file_is_one_line(write, text, problem):
    path = write("wrong.py", text)
    with pytest.raises(Invalid) as caught:
        load_file(path)
    [found] = caught.value.problems
    assert problem in found
    assert not [name for name in sys.modules if name.startswith("_peira_wrong_")]


def test_the_problems_of_a_study_in_a_file_are_told_as_they_are(write):
    path = write(
        "bad_study.py",
        "from peira.spec.study import study\n@study(cases=[], repeats=0)\ndef f(case):\n    return 1\n",
    )
    with pytest.raises(Invalid) as caught:
        load_file(path)
    assert list(caught.value.problems) == ["repeats: must be at least 1, not 0", "cases: there are none"]


def test_what_stands_at_the_top_of_a_module_has_a_reference(tmp_path):
    here = str(Path(__file__).resolve())
    assert reference(at_top) == f"{here}:at_top"
    assert reference(Holder.method) == f"{here}:Holder.method"
    assert reference(alias) == f"{here}:alias"
    assert reference(decorated) == f"{here}:decorated"
    assert reference(decorated.function) == f"{here}:decorated"
    assert reference(several) == f"{here}:several"
    assert reference(at_top, Path(__file__).parent) == "test_modules.py:at_top"


def test_what_has_no_name_has_no_reference():
    def inner(case):
        return case

    for nameless in (inner, lambda case: case, partial(at_top, 1), len):
        assert reference(nameless) is None


def test_a_reference_leads_back(write, tmp_path):
    module = load_file(write("code.py", "class A:\n    @staticmethod\n    def f(case):\n        return 1\n"))
    assert reference(module.A.f, tmp_path) == "code.py:A.f"
    assert resolve_reference("code.py:A.f", tmp_path) is module.A.f


@pytest.mark.parametrize("text", ["code.txt:f", "code.py", "code.py:1f", "code.py:"])
def test_other_texts_are_no_references(text, tmp_path):
    with pytest.raises(Invalid, match="does not have the form"):
        resolve_reference(text, tmp_path)


def test_a_script_can_be_named_while_it_runs(tmp_path):
    script = tmp_path / "script.py"
    script.write_text(
        "from peira.spec.modules import reference, resolve_reference\nfrom pathlib import Path\n"
        "def f(case):\n    return 1\n"
        "if __name__ == '__main__':\n"
        "    here = Path(__file__).parent\n"
        "    print(reference(f, here), resolve_reference('script.py:f', here)(0))\n"
    )
    path = {"PYTHONPATH": os.pathsep.join(folder for folder in sys.path if folder)}
    done = subprocess.run(
        [sys.executable, str(script)], capture_output=True, text=True, check=True, env={**os.environ, **path}
    )
    assert done.stdout.split() == ["script.py:f", "1"]


def test_loading_is_no_error_that_user_code_catches():
    assert not issubclass(Loading, Exception)


def test_a_missing_function_says_why_it_cannot_be_used():
    with pytest.raises(Invalid, match="f cannot be used: the file is gone"):
        Missing("f", "the file is gone")(1, case=2)


def test_loaded_modules_are_found_by_their_files_through_links_and_not_by_name_alone(tmp_path, monkeypatch):
    for folder in ("one", "two"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "same.py").touch()
        module = ModuleType(f"same_in_{folder}")
        module.__file__ = str(tmp_path / folder / "same.py")
        monkeypatch.setitem(sys.modules, module.__name__, module)
    (tmp_path / "linked").symlink_to(tmp_path / "one")
    loaded = LoadedModules()
    assert list(loaded.of(str(tmp_path / "linked" / "same.py"))) == ["same_in_one"]
    assert list(loaded.of(str(tmp_path / "two" / "same.py"))) == ["same_in_two"]
    assert loaded.of(str(tmp_path / "same.py")) == {}
