"""The one door for plug-ins, built-in and installed alike, and the hooks."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
import textwrap
import threading
from pathlib import Path
from typing import Any

import pytest

import peira
from peira.core.registry import HOOKS, Registry, nearest
from peira.design import MODULES
from peira.errors import Invalid, Unknown


class Thing:
    def __init__(self, size: int = 1) -> None:
        self.size = size


def test_a_plug_in_is_made_by_name_with_its_configuration() -> None:
    registry = Registry()
    registry.add("thing", "one", Thing)
    assert registry.make("thing", "one").size == 1
    assert registry.make("thing", "one", size=3).size == 3
    assert registry.names("thing") == ["one"]


def test_a_plug_in_is_made_with_those_of_the_facts_that_it_takes() -> None:
    registry, facts = Registry(), {"size": 3, "weight": 4}
    registry.add("thing", "some", Thing)
    registry.add("thing", "none", list)
    registry.add("thing", "all", lambda **all_of_them: all_of_them)
    assert registry.make_from("thing", "some", facts).size == 3
    assert registry.make_from("thing", "all", facts) == facts
    assert registry.make_from("thing", "none", facts) == []


def test_a_name_has_one_owner_in_its_kind() -> None:
    registry = Registry()
    registry.add("thing", "one", Thing)
    registry.add("thing", "one", Thing)  # the same plug-in, met again
    registry.add("other", "one", dict)
    with pytest.raises(Invalid, match="two plug-ins offer the thing 'one'"):
        registry.add("thing", "one", dict)


def test_an_unknown_name_is_answered_with_the_nearest() -> None:
    registry = Registry()
    registry.add("thing", "sprocket", Thing)
    with pytest.raises(Unknown, match="no thing 'sproket'; did you mean 'sprocket'"):
        registry.make("thing", "sproket")
    with pytest.raises(Unknown, match="no thing 'x'; known: sprocket"):
        registry.make("thing", "x")
    with pytest.raises(Unknown, match=r"no gadget 'x'$"):
        registry.make("gadget", "x")


def test_nearest_says_what_was_probably_meant() -> None:
    assert nearest("modle", ["style", "model"]) == "; did you mean 'model'?"
    assert nearest("q", ["b", "a"]) == "; known: a, b"
    assert nearest("q", []) == ""


def test_built_ins_come_through_the_door() -> None:
    registry = Registry()
    assert "full_factorial" in registry.names("design")
    assert "function" in registry.names("agent")
    assert registry.names("runner") == ["local", "process", "ray"]
    assert registry.names("store") == ["postgresql", "sqlite"]
    assert registry.names("stop") == ["decided", "racing", "successive_rejects"]
    assert {"exact", "match", "includes", "regex", "numeric"} <= set(registry.names("evaluator"))


def test_whoever_asks_first_all_wait_for_the_plug_ins() -> None:
    for _ in range(5):
        registry, together = Registry(), threading.Barrier(8)
        found: list[list[str]] = []

        def ask(registry: Registry = registry, together: threading.Barrier = together) -> None:
            together.wait()
            found.append(registry.names("agent"))  # noqa: B023

        threads = [threading.Thread(target=ask) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        kinds = ["agent", "command", "constant", "conversation", "function", "graph", "random"]
        assert found == [kinds] * 8


class Listener:
    def __init__(self) -> None:
        self.heard: list[Any] = []

    def run_began(self, run: str) -> None:
        self.heard.append(run)


def test_a_listener_hears_what_it_has_a_method_for_until_it_is_unhooked() -> None:
    registry, listener, other = Registry(), Listener(), Listener()
    assert not registry.listening
    registry.hook(listener)
    registry.hook(other)
    registry.call("run_began", run="r")
    registry.call("run_ended", run="r", status="completed")
    registry.unhook(listener)
    registry.call("run_began", run="s")
    assert (listener.heard, other.heard) == (["r"], ["r", "s"])
    registry.unhook(other)
    assert not registry.listening


def test_what_has_no_hook_is_no_listener() -> None:
    with pytest.raises(Invalid, match=f"Thing has none of the hooks {', '.join(HOOKS)}"):
        Registry().hook(Thing())


def test_a_hook_that_raises_is_named_once_and_the_others_are_called(caplog: Any) -> None:
    class Broken:
        def run_began(self, run: str) -> None:
            raise RuntimeError("out of order")

    registry, listener = Registry(), Listener()
    registry.hook(Broken())
    registry.hook(listener)
    with caplog.at_level(logging.WARNING, logger="peira"):
        registry.call("run_began", run="r")
        registry.call("run_began", run="s")
    assert listener.heard == ["r", "s"]
    [record] = caplog.records
    assert "Broken.run_began failed and is ignored: RuntimeError: out of order" in record.getMessage()


PLUGIN = """
class Shouting:
    name = "shouting"
    takes = frozenset({"output"})
    asynchronous = False
    identity = "shouting 1"

    def judge(self, facts):
        return facts["output"].isupper()

