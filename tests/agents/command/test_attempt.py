"""What becomes of a command: its output, its end, its limits, and what hostile ones cannot do."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any
from uuid import uuid4

import psutil
import pytest

import peira
from peira.agents import CommandAgent
from peira.agents.command import attempt
from peira.core.context import SeenCase, Trial
from peira.core.ids import digest
from peira.core.models import Reply, Request
from peira.errors import Abandoned, CommandFailed, Exhausted, Invalid, TimedOut, TooLarge
from peira.sandbox.confinement import confinement
from peira.testing import MemoryChannel

pytestmark = pytest.mark.skipif(isinstance(confinement(), str), reason=f"no sandbox here: {confinement()}")
ASK = """
import json, os, sys, urllib.request
def ask(text, base=None):
    body = json.dumps({"model": "m", "messages": [{"role": "user", "content": text}]}).encode()
    url = (base or os.environ["OPENAI_BASE_URL"]) + "/chat/completions"
    request = urllib.request.Request(url, body, {"content-type": "application/json"})
    return json.load(urllib.request.urlopen(request))["choices"][0]["message"]["content"]
"""


class Ran:
    """A command that was run: its output or failure, and what it recorded."""

    def __init__(
        self, words: list[str], case: Any = "in", channel: MemoryChannel | None = None, **options: Any
    ):
        self.channel = channel or MemoryChannel(replies=lambda request: Reply("said"))
        self.output: Any = None
        self.problem: BaseException | None = None
        condition = options.pop("condition", {})
        agent = CommandAgent(label="c", command=words, **options)
        trial = Trial(
            id=digest("trial"),
            case=SeenCase(case, "case", metadata={"deep": {"x": [7]}}),
            condition=condition,
            repeat=0,
            attempt=1,
            agent="c",
            channel=self.channel,
        )
        try:
            self.output = agent.invoke(trial)
        except BaseException as problem:
            self.problem = problem
        finally:
            self.about, self.attached = dict(self.channel.about), dict(self.channel.attached)
            self.channel.close()


def sh(script: str, **options: Any) -> Ran:
    return Ran(["sh", "-c", script], **options)


def py(script: str, **options: Any) -> Ran:
    return Ran([sys.executable, "-c", script], **options)


def marked(marker: str) -> list[int]:
    """The processes that have the marker in their command line or environment."""
    found = []
    for process in psutil.process_iter():
        try:
            if process.status() != psutil.STATUS_ZOMBIE and any(marker in word for word in process.cmdline()):
                found.append(process.pid)
        except psutil.Error:
            continue
    return found


def gone(marker: str) -> bool:
    deadline = time.monotonic() + 10
    while marked(marker) and time.monotonic() < deadline:
        time.sleep(0.02)
    return not marked(marker)


class TestWords:
    def test_placeholders_are_filled_and_doubled_braces_are_braces(self) -> None:
        words = ["echo", "{input.q}|{id}|{metadata.deep.x.0}|{repeat}|{level}|{{input}}|{'a': 1}|{input}"]
        ran = Ran(words, case={"q": "é'\""}, condition={"level": [1, None]})
        assert ran.output == "é'\"|case|7|0|[1, null]|{input}|{'a': 1}|" + json.dumps(
            {"q": "é'\""}, ensure_ascii=False
        )

    def test_a_value_that_is_not_there_is_said(self) -> None:
        assert isinstance(Ran(["echo", "{input.q}"], case={}).problem, Invalid)

    def test_the_input_is_on_standard_input_if_nothing_else_has_it(self) -> None:
        assert sh("cat").output == "in"
        assert Ran(["sh", "-c", "cat; echo $0", "{input}"]).output == "in"
        assert sh("cat", stdin="<{input}>").output == "<in>"

    def test_variables(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("PASSED", "p")
        monkeypatch.setenv("OTHER_SECRET", "not to be seen")
        ran = sh("env", env={"A": "{input}!", "B": "$PASSED"})
        found = dict(line.split("=", 1) for line in ran.output.splitlines())
        assert (found["A"], found["B"], found["PWD"]) == ("in!", "p", "/work")
        assert "not to be seen" not in ran.output
        assert "PEIRA_TREE" not in found


class TestOutput:
    def test_how_it_is_parsed(self) -> None:
        assert sh("echo a; echo b; echo").output == "a\nb\n"
        assert sh("echo a; echo ' b '; echo", parse="last_line").output == "b"
        ran = sh("echo '{\"a\": [1, 2.5]}'", parse="json")
        assert ran.output == {"a": [1, 2.5]}
        assert ran.attached["stdout.txt"] == b'{"a": [1, 2.5]}\n'
        assert "no JSON" in str(sh("echo {", parse="json").problem)

    def test_long_lines_are_no_matter(self) -> None:
        ran = py("print('x' * 300_000); print('last')", parse="last_line")
        assert (ran.output, len(ran.attached["stdout.txt"])) == ("last", 300_006)

    def test_of_much_output_the_ends_are_shown_and_all_is_kept(self) -> None:
        ran = py("print('a' * 500_000 + 'é' * 10 + 'z' * 500_000)")
        assert ran.output.startswith("a" * 1000)
        assert ran.output.endswith("z" * 1000)
        assert "bytes are left out here" in ran.output
        assert len(ran.output) < 140_000
        assert len(ran.attached["stdout.txt"]) == 1_000_021

    def test_a_gigabyte_is_cut_and_ends_it(self) -> None:
        ran = sh("yes 0123456789abcdef | head -c 1000000000", disk=8)
        assert isinstance(ran.problem, TooLarge)
        assert len(ran.attached["stdout.txt"]) == attempt.MOST_OUTPUT

    def test_files_are_kept_by_pattern(self) -> None:
        script = "mkdir -p d/e; echo 1 > a.md; echo 2 > d/b.md; echo 3 > d/e/c.md; echo 4 > x.txt; "
        script += "ln -s /etc/passwd l.md"
        assert set(sh(script, keep=["*.md"]).attached) == {"a.md"}
        assert set(sh(script, keep=["**/*.md"]).attached) == {"a.md", "d/b.md", "d/e/c.md"}
        assert sh(script, keep=["d/?.md", "x.txt", "none"]).attached == {"d/b.md": b"2\n", "x.txt": b"4\n"}
        assert set(sh(script, keep=["d/**"]).attached) == {"d/b.md", "d/e/c.md"}

    def test_each_attempt_has_a_new_folder(self, tmp_path: Path) -> None:
        tool = tmp_path / "tool.sh"
        tool.write_text("#!/bin/sh\nls; touch left; pwd\n")
        tool.chmod(0o755)
        for _ in range(2):
            assert Ran(["./tool.sh"], files={"tool.sh": str(tool)}).output == "tool.sh\n/work"


class TestEnd:
    def test_an_exit_code_is_a_failure_whatever_was_attached(self) -> None:
        ran = sh("echo out; echo why >&2; echo 1 > a.md; exit 3", keep=["a.md"])
        assert isinstance(ran.problem, CommandFailed)
        assert str(ran.problem) == "sh: exit code 3: why"
        assert ran.attached == {"a.md": b"1\n", "stdout.txt": b"out\n", "stderr.txt": b"why\n"}

    def test_a_signal_is_one_too(self) -> None:
        assert "SIGTERM" in str(sh("kill -TERM $$").problem)

    def test_a_program_that_is_not_there(self) -> None:
        assert isinstance(Ran(["no-such-program"]).problem, Invalid)

    def test_a_time_limit(self) -> None:
        ran = sh("echo begun; sleep 60", timeout=1)
        assert isinstance(ran.problem, TimedOut)
        assert ran.attached["stdout.txt"] == b"begun\n"

    def test_memory_processes_and_disk_are_limited(self) -> None:
        big = "x = [bytearray(1 << 20) for _ in range(400)]; print('had it')"
        assert isinstance(py(big, memory=200).problem, CommandFailed)
        many = "import subprocess\nfor _ in range(80): subprocess.Popen(['sleep', '30'])\nprint('had them')"
        assert isinstance(py(many, processes=30).problem, CommandFailed)
        for place in ("/work", "/tmp"):
            fill = f"cd {place}; for i in 1 2 3; do head -c 5000000 /dev/zero > $i || exit 1; done"
            assert "No space" in str(sh(fill, disk=10).problem)

    @pytest.mark.parametrize("confine", [True, False])
    def test_an_abandoned_attempt_ends_its_tree(self, confine: bool) -> None:
        marker, channel = uuid4().hex, MemoryChannel()
        timer = threading.Timer(1.0, channel.close)
        timer.start()
        ran = sh(f"(setsid sleep 300 {marker} &) ; sleep 300; : {marker}", channel=channel, confine=confine)
        timer.join()
        assert isinstance(ran.problem, Abandoned)
        assert gone(marker)

    @pytest.mark.parametrize("confine", [True, False])
    @pytest.mark.parametrize("end", ["exit 0", "exit 3", "exec >&- 2>&-; exit 0"])
    def test_no_daemon_survives(self, confine: bool, end: str) -> None:
        marker = uuid4().hex
        daemon = f"(env -i setsid sh -c 'sleep 300; : {marker}' >/dev/null 2>&1 </dev/null &)"
        sh(f"{daemon}; sleep 0.2; {end}", confine=confine)
        assert gone(marker)

    def test_one_that_closes_its_output_and_goes_on_is_still_watched(self) -> None:
        ran = sh("exec >&- 2>&-; sleep 60", timeout=1)
        assert isinstance(ran.problem, TimedOut)
        assert sh("echo said; exec >&- 2>&-; sleep 0.5").output == "said"


class TestConfinement:
    def test_it_is_marked_how_calls_are_known(self) -> None:
        assert sh("true").about["calls_known"] == "all recorded"
        assert sh("true").about["confined"] == "yes"
        loose = sh("true", confine=False)
        assert (loose.about["calls_known"], loose.about["confined"]) == ("not recorded", "no")
        assert sh("true", confine=False, models="x:y").about["calls_known"] == "through the endpoint"
        assert sh("true").about["program"].startswith("sh ")

    def test_nothing_of_the_machine_can_be_read_or_written(self, tmp_path: Path) -> None:
        secret = tmp_path / "secret"
        secret.write_text("key")
        script = f"""
        cat {secret} && echo READ; cat {Path.cwd()}/pyproject.toml && echo READ
        cat /etc/shadow && echo READ; cat /proc/1/environ | tr '\\0' '\\n' | grep -c HOME=/root && echo READ
        for place in / /usr /etc /run/peira {tmp_path}; do
            (echo x > $place/new) 2>/dev/null && echo WROTE $place
        done
        rm -f /run/peira/endpoint.sock 2>/dev/null && echo REMOVED
        true"""
        ran = sh(script, models="x:y")
        assert ran.problem is None
        assert ran.output == "0"
        assert secret.read_text() == "key"

    def test_no_key_comes_in(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("OPENAI_API_KEY", "sk-real-key-of-the-owner")
        monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-ant-real-key-of-the-owner")
        for confine in (True, False):
            ran = sh("env; cat /proc/*/environ 2>/dev/null | tr '\\0' '\\n'", models="x:y", confine=confine)
            if confine:
                assert "real-key" not in ran.output
            assert "OPENAI_API_KEY=sk-real" not in ran.output.split("PWD=")[0]

    def test_there_is_no_network_but_the_endpoint(self) -> None:
        script = ASK + (
            "import socket\n"
            "for host in ('1.1.1.1', '127.0.0.1'):\n"
            "    try: socket.create_connection((host, 53), 2); print('OUT')\n"
            "    except OSError: print('no')\n"
            "print(ask('hello'))"
        )
        ran = py(script, models="x:y")
        assert ran.output == "no\nno\nsaid"
        [(model, request, _)] = ran.channel.asked
        assert (model, request.messages[0]["content"]) == ("x:y", "hello")

    def test_another_attempt_cannot_be_spoken_for(self) -> None:
        """Not with its token: the socket is that of this attempt."""
        others = MemoryChannel(replies=lambda request: Reply("theirs"))
        from peira.endpoint.server import endpoint_server
        from peira.endpoint.session import EndpointSession, ModelRoutes

        other = EndpointSession("f" * 32, others, ModelRoutes({"*": "x:y"}))
        endpoint_server().open(other)
        try:
            script = (
                ASK
                + "print(ask('hi', os.environ['OPENAI_BASE_URL'].rsplit('/', 2)[0] + '/' + 'f' * 32 + '/v1'))"
            )
            ran = py(script, models="x:y")
        finally:
            endpoint_server().close(other)
        assert others.asked == []
        assert isinstance(ran.problem, CommandFailed)

    def test_a_limit_ends_the_whole_tree(self) -> None:
        marker = uuid4().hex

        def reply(request: Request) -> Reply:
            raise Exhausted("no money left")

        script = ASK + (
            f"import subprocess, time\nsubprocess.Popen(['sleep', '300{marker[:3]}'.replace('x', '1')])\n"
            f"try: ask('hello')\nexcept Exception: pass\ntime.sleep(300)  # {marker}"
        )
        ran = py(script, models="x:y", channel=MemoryChannel(replies=reply))
        assert isinstance(ran.problem, Exhausted)
        assert gone(marker)


class TestTools:
    def test_its_tools_record_and_may_give_the_result(self) -> None:
        script = """
