"""Shell, Python and files in the sandbox: they share the files of a trial, also of a resumed one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from peira import agent, files, python, shell
from peira.errors import Invalid
from peira.sandbox.confinement import Confinement, confinement

from .conftest import Worked, calls, results

needs_sandbox = pytest.mark.skipif(
    not isinstance(confinement(), Confinement), reason="no bubblewrap on this machine"
)


@needs_sandbox
def test_what_one_writes_the_others_read(worked: Worked, tmp_path: Path) -> None:
    (tmp_path / "data.csv").write_text("1\n2\n")
    bot = agent("m", tools=[shell(files=[tmp_path / "data.csv"], keep=["*.txt"]), python(), files()])
    replies = [
        calls(("write_file", {"path": "in/a.txt", "text": "hello"})),
        calls(("shell", {"command": "cat in/a.txt data.csv; mkdir out; echo made > out/b.txt; rm data.csv"})),
        calls(("python", {"code": "print(open('out/b.txt').read().upper()); open('c.txt', 'w').write('c')"})),
        calls(("list_files", {}), ("read_file", {"path": "out/b.txt"}), ("read_file", {"path": "data.csv"})),
    ]
    _, channel = worked(bot, replies)
    told = results(channel)
    assert told[1] == "hello1\n2\n"
    assert told[2].strip() == "MADE"
    assert told[3] == '["c.txt","in/a.txt","out/b.txt"]'
    assert told[4] == "made\n"
    assert "there is no file" in told[5]
    assert channel.attached == {"in/a.txt": b"hello", "out/b.txt": b"made\n", "c.txt": b"c"}


@needs_sandbox
def test_a_resumed_trial_goes_on_with_the_files_it_had(worked: Worked) -> None:
    bot = agent("m", tools=[shell()])
    first, second = (
        calls(("shell", {"command": "echo once >> log"})),
        calls(("shell", {"command": "cat log"})),
    )
    _, before = worked(bot, [first])
    _, after = worked(bot, [first, second], before.steps)
    assert results(after)[-1] == "once\n"
    assert len(after.steps) == 2


@needs_sandbox
def test_failures_and_limits_are_told_to_the_model(worked: Worked) -> None:
    bot = agent("m", tools=[shell(timeout=2), python()])
    replies = [
        calls(("shell", {"command": "echo out; echo err >&2; exit 3"})),
        calls(("shell", {"command": "sleep 60"})),
        calls(("python", {"code": "import socket; socket.create_connection(('127.0.0.1', 80))"})),
        calls(("shell", {"command": "echo $OPENAI_API_KEY; ls /home /root"})),
    ]
    _, channel = worked(bot, replies)
    first, second, third, fourth = results(channel)
    assert first == "out\n\n[stderr]\nerr\n\n[exit code 3]"
    assert "[ended: time" in second
    assert "Error" in third
    assert "No such file" in fourth


def test_files_stay_in_their_folder(worked: Worked) -> None:
    wrong = [("write_file", {"path": path, "text": "x"}) for path in ("../x", "/etc/x", "")]
    _, channel = worked(agent("m", tools=[files()]), [calls(*wrong)])
    assert channel.metrics["tool_errors"] == 3


@pytest.mark.parametrize("given", [{"timeout": 0}, {"memory": -1}, {"files": ["/nowhere/x"]}])
def test_what_is_wrong_is_said_when_it_is_declared(given: Any) -> None:
    with pytest.raises(Invalid, match=r"shell: "):
        shell(**given)


def test_a_table_names_them(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("a")
    bot = agent("m", tools=[shell(files=[tmp_path / "a"], timeout=5), python(), "files"])
    again = agent("m", tools=bot.written()["tools"])
    assert again.identity == bot.identity
    (tmp_path / "a").write_text("b")
    assert agent("m", tools=bot.written()["tools"]).identity != again.identity
