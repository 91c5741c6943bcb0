"""Telemetry is on where the project says so, and goes where the environment says."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from peira import Study, match, run, step
from peira.core.models import Reply, Request, ToolCall, Usage
from peira.core.registry import registry
from peira.errors import Invalid
from peira.report.telemetry import telling
from peira.report.telemetry._metrics import CallMetrics
from peira.report.telemetry.spans import OpenTelemetry
from peira.spec.case import case_ids
from peira.spec.project import Project
from peira.stores.memory import MemoryStore


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


# What the user's own code sees


@pytest.fixture
def watched() -> Any:
    """A listener with spans and metrics in memory; and the tracer that an agent would use."""
    trace = pytest.importorskip("opentelemetry.sdk.trace")
    export = pytest.importorskip("opentelemetry.sdk.trace.export")
    memory = pytest.importorskip("opentelemetry.sdk.trace.export.in_memory_span_exporter")
    spans, provider = memory.InMemorySpanExporter(), trace.TracerProvider()
    provider.add_span_processor(export.SimpleSpanProcessor(spans))
    listener = OpenTelemetry(provider)
    registry.hook(listener)
    yield spans, provider.get_tracer("mine")
    registry.unhook(listener)


def parents(spans: Any) -> dict[str, set[str]]:
    """The names of the parents of the spans of each name."""
    found = spans.get_finished_spans()
    names = {span.context.span_id: span.name for span in found}
    told: dict[str, set[str]] = {}
    for span in found:
        told.setdefault(span.name, set()).add(names.get(span.parent.span_id, "?") if span.parent else "")
    return told


def look(word: str) -> str:
    return word


@pytest.mark.parametrize("awaiting", [False, True])
def test_the_spans_of_agents_and_steps_belong_to_their_trial(watched: Any, awaiting: bool) -> None:
    spans, tracer = watched

    def plain(case: Any) -> str:
        with tracer.start_as_current_span("mine"):
            return str(step("look", look, case.input))

    async def slow(case: Any) -> str:
        with tracer.start_as_current_span("mine"):
            await asyncio.sleep(0.01)
            return str(step("look", look, case.input))

    agent = slow if awaiting else plain
    made = Study(name="s", agents={"agent": agent}, cases=[("a", "a"), ("b", "c")], evaluators=[match()])
    run(made, store=MemoryStore(), progress=False)
    assert parents(spans) == {
        "run": {""},
        "invoke_agent agent": {"run"},
        "mine": {"invoke_agent agent"},
        "step look": {"mine"},
        "evaluate match": {"run"},
    }
    scores = [
        span.attributes["gen_ai.evaluation.score.value"]
        for span in spans.get_finished_spans()
        if span.name == "evaluate match"
    ]
    assert sorted(scores) == [0.0, 1.0]
    attempts = [span for span in spans.get_finished_spans() if span.name.startswith("invoke_agent")]
    assert {span.attributes["peira.case.id"] for span in attempts} == set(case_ids(made.case_sets[""]))


def test_tools_have_spans_and_calls_their_ids_and_places() -> None:
    listener = MemoryTelemetry()
    call = {"id": "c1", "name": "look_up", "arguments": {}}
    reply = Reply("", tool_calls=(ToolCall("c1", "look_up", {}),), id="resp_7", usage=Usage(5, 3), cost=0.5)
    asked = Request(({"role": "user", "content": "?"},))
    told = Request(
        (*asked.messages, {"role": "assistant", "tool_calls": [call]}, {"role": "tool", "id": "c1"})
    )
    listener.telemetry.run_began("r", at=1.0)
    listener.telemetry.attempt_began("t", 1, run="r", at=2.0)
    place = {"run": "r", "vendor": "azure", "address": "x.openai.azure.com:443"}
    listener.telemetry.call_began("t", "k1", "openai:gpt", request=asked, at=3.0, **place)
    listener.telemetry.call_ended("t", "k1", reply, "", run="r", at=4.0)
    listener.telemetry.call_began("t", "k2", "openai:gpt", request=told, at=6.0, **place)
    listener.telemetry.call_ended("t", "k2", None, "no", run="r", status=500, at=7.0)
    found = {span.name: span for span in listener.spans.get_finished_spans() if "tool" in span.name}
    tool = found["execute_tool look_up"]
    assert (tool.start_time, tool.end_time) == (4 * 10**9, 6 * 10**9)
    assert tool.attributes["gen_ai.tool.call.id"] == "c1"
    [first, _] = [span for span in listener.spans.get_finished_spans() if span.name == "chat gpt"]
    assert first.attributes["gen_ai.response.id"] == "resp_7"
    assert first.attributes["gen_ai.provider.name"] == "azure.ai.openai"
    assert (first.attributes["server.address"], first.attributes["server.port"]) == (
        "x.openai.azure.com",
        443,
    )


class MemoryTelemetry:
    """A listener that is not hooked, with its spans in memory."""

    def __init__(self) -> None:
        trace = pytest.importorskip("opentelemetry.sdk.trace")
        export = pytest.importorskip("opentelemetry.sdk.trace.export")
        memory = pytest.importorskip("opentelemetry.sdk.trace.export.in_memory_span_exporter")
        self.spans, provider = memory.InMemorySpanExporter(), trace.TracerProvider()
        provider.add_span_processor(export.SimpleSpanProcessor(self.spans))
        self.telemetry = OpenTelemetry(provider)


def test_metrics_of_calls() -> None:
    sdk = pytest.importorskip("opentelemetry.sdk.metrics")
    export = pytest.importorskip("opentelemetry.sdk.metrics.export")
    reader = export.InMemoryMetricReader()
    metrics = CallMetrics(sdk.MeterProvider([reader]))
    metrics.began(("r", "t", "k"), "openai:gpt", "", "api.openai.com:443", 1.0)
    metrics.ended(("r", "t", "k"), Reply("x", usage=Usage(5, 3), cost=0.25), "", 3.5)
    [scope] = reader.get_metrics_data().resource_metrics[0].scope_metrics
    found = {metric.name: list(metric.data.data_points) for metric in scope.metrics}
    assert {
        point.attributes["gen_ai.token.type"]: point.sum for point in found["gen_ai.client.token.usage"]
    } == {
        "input": 5,
        "output": 3,
    }
    [duration] = found["gen_ai.client.operation.duration"]
    assert (duration.sum, duration.attributes["server.address"]) == (2.5, "api.openai.com")
    assert found["peira.cost"][0].value == 0.25


OWN = """
from opentelemetry import trace
from peira import ask, step, study

