"""A real coding agent from npm, confined and without a network, on a scripted model."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

import peira
from peira.sandbox.confinement import WORK, confinement

pytestmark = [
    pytest.mark.skipif(isinstance(confinement(), str), reason=f"no sandbox here: {confinement()}"),
    pytest.mark.skipif(shutil.which("npm") is None, reason="npm is not installed"),
    pytest.mark.timeout(300),
]
PACKAGE = "@qwen-code/qwen-code"
PROJECT = f"""
[models.fake]
model = "scripted:fake"
[models.fake.answers]
"*" = "I wrote it."
[[models.fake.answers."Write it".tool_calls]]
id = "t1"
name = "write_file"
arguments = {{file_path = "{WORK}/new.txt", content = "by the agent"}}
"""


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The program of the package, installed by npm."""
    folder = tmp_path_factory.mktemp("npm")
    words = ["npm", "install", "--no-audit", "--no-fund", "--prefix", str(folder), PACKAGE]
    try:
        done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=240)
    except subprocess.TimeoutExpired:
        pytest.skip(f"npm cannot install {PACKAGE} here within 240 s")
    program = folder / "node_modules" / ".bin" / "qwen"
    if done.returncode or not program.exists():
        pytest.skip(f"npm cannot install {PACKAGE} here: {done.stderr[-200:]}")
    return program


def test_a_coding_agent_writes_a_file_and_its_calls_are_recorded(
    installed: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "peira.toml").write_text(PROJECT)
    words = [str(installed), "-p", "{input}", "--auth-type", "openai", "--model", "tester", "--yolo"]
    agent = peira.command(words, stdin="", models={"*": "fake"}, keep=["new.txt"], timeout=120)
    made = peira.study(name="coder", agent=agent, cases=["Write it"])
    results = peira.run(made, store="s.db", progress=False)
    [trial] = results.trials
    assert trial.failure is None, trial.failure
    assert "I wrote it." in trial.output
    assert [artifact.name for artifact in trial.artifacts if artifact.name == "new.txt"] == ["new.txt"]
    assert trial.metrics["calls"] >= 2
    assert trial.about["calls_known"] == "all recorded"
    calls = len(peira.open("s.db").calls())
    assert peira.run(made, store="s.db", progress=False).counts["reused"] == 1
    assert len(peira.open("s.db").calls()) == calls
