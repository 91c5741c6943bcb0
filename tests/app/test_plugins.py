"""Stores, runners, agents and stopping rules of other packages: found by their entry points, used by name."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

import peira
from peira.agents import FunctionAgent
from peira.core.context import SeenCase
from peira.core.contracts import Catalogue, Inspectable, Ownership, RunQuery, Store
from peira.engine.stages import GenerateWork
from peira.errors import Invalid
from peira.stores.sqlite import SqliteStore
from peira.testing import MemoryStore

VAULT = '''
"""A store of its own address: vault://NAME, kept under the folder that VAULT names."""

import os
from pathlib import Path

from peira.stores.sqlite import SqliteScheme

FORWARDED = (
    *("commit", "claim", "find", "events", "put", "get"),
    *("runs", "calls", "tally", "about", "changed_since", "active", "queued", "waiting", "using"),
    *("jobs", "job_counts"),
    *("history", "rows", "blobs", "damage", "losses", "size"),
    *("owner", "folder", "close"),
)


class VaultStore:
    def __init__(self, address, inner):
        self.address, self.inner = address, inner
        self.readonly, self.incarnation = inner.readonly, inner.incarnation


def forwarded(name):
    return lambda self, *args, **options: getattr(self.inner, name)(*args, **options)


for name in FORWARDED:
    setattr(VaultStore, name, forwarded(name))


class VaultScheme:
    def _path(self, address):
        return str(Path(os.environ["VAULT"]) / address.removeprefix("vault://"))

    def exists(self, address):
        return SqliteScheme().exists(self._path(address))

    def owner(self, address):
        return SqliteScheme().owner(self._path(address))

    def own(self, address, wait, compression):
        return VaultStore(address, SqliteScheme().own(self._path(address), wait, compression))

    def read(self, address):
        return VaultStore(address, SqliteScheme().read(self._path(address)))
'''
CREW = '''
"""A runner that executes attempts one after another, in threads that bear its name."""

import threading


class CrewRunner:
    name = "crew"

    def __init__(self, agents, label):
        self.threads = []
        self.told = f"{sorted(agents)}"

    def start(self, queue, workers):
        for number in range(workers):
            thread = threading.Thread(target=self.serve, args=(queue,), name=f"crew of {self.told}")
            self.threads.append(thread)
            thread.start()

    def serve(self, queue):
        while attempts := queue.take(1):
            for attempt in attempts:
                channel = queue.begin(attempt)
                if channel is not None:
                    queue.end(attempt, attempt.work.perform(channel, attempt.epoch), None)

    def abandon(self, attempt):
        pass

    def stop(self):
        for thread in self.threads:
            thread.join()
'''
ECHO = '''
"""An agent that says what it is asked, and the process that says it."""

import os


class EchoAgent:
    asynchronous = False

    def __init__(self, label, suffix="", takes=None):
        self.label, self.suffix = label, suffix
        self.takes = None if takes is None else frozenset(takes)
        self.identity = {"agent": "echo", "label": label, "suffix": suffix}

    def invoke(self, trial):
        loud = trial.condition.get("loud", "")
        return {"said": f"{trial.case.input}{loud}{self.suffix}", "pid": os.getpid()}
'''
AFTER = '''
"""A stopping rule: enough is known after so many cases."""

from peira.core.looks import Look


class After:
    range = (0.0, 1.0)

    def __init__(self, cases=2):
        self.cases = cases

    def problems(self, study):
        if self.cases < 1:
            yield "cases: must be at least 1"

    def claims(self, study):
        return ()

    def outcome(self, study):
        return ""

    def watch(self, question):
        return Counting(self.cases)


class Counting:
    def __init__(self, cases):
        self.cases, self.seen = cases, 0

    def take(self, unit):
        self.seen += 1
        return self.finish() if self.seen == self.cases else None

    def finish(self):
        return Look(number=1, units=self.seen, answer=f"seen {self.seen}")
