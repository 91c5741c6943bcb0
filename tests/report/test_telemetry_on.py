"""Telemetry is on where the project says so, and goes where the environment says."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from peira.core.registry import registry
from peira.errors import Invalid
from peira.report.telemetry import telling
from peira.spec.project import Project


def test_nobody_listens_unless_the_project_says_so(monkeypatch) -> None:
    monkeypatch.setenv("OTEL_TRACES_EXPORTER", "none")
    before = registry.listening
    with telling(False):
        assert registry.listening == before
    with telling(True), telling(True):
        assert registry.listening
    assert registry.listening == before


def test_the_project_file_knows_two_words_for_it(tmp_path) -> None:
    (tmp_path / "peira.toml").write_text('telemetry = "otel"\n')
    assert Project.find(tmp_path).telemetry == "otel"
    (tmp_path / "peira.toml").write_text('telemetry = "otle"\n')
    with pytest.raises(Invalid, match="telemetry: ") as caught:
        Project.find(tmp_path)
    assert "'otel'" in str(caught.value)


STUDY = """
from peira import ask, study

@study(cases=["hello there"])
def echo(case):
    return ask("scripted:echo", case.input)
"""
WITHOUT = """
import sys
sys.modules["opentelemetry"] = None
from peira.cli import main
sys.exit(main(sys.argv[1:]))
"""


@pytest.fixture
def peira(tmp_path: Path, warm: Any) -> Callable[..., subprocess.CompletedProcess[str]]:
    """`peira run`, in a project with telemetry, in a process of its own."""
    (tmp_path / "echo.py").write_text(STUDY)
    (tmp_path / "peira.toml").write_text('telemetry = "otel"\n')

    def start(*python: str, **environment: str) -> subprocess.CompletedProcess[str]:
        command = [*((sys.executable, *python) if python else ("peira",)), "run", "echo.py", "--json"]
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
        process = warm.start(command, cwd=tmp_path, env={**os.environ, **environment}, **pipes)
        out, err = process.communicate(timeout=50)
        return subprocess.CompletedProcess(command, process.returncode, out, err)

    return start


def printed(text: str) -> list[dict[str, Any]]:
    """The spans that the console exporter wrote, among other lines."""
    found, decoder = [], json.JSONDecoder()
    while (at := text.find("{")) >= 0:
        span, end = decoder.raw_decode(text[at:])
        found.append(span)
        text = text[at + end :]
    return found


def test_spans_go_where_the_environment_says(peira) -> None:
    done = peira(OTEL_TRACES_EXPORTER="console")
    assert json.loads(done.stdout)["status"] == "completed"
    spans = {span["name"].partition(" ")[0]: span for span in printed(done.stderr)}
    assert spans["chat"]["attributes"]["gen_ai.usage.input_tokens"] == 2
    assert {span["resource"]["attributes"]["service.name"] for span in spans.values()} == {"peira"}
    assert "hello there" not in done.stderr
    named = peira(OTEL_TRACES_EXPORTER="console", OTEL_SERVICE_NAME="mine")
    assert {span["resource"]["attributes"]["service.name"] for span in printed(named.stderr)} == {"mine"}


def test_an_environment_that_wants_no_spans_is_heeded(peira) -> None:
    done = peira(OTEL_TRACES_EXPORTER="none")
    assert (done.returncode, printed(done.stderr)) == (0, [])


@pytest.mark.parametrize(
    ("environment", "problem"),
    [
        ({"OTEL_TRACES_EXPORTER": "konsole"}, "no exporter 'konsole'; did you mean 'console'?"),
        ({"OTEL_EXPORTER_OTLP_PROTOCOL": "smoke"}, 'no exporter for OTLP is installed: pip install "peira'),
    ],
)
def test_an_exporter_that_is_not_there_is_named_before_anything_runs(
    peira, tmp_path, environment, problem
) -> None:
    done = peira(**environment)
    assert (done.returncode, done.stdout) == (2, "")
    assert problem in done.stderr
    assert not (tmp_path / ".peira").exists()


def test_without_opentelemetry_the_extra_is_named(peira, tmp_path) -> None:
    done = peira("-c", WITHOUT)
    assert done.returncode == 2
    assert done.stderr == 'peira: telemetry: "otel" needs OpenTelemetry: pip install "peira[otel]"\n'
    assert not (tmp_path / ".peira").exists()