class Listener:
    def run_ended(self, run, status):
        print("run ended:", status)

def register(registry):
    registry.add("evaluator", "shouting", Shouting)
    registry.hook(Listener())
"""
STUDY = """
import sys
import peira
assert "peira_shouting" not in sys.modules, "nothing is imported before something is looked up"
from peira import Case, run, study
from peira.testing import MemoryStore

@study(cases=[Case("a"), Case("B")], evaluators=["shouting"])
def echo(case):
    return case.input

results = run(echo, store=MemoryStore(), progress=False)
print(sorted((row.score.name, row.score.value) for row in results.scores))
"""


@pytest.fixture
def installed(tmp_path: Path) -> Path:
    """A folder that holds a distribution as pip would leave it."""
    site = tmp_path / "site"
    info = site / "peira_shouting-1.0.dist-info"
    info.mkdir(parents=True)
    (site / "peira_shouting.py").write_text(PLUGIN)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: peira-shouting\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[peira]\nshouting = peira_shouting:register\n")
    return site


def test_an_installed_distribution_registers_by_its_entry_point(installed: Path, tmp_path: Path) -> None:
    (tmp_path / "s.py").write_text(textwrap.dedent(STUDY))
    paths = [str(installed), str(Path(peira.__file__).parents[1])]
    done = subprocess.run(
        [sys.executable, "s.py"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(paths)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == [
        "run ended: completed",
        "[('shouting', False), ('shouting', True)]",
    ]


def test_an_entry_point_of_a_kind_is_imported_when_one_is_looked_up(installed: Path, tmp_path: Path) -> None:
    groups = "[peira.shout]\na = peira_shouting:register\n\n[peira.whisper]\nb = peira_shouting:register\n"
    (installed / "peira_shouting-1.0.dist-info" / "entry_points.txt").write_text(groups)
    (installed / "peira_shouting.py").write_text(
        "print('imported')\n"
        "def register(registry):\n"
        "    registry.add('shout', 'loud', dict)\n"
        "    registry.add('whisper', 'low', dict)\n"
        "    print('registered')\n"
    )
    asking = """
        from peira.core.registry import registry
        print(registry.names("design") != [])
        print(registry.names("whisper"), registry.names("shout"))
        registry.add("shout", "loud", list)
    """
    (tmp_path / "asking.py").write_text(textwrap.dedent(asking))
    paths = [str(installed), str(Path(peira.__file__).parents[1])]
    done = subprocess.run(
        [sys.executable, "asking.py"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(paths)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout.splitlines() == ["True", "imported", "registered", "['low'] ['loud']"]
    assert "two plug-ins offer the shout 'loud'" in done.stderr.splitlines()[-1]


def test_a_promised_room_is_opened_when_its_plug_in_is_first_looked_up(tmp_path, monkeypatch):
    (tmp_path / "late_room.py").write_text(
        "opened = []\n"
        "def register(registry):\n"
        "    opened.append(1)\n"
        "    registry.add('design', 'late', dict)\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    registry = Registry()
    registry.promise("design", ["late"], "late_room")
    assert "late" in registry.names("design")
    assert "late_room" not in sys.modules
    assert registry.make("design", "late", a=1) == registry.make("design", "late", a=1) == {"a": 1}
    assert sys.modules["late_room"].opened == [1]


def test_a_promised_name_has_one_owner():
    registry = Registry()
    registry.promise("design", ["late"], "one_room")
    with pytest.raises(Invalid, match="two plug-ins offer the design 'late'"):
        registry.add("design", "late", dict)
    with pytest.raises(Invalid, match="two plug-ins offer the design 'late'"):
        registry.promise("design", ["late"], "another_room")


def test_the_modules_of_the_designs_have_what_they_promise_and_no_more() -> None:
    registry, promised = Registry(), [name for names in MODULES.values() for name in names]
    assert all(callable(registry.look("design", name)) for name in promised)
    assert registry.names("design") == sorted(promised)