'''
REGISTER = """
from acme.after import After
from acme.crew import CrewRunner
from acme.echo import EchoAgent
from acme.vault import VaultScheme


def register(registry):
    registry.add("store", "vault", VaultScheme)
    registry.add("runner", "crew", CrewRunner)
    registry.add("runner", "halfway", lambda label: {})
    registry.add("runner", "hungry", lambda label, food: food)
    registry.add("agent", "echo", EchoAgent)
    registry.add("agent", "hollow", lambda label: object())
    registry.add("stop", "after", After)
"""
STUDY = """
import threading
from peira import study

@study(cases=[(str(n), str(n)) for n in range(6)], evaluators=["exact"])
def answer(case):
    return case.input if threading.current_thread().name != "crew of ['answer']" else f"{case.input} by crew"
"""
ASK = """
import json, sys
import peira
from peira.spec.study_files import load
study, options = sys.argv[1], json.loads(sys.argv[2])
results = peira.run(load(study), progress=False, **options)
print(json.dumps({"status": results.status, "outputs": [trial.output for trial in results.trials]}))
"""


class Place:
    """A folder of studies where the package `acme` is installed, its entry points and all."""

    def __init__(self, folder: Path, warm: Any) -> None:
        self.folder, self.warm = folder, warm
        site = folder / "site"
        acme = {"__init__": REGISTER, "vault": VAULT, "crew": CREW, "echo": ECHO, "after": AFTER}
        for name, text in acme.items():
            self.write(f"site/acme/{name}.py", text)
        self.write("site/acme-1.0.dist-info/METADATA", "Metadata-Version: 2.1\nName: acme\nVersion: 1.0\n")
        self.write("site/acme-1.0.dist-info/entry_points.txt", "[peira]\nacme = acme:register\n")
        self.write("studies/answer.py", STUDY)
        (folder / "vault").mkdir()
        self.environment = {**os.environ, "PYTHONPATH": str(site), "VAULT": str(folder / "vault")}

    def write(self, name: str, text: str) -> None:
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    def _done(self, *words: str) -> subprocess.CompletedProcess[str]:
        done: subprocess.CompletedProcess[str] = self.warm.run(
            words, cwd=self.folder / "studies", env=self.environment
        )
        return done

    def peira(self, *words: str) -> subprocess.CompletedProcess[str]:
        return self._done("peira", *words)

    def document(self, *words: str) -> Any:
        done = self.peira(*words, "--json")
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    def run(self, study: str, **options: Any) -> Any:
        """What came of `peira.run` in a process of its own."""
        self.write("ask.py", ASK)
        done = self._done(sys.executable, str(self.folder / "ask.py"), study, json.dumps(options))
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout.splitlines()[-1])


@pytest.fixture
def place(tmp_path: Path, warm: Any) -> Place:
    return Place(tmp_path, warm)


class TestStore:
    def test_it_is_opened_by_its_scheme(self, place: Place) -> None:
        ran = place.run("answer.py", store="vault://one")
        assert (ran["status"], ran["outputs"]) == ("completed", [str(n) for n in range(6)])
        assert (place.folder / "vault" / "one").is_file()
        assert list((place.folder / "studies").iterdir()) == [place.folder / "studies" / "answer.py"]
        again = place.document("run", "answer.py", "--store", "vault://one")
        assert again["counts"]["reused"] == 6
        assert len(place.document("runs", "--store", "vault://one")["runs"]) == 2

    def test_the_project_file_may_name_it(self, place: Place) -> None:
        place.write("studies/peira.toml", 'store = "vault://all"\n')
        place.document("run", "answer.py")
        assert (place.folder / "vault" / "all").is_file()
        assert place.document("verify") == {"store": "vault://all", "ok": True, "problems": []}
        checks = {check["name"]: check for check in place.document("doctor")["checks"]}
        assert checks["store"] == {"name": "store", "ok": True, "detail": "vault://all", "missing": False}
        assert checks["lock"]["detail"] == "free"

    def test_its_owner_is_told_to_stop_through_its_folder(self, place: Place) -> None:
        slow = STUDY.replace("range(6)", "range(4000)").replace(
            "    return", "    __import__('time').sleep(0.05)\n    return"
        )
        place.write("studies/slow.py", slow)
        begun = place.document("run", "slow.py", "--store", "vault://busy", "--detach")
        stopped = place.document("cancel", begun["run"], "--store", "vault://busy")
        assert (stopped["status"], stopped["cancelled"]) == ("cancelled", True)

    def test_the_nearest_scheme_is_named(self, place: Place) -> None:
        done = place.peira("run", "answer.py", "--store", "valt://one")
        assert done.returncode == 2
        assert "store valt://...: no such kind of store is known; did you mean 'vault'?" in done.stderr
        assert done.stderr.count("\n") == 1


class TestRunner:
    by_crew = tuple(f"{n} by crew" for n in range(6))

    def test_it_is_chosen_by_name(self, place: Place) -> None:
        assert place.run("answer.py", runner="crew")["outputs"] == [*self.by_crew]

    def test_the_command_line_and_the_project_file_may_name_it(self, place: Place) -> None:
        assert place.document("run", "answer.py", "--runner", "crew")["status"] == "completed"
        assert place.run("answer.py")["outputs"] == [*self.by_crew]
        place.write("studies/peira.toml", 'runner = "crew"\nstore = "other.db"\n')
        assert place.run("answer.py")["outputs"] == [*self.by_crew]
        assert place.run("answer.py", runner="local", fresh=True)["outputs"] == [str(n) for n in range(6)]

    def test_the_nearest_name_is_told(self, place: Place) -> None:
        done = place.peira("run", "answer.py", "--runner", "crow")
        assert (done.returncode, done.stderr) == (
            2,
            "peira: runner: 'crow' is not known; did you mean 'crew'?\n",
        )

    @pytest.mark.parametrize("command", [["run", "answer.py"], ["plan", "answer.py"], ["runs"]])
    def test_the_project_file_is_refused_with_the_nearest_name(
        self, place: Place, command: list[str]
    ) -> None:
        place.write("studies/peira.toml", 'runner = "proces"\nparallel = 2\n')
        done = place.peira(*command)
        told = "peira: peira.toml: runner: 'proces' is not known; did you mean 'process'?\n"
        assert (done.returncode, done.stderr) == (2, told)
        assert not (place.folder / "studies" / ".peira").exists()

    @pytest.mark.parametrize(
        ("name", "problem"),
        [
            ("halfway", "runner: 'halfway' makes a dict, which has not all that a runner has"),
            ("hungry", "missing 1 required positional argument: 'food'"),
        ],
    )
    def test_what_is_none_is_refused_before_there_is_a_store(
        self, place: Place, name: str, problem: str
    ) -> None:
        done = place.peira("run", "answer.py", "--runner", name)
        assert done.returncode == 2
        assert problem in done.stderr
        assert done.stderr.count("\n") == 1
        assert not (place.folder / "studies" / ".peira").exists()

    def test_a_plug_in_of_the_project_file_offers_one(self, place: Place) -> None:
        place.write(
            "studies/own.py",
            "from acme.crew import CrewRunner\ndef register(registry):\n"
            "    registry.add('runner', 'own', CrewRunner)\n",
        )
        place.write("studies/peira.toml", 'runner = "own"\nplugins = ["own:register"]\n')
        assert place.run("answer.py")["outputs"] == [*self.by_crew]
        assert place.document("run", "answer.py", "--runner", "own", "--fresh")["status"] == "completed"


CASES = 'cases = ["a", "b"]\n'
CASES_OF = f"cases = {json.dumps([[str(n), str(n)] for n in range(6)])}\n"


class TestAgent:
    @pytest.mark.parametrize("runner", ["local", "process", "crew"])
    @pytest.mark.parametrize(
        "written",
        ['agent = {kind = "echo", suffix = "!"}', '[agents]\nloud = {kind = "echo", suffix = "!"}'],
        ids=["alone", "labelled"],
    )
    def test_it_is_made_by_its_kind_in_threads_and_in_processes(
        self, place: Place, runner: str, written: str
    ) -> None:
        place.write("studies/echo.toml", f"{CASES}{written}\n")
        outputs = place.run("echo.toml", runner=runner, parallel=1)["outputs"]
        assert [output["said"] for output in outputs] == ["a!", "b!"]

    def test_a_process_of_its_own_says_it(self, place: Place) -> None:
        place.write("studies/echo.toml", f'{CASES}agent = "echo"\n')
        first, second = (
            {
                output["pid"]
                for output in place.run("echo.toml", runner="process", parallel=1, fresh=True)["outputs"]
            }
            for _ in range(2)
        )
        assert len(first) == len(second) == 1
        assert first != second

    def test_python_names_it_too_and_it_takes_factors(self, place: Place) -> None:
        place.write(
            "studies/echo.py",
            "from peira import Study\necho = Study(name='echo', "
            "agents={'e': {'kind': 'echo', 'takes': ['loud']}, 'f': 'echo'}, "
            "factors={'loud': ['?', '!']}, cases=['a'])\n",
        )
        said = [output["said"] for output in place.run("echo.py")["outputs"]]
        assert sorted(said) == ["a!", "a!", "a?", "a?"]

    def test_its_options_are_part_of_what_a_trial_is(self, place: Place) -> None:
        place.write("studies/echo.toml", f'name = "echo"\n{CASES}agent = {{kind = "echo"}}\n')
        run = place.document("run", "echo.toml")["run"]
        assert place.document("run", "echo.toml")["counts"]["reused"] == 2
        place.write("studies/echo.toml", f'name = "echo"\n{CASES}agent = {{kind = "echo", suffix = "?"}}\n')
        assert "agent code changed: 2 of 2 trials are new" in place.peira("plan", "echo.toml").stdout
        assert "reused" not in place.document("run", "echo.toml")["counts"]
        assert "agent code changed" in place.peira("diff", run, "echo.toml").stdout
        assert place.peira("report", "-o", "r.html").returncode == 0

    def test_a_stored_run_is_run_again_and_scored_also_without_its_package(self, place: Place) -> None:
        place.write("studies/echo.toml", f'{CASES_OF}agent = {{kind = "echo", suffix = "!"}}\n')
        run = place.document("run", "echo.toml")["run"]
        (place.folder / "studies" / "echo.toml").unlink()
        assert place.document("run", run)["counts"]["reused"] == 6
        place.environment["PYTHONPATH"] = ""
        done = place.peira("run", run)
        assert (done.returncode, "agent echo: its code as of that run cannot be had" in done.stderr) == (
            2,
            True,
        )
        assert place.document("score", run, "--evaluator", "exact")["counts"]["reused"] == 6

    @pytest.mark.parametrize(
        ("agent", "problem"),
        [
            ('{kind = "ecko"}', "agent: no agent 'ecko'; did you mean 'echo'?"),
            (
                '{kind = "echo", sufix = 1}',
                "agent: echo: EchoAgent.__init__() got an unexpected keyword argument 'sufix'",
            ),
            (
                '{kind = "echo", label = "x"}',
                "agent: label: is the study's to say, and no option of an agent",
            ),
            ('{kind = "function", fn = "a.py:b"}', "agent: write a function as file.py:name"),
            ('{kind = "hollow"}', "agent: hollow: makes a object, which has not all that an agent has"),
        ],
    )
    def test_what_is_wrong_with_it_is_said_in_a_line(self, place: Place, agent: str, problem: str) -> None:
        place.write("studies/echo.toml", f"{CASES}agent = {agent}\n")
        done = place.peira("run", "echo.toml")
        assert done.returncode == 2
        assert [line for line in done.stderr.splitlines() if problem in line]

    def test_a_plug_in_of_the_project_file_offers_one_to_other_processes(self, place: Place) -> None:
        place.write(
            "studies/own.py",
            "from acme.echo import EchoAgent\nregister = lambda registry: (registry.add('agent', 'own', "
            "EchoAgent), registry.add('evaluator', 'same', __import__('peira').exact))\n",
        )
        place.write("studies/peira.toml", 'plugins = ["own:register"]\n')
        place.write("studies/echo.toml", f'{CASES}agent = {{kind = "own", suffix = "."}}\n')
        assert place.document("run", "echo.toml", "--runner", "process")["status"] == "completed"
        place.write("studies/answer.py", STUDY.replace("exact", "same"))
        assert place.document("run", "answer.py", "--runner", "process")["status"] == "completed"


class TestStoppingRule:
    @pytest.mark.parametrize(("stop", "units"), [('"after"', 2), ('{rule = "after", cases = 3}', 3)])
    def test_it_ends_the_run(self, place: Place, stop: str, units: int) -> None:
        place.write(
            "studies/s.toml", f'agent = "answer.py:answer"\nevaluators = ["exact"]\nstop = {stop}\n{CASES_OF}'
        )
        ran = place.document("run", "s.toml", "--parallel", "1")
        assert ran["status"] == "completed"
        assert f"seen {units}" in place.peira("show").stdout

    def test_the_nearest_name_is_told(self, place: Place) -> None:
        place.write(
            "studies/s.toml", f'agent = "answer.py:answer"\nevaluators = ["exact"]\nstop = "afte"\n{CASES_OF}'
        )
        done = place.peira("run", "s.toml")
        assert (done.returncode, "stop: no stop 'afte'; did you mean 'after'?" in done.stderr) == (2, True)


OBJECTS: dict[str, Callable[[], object]] = {
    "an object of class object": object,
    "an object of class int": lambda: 7,
    "an object of class dict": dict,
}


@pytest.mark.parametrize("said", OBJECTS)
def test_what_is_no_store_is_refused_and_makes_no_file(
    said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    study = peira.Study(name="s", agent=lambda case: 1, cases=["a"])
    with pytest.raises(
        Invalid, match=f"store: {said} is neither a path, an address nor a store: it has no commit"
    ):
        peira.run(study, store=OBJECTS[said](), progress=False)  # type: ignore[arg-type]
    assert list(tmp_path.iterdir()) == []


class Forwarding:
    """A store of somebody's own: neither hashed nor referred to weakly, and of no class that peira has."""

    __hash__ = None  # type: ignore[assignment]
    __slots__ = ("inner",)

    def __init__(self, inner: MemoryStore) -> None:
        self.inner = inner


def _forward(name: str) -> property:
    return property(lambda self: getattr(self.inner, name))


for part in (Store, Catalogue, Inspectable, Ownership):
    for name in vars(part):
        if not name.startswith("_"):
            setattr(Forwarding, name, _forward(name))


def test_a_store_of_the_callers_own_is_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    study, inner = peira.Study(name="s", agent=lambda case: 1, cases=["a"]), MemoryStore()
    store: Any = Forwarding(inner)
    results = peira.run(study, store=store, progress=False)
    assert [trial.output for trial in results.trials] == [1]
    assert peira.run(study, store=store, progress=False).counts["reused"] == 1
    assert [run.id for run in peira.open(store).runs()] == [run.id for run in inner.runs(RunQuery())]
    assert list(tmp_path.iterdir()) == []


def test_a_store_that_was_opened_for_reading_is_read_and_not_written(tmp_path: Path) -> None:
    study = peira.Study(name="s", agent=lambda case: 1, cases=["a"])
    peira.run(study, store=tmp_path / "s.db", progress=False)
    with closing(SqliteStore(tmp_path / "s.db", readonly=True)) as store:
        assert [run.status for run in peira.open(store).runs()] == ["completed"]
        with pytest.raises(Invalid, match="store: it was opened for reading, and this writes"):
            peira.run(study, store=store, progress=False)


@pytest.mark.parametrize("address", ["sqlite://s.db", "sqlite:///s.db"])
def test_a_file_is_given_by_its_path(address: str) -> None:
    with pytest.raises(Invalid, match=r"store sqlite://\.\.\.: give the path of its file"):
        peira.open(address)


def test_resources_do_not_travel_unseen() -> None:
    work = GenerateWork(FunctionAgent(len, "a"), "t", SeenCase("a", "a"), {}, 0, resources={"pool": 1})
    with pytest.raises(Invalid, match="resources: cannot be handed to other processes"):
        work.message()