@study(cases=["a", "b"])
def own(case):
    with trace.get_tracer("mine").start_as_current_span("my work"):
        step("look", lambda: 3)
        return ask("scripted:x", case.input).text
"""


@pytest.mark.parametrize("runner", ["local", "process"])
def test_the_spans_of_agents_belong_to_their_trials_in_every_runner(tmp_path, warm, runner) -> None:
    pytest.importorskip("opentelemetry.sdk")
    (tmp_path / "own.py").write_text(OWN)
    (tmp_path / "peira.toml").write_text('telemetry = "otel"\n')
    command = ["peira", "run", "own.py", "--runner", runner, "--json"]
    environment = {**os.environ, "OTEL_TRACES_EXPORTER": "console"}
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    process = warm.start(command, cwd=tmp_path, env=environment, **pipes)
    out, err = process.communicate(timeout=50)
    assert json.loads(out)["status"] == "completed", err
    spans = [one for one in printed(err) if "context" in one]
    names = {one["context"]["span_id"]: one["name"] for one in spans}
    lies_in = sorted((one["name"], names.get(one["parent_id"], "")) for one in spans)
    assert lies_in == [
        *[("chat x", "invoke_agent own")] * 2,
        *[("invoke_agent own", "run")] * 2,
        *[("my work", "invoke_agent own")] * 2,
        ("run", ""),
        *[("step look", "my work")] * 2,
    ]
    assert len({one["context"]["trace_id"] for one in spans}) == 1
