"""Commands as agents: how they are written, what they are identified by, and that every road runs them."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any, ClassVar

import pytest

import peira
from peira import command, study
from peira.agents import CommandAgent
from peira.core.ids import digest
from peira.errors import Invalid
from peira.plan.expansion import live_agents
from peira.sandbox.confinement import confinement
from peira.spec.agents import AgentKind
from peira.spec.study_files import load, save
from peira.testing import AgentSuite

needs_sandbox = pytest.mark.skipif(isinstance(confinement(), str), reason=f"no sandbox here: {confinement()}")
TOOL = "import sys; print(sys.stdin.read().upper(), end='')"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "tool.py").write_text(TOOL)
    return tmp_path


def of(agent: Any, **fields: Any) -> Any:
    return study(name="x", agent=agent, cases=[("abc", "ABC")], evaluators=["exact"], **fields)


def identity(agent: Any, **fields: Any) -> str:
    [made] = live_agents(of(agent, **fields)).values()
    return digest(made.identity)


@needs_sandbox
class TestCommandSuite(AgentSuite):
    case = "what"
    condition: ClassVar = {"style": "plain"}

    @pytest.fixture
    def agent(self) -> CommandAgent:
        words = ["sh", "-c", 'echo "$1 $(cat)"; pwd; ls', "sh", "{style}"]
        return CommandAgent(label="c", command=words)

    twin = agent


class TestWriting:
    def test_the_options_that_differ_from_the_defaults_are_written(self) -> None:
        written = command(["prog", "{input}"], keep=["*.md"], confine=True, timeout=600).written()
        assert written == {"kind": "command", "command": ["prog", "{input}"], "keep": ["*.md"]}

    @pytest.mark.parametrize("kind", ["toml", "yaml", "json"])
    def test_a_study_file_gives_the_same_study(self, folder: Path, kind: str) -> None:
        made = of(command(["python3", "tool.py"], files=["tool.py"], env={"A": "1"}, models="scripted:m"))
        save(made, folder / f"saved.{kind}")
        loaded = load(folder / f"saved.{kind}")
        assert loaded.agents == made.agents
        assert "tool.py" in (folder / f"saved.{kind}").read_text()
        assert str(folder) not in (folder / f"saved.{kind}").read_text()

    @needs_sandbox
    def test_a_table_with_a_command_needs_no_kind(self, folder: Path) -> None:
        (folder / "s.toml").write_text(
            'cases = [{input = "abc", expected = "ABC"}]\nevaluators = ["exact"]\n'
            '[agent]\ncommand = ["python3", "tool.py"]\nfiles = ["tool.py"]\n'
        )
        assert isinstance(next(iter(load("s.toml").agents.values())), AgentKind)
        assert peira.run("s.toml", store="s.db", progress=False).trials[0].scores["exact"].value == 1.0

    def test_everything_that_is_wrong_is_said_at_once(self, folder: Path) -> None:
        with pytest.raises(Invalid) as found:
            of(command(["x"], files=["gone.py", "away.py"]))
        assert len(found.value.problems) == 2
        with pytest.raises(Invalid, match="tools: no 'atach'; did you mean 'attach'"):
            of(command(["x"], tools=["atach"]))
        with pytest.raises(Invalid, match=r"parse: must be one of text, json, last_line, not 'jsn'"):
            of(command(["x"], parse="jsn"))  # type: ignore[arg-type]
        with pytest.raises(Invalid, match="is not the name of a file in the workspace"):
            of(command(["x"], keep=["../out"]))
        with pytest.raises(Invalid, match=r"write its words as a list: \['prog', 'x'\]"):
            command("prog x")
        with pytest.raises(Invalid, match="takes 'modle', which is no factor"):
            of(command(["x", "{modle}"]), factors={"model": ["a", "b"]})
        with pytest.raises(Invalid, match="does not take 'depth'"):
            of(command(["x"]), factors={"depth": [1, 2]})

    def test_a_program_that_is_not_there_is_said_before_anything_runs(self, folder: Path) -> None:
        with pytest.raises(Invalid, match="agent: command: there is no program 'no-such-program' here"):
            peira.run(of(command(["no-such-program"])), store="s.db", progress=False)
        assert not (folder / "s.db").exists()


class TestIdentity:
    def test_words_input_files_and_options_count(self, folder: Path) -> None:
        (folder / "other.py").write_text(TOOL)
        many = [
            command(["a"]),
            command(["b"]),
            command(["a"], stdin="{input}!"),
            command(["a"], files=["tool.py"]),
            command(["a"], files={"b.py": "tool.py"}),
            command(["a"], env={"X": "1"}),
            command(["a"], env={"X": "2"}),
            command(["a"], env=["X"]),
            command(["a"], parse="json"),
            command(["a"], models={"*": "scripted:m"}),
            command(["a"], confine=False),
            command(["a"], tools=["attach"]),
        ]
        assert len({identity(one) for one in many}) == len(many)

    def test_limits_and_what_is_kept_do_not(self) -> None:
        same = [
            command(["a"]),
            command(["a"], keep=["*.md"]),
            command(["a"], timeout=5, memory=100, disk=9, processes=3),
        ]
        assert len({identity(one) for one in same}) == 1

    def test_the_content_of_files_counts_and_their_place_does_not(self, folder: Path) -> None:
        before = identity(command(["a"], files=["tool.py"]))
        (folder / "sub").mkdir()
        (folder / "sub" / "tool.py").write_text(TOOL)
        assert identity(command(["a"], files={"tool.py": "sub/tool.py"})) == before
        (folder / "tool.py").write_text("print(1)")
        assert identity(command(["a"], files=["tool.py"])) != before

    def test_a_version_stands_for_the_content(self, folder: Path) -> None:
        def both() -> tuple[str, str]:
            own = command(["a"], files=["tool.py"], version="1")
            return identity(own), identity(command(["a"], files=["tool.py"]), version="1")

        before = both()
        assert before[0] == before[1]
        (folder / "tool.py").write_text("print(2)")
        assert both() == before
        assert identity(command(["a"], files=["tool.py"], version="2")) != before[0]

    def test_the_value_of_an_inherited_variable_does_not_count(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("X", "one")
        before = identity(command(["a"], env=["X"]))
        monkeypatch.setenv("X", "two")
        assert identity(command(["a"], env=["X"])) == before


@needs_sandbox
class TestRoads:
    """Python, another process, and the manifest of a stored run."""

    def test_in_threads_and_in_processes(self, folder: Path) -> None:
        made = of(command([sys.executable, "tool.py"], stdin="{input}", files=["tool.py"]))
        for runner in ("local", "process"):
            results = peira.run(made, store=f"{runner}.db", runner=runner, progress=False)
            assert [trial.output for trial in results.trials] == ["ABC"], results.failures

    def test_several_by_label_with_a_function(self, folder: Path) -> None:
        (folder / "f.py").write_text("def upper(case): return case.input.upper()\n")
        made = study(
            name="x",
            agents={"tool": command(["python3", "tool.py"], files=["tool.py"]), "fn": "f.py:upper"},
            cases=[("abc", "ABC")],
            evaluators=["exact"],
        )
        results = peira.run(made, store="s.db", progress=False)
        assert {trial.agent: trial.output for trial in results.trials} == {"tool": "ABC", "fn": "ABC"}

    def test_a_run_is_repeated_from_its_id_after_its_files_changed(self, folder: Path) -> None:
        made = of(command(["python3", "tool.py"], files=["tool.py"]))
        run = peira.run(made, store="s.db", progress=False).run_id
        (folder / "tool.py").write_text("print('changed')")
        again = peira.run(run, store="s.db", fresh=True, progress=False)
        assert [trial.output for trial in again.trials] == ["ABC"]
        (folder / "tool.py").unlink()
        assert peira.evaluate(run, store="s.db", progress=False).trials[0].scores["exact"].value == 1.0

    def test_a_folder_of_files_goes_in_whole(self, folder: Path) -> None:
        (folder / "data" / "deep").mkdir(parents=True)
        (folder / "data" / "a.txt").write_text("1")
        (folder / "data" / "deep" / "b.txt").write_text("2")
        made = of(command(["sh", "-c", "cat data/a.txt data/deep/b.txt"], files=["data"]))
        assert peira.run(made, store="s.db", progress=False).trials[0].output == "12"