import json, os, urllib.request
def tool(name, /, **arguments):
    call = {"name": name, "arguments": arguments}
    body = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": call}
    request = urllib.request.Request(os.environ["PEIRA_MCP_URL"], json.dumps(body).encode())
    return json.load(urllib.request.urlopen(request))
tool("attach", name="note.md", text="hello")
tool("report", metrics={"depth": 2})
tool("result", value={"answer": 42})
print("not this")
"""
        ran = py(script, tools=["attach", "report", "result"])
        assert ran.output == {"answer": 42}
        assert ran.attached["note.md"] == b"hello"
        assert ran.channel.metrics["depth"] == 2

    def test_a_result_is_no_success_if_the_command_fails(self) -> None:
        script = """
import json, os, urllib.request
call = {"name": "result", "arguments": {"value": 1}}
body = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": call}
urllib.request.urlopen(urllib.request.Request(os.environ["PEIRA_MCP_URL"], json.dumps(body).encode()))
raise SystemExit(1)
"""
        assert isinstance(py(script, tools=["result"]).problem, CommandFailed)


def test_a_finished_study_costs_nothing_again_and_neither_do_recorded_calls(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    tool = tmp_path / "tool.py"
    tool.write_text(
        ASK
        + "text = sys.stdin.read()\nprint(ask(ask(text) + ' ' + os.getcwd() + os.environ['OPENAI_BASE_URL']))"
    )
    (tmp_path / "peira.toml").write_text('[models."echo"]\nmodel = "scripted:echo"\n')

    def run(**options: Any) -> Any:
        agent = peira.command([sys.executable, "tool.py"], files=["tool.py"], models={"*": "echo"})
        made = peira.study(name="x", agent=agent, cases=["a", "b", "c"])
        return peira.run(made, store="s.db", progress=False, **options)

    first = run()
    assert first.counts["succeeded"] == 3, first.failures
    calls = len(peira.open("s.db").calls())
    assert calls == 6
    again = run()
    assert (again.counts.get("reused"), len(peira.open("s.db").calls())) == (3, calls)
    tool.write_text(tool.read_text() + "  # another version, which asks the same\n")
    edited = run()
    assert edited.counts["succeeded"] == 3
    assert all(trial.metrics["calls"] == 2 and trial.metrics["spent"] == 0 for trial in edited.trials)
    assert len(peira.open("s.db").calls()) == calls


WITHOUT = """
import os, sys
os.environ["PATH"] = sys.argv[1]
import peira
from peira import command, study
words = ["/bin/sh", "-c", "(/bin/sh -c '/bin/sleep 300; : MARK' &); /bin/cat; echo 1 > a.md"]
agent = command(words, confine=sys.argv[2] == "1", keep=["a.md"])
made = study(name="x", agent=agent, cases=["in"])
results = peira.run(made, store="s.db", progress=False)
trial = results.trials[0]
about = trial.about
print(trial.output, about["confined"], about["calls_known"], [a.name for a in trial.artifacts], trial.failure)
"""


def test_without_bubblewrap_it_is_refused_or_run_unconfined_and_marked(tmp_path: Path) -> None:
    marker = uuid4().hex

    def run(confine: str) -> Any:
        code = WITHOUT.replace("MARK", marker)
        words = [sys.executable, "-c", code, str(tmp_path), confine]
        return subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, check=False)

    refused = run("1")
    assert "not found: bwrap" in refused.stderr
    assert "with confine = false" in refused.stderr
    assert not (tmp_path / "s.db").exists()
    ran = run("0")
    assert ran.stdout.split() == ["in", "no", "not", "recorded", "['a.md']", "None"], ran.stderr
    assert gone(marker)
