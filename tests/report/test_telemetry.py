"""Spans: each inside the one it belongs to, in the conventions' words, and never in the way of a trial."""

from __future__ import annotations

import json
import logging
import threading
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from opentelemetry.sdk.trace import ReadableSpan, SpanProcessor, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, StatusCode

from peira import ask, current_trial, exact, run, study, submit
from peira.app.batches import collect
from peira.core.models import Reply, Request, Usage
from peira.core.registry import Registry, registry
from peira.report.telemetry import OpenTelemetry
from peira.stores.memory import MemoryStore
from peira.testing.script import scripted_attempt

CAPTURE = "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT"
CANARY = "a prompt that nobody may see"


class Watched:
    """A listener, and the spans that came of what it heard."""

    def __init__(self) -> None:
        self._exporter = InMemorySpanExporter()
        self.provider = TracerProvider()
        self.provider.add_span_processor(SimpleSpanProcessor(self._exporter))
        self.listener = OpenTelemetry(self.provider)
        self.registry = Registry()
        self.registry.hook(self.listener)

    def hear(self, hook: str, **facts: object) -> None:
        """From a thread of its own, as the engine's hooks come."""
        thread = threading.Thread(target=self.registry.call, args=(hook,), kwargs=facts)
        thread.start()
        thread.join()

    @property
    def spans(self) -> tuple[ReadableSpan, ...]:
        return self._exporter.get_finished_spans()

    def named(self, name: str) -> list[ReadableSpan]:
        return [span for span in self.spans if span.name.startswith(name)]

    def parents(self) -> Counter[tuple[str, str]]:
        """How many spans of a name lie in one of a name."""
        names = {span.context.span_id: span.name.partition(" ")[0] for span in self.spans}
        return Counter(
            (span.name.partition(" ")[0], names[span.parent.span_id] if span.parent else "")
            for span in self.spans
        )


@pytest.fixture
def watched() -> Watched:
    return Watched()


@pytest.fixture
def hooked() -> Iterator[Watched]:
    """One that hears this process's runs."""
    watched = Watched()
    registry.hook(watched.listener)
    yield watched
    registry.unhook(watched.listener)


# What the hooks say becomes spans


def test_a_call_lies_in_its_attempt_and_an_attempt_in_its_run(watched) -> None:
    watched.hear("run_began", run="r")
    for task in ("t", "u"):
        watched.hear("attempt_began", run="r", task=task, epoch=1)
        watched.hear("call_began", run="r", task=task, epoch=1, key="k", model="openai:gpt-5-mini")
    for task in ("t", "u"):
        watched.hear(
            "call_ended", run="r", task=task, epoch=1, key="k", model="m", reply=Reply("x"), problem=""
        )
        watched.hear("attempt_ended", run="r", task=task, epoch=1, state="succeeded")
    watched.hear("run_ended", run="r", status="completed")
    assert watched.parents() == {("chat", "attempt"): 2, ("attempt", "run"): 2, ("run", ""): 1}
    assert len({span.context.trace_id for span in watched.spans}) == 1
    tasks = {span.context.span_id: span.attributes["peira.task.id"] for span in watched.named("attempt")}
    assert sorted(tasks[span.parent.span_id] for span in watched.named("chat")) == ["t", "u"]
    assert all(span.status.status_code is StatusCode.UNSET for span in watched.spans)


def test_spans_are_as_long_as_what_they_are_about_and_not_as_it_took_to_be_told(watched) -> None:
    call = {"run": "r", "task": "t", "epoch": 1, "key": "k", "model": "m"}
    watched.hear("run_began", run="r", at=100.0)
    watched.hear("attempt_began", run="r", task="t", epoch=1, at=101.0)
    watched.hear("call_began", **call, at=102.0)
    watched.hear("call_ended", **call, reply=Reply("x"), problem="", at=103.5)
    watched.hear("call_began", **{**call, "key": "l"}, batch="b", at=103.6)
    watched.hear("attempt_ended", run="r", task="t", epoch=1, state="succeeded", at=104.0)
    watched.hear("call_ended", **{**call, "key": "l"}, reply=Reply("x"), problem="", batch="b", at=104.5)
    watched.hear("run_ended", run="r", status="completed", at=105.0)
    times = [(span.start_time / 1e9, span.end_time / 1e9) for span in watched.spans]
    assert times == [(102.0, 103.5), (101.0, 104.0), (103.6, 104.5), (100.0, 105.0)]


def test_runs_at_the_same_time_are_kept_apart(watched) -> None:
    for name in ("r", "s"):
        watched.hear("run_began", run=name)
    for name in ("r", "s"):
        watched.hear("attempt_began", run=name, task="t", epoch=1)
    for name in ("r", "s"):
        watched.hear("attempt_ended", run=name, task="t", epoch=1, state="succeeded")
        watched.hear("run_ended", run=name, status="completed")
    runs = {span.context.span_id: span.attributes["peira.run.id"] for span in watched.named("run")}
    inside = [
        (span.attributes["peira.run.id"], runs[span.parent.span_id]) for span in watched.named("attempt")
    ]
    assert inside == [("r", "r"), ("s", "s")]


def test_what_did_not_succeed_is_an_error(watched) -> None:
    watched.hear("run_began", run="r")
    watched.hear("attempt_began", run="r", task="t", epoch=1)
    watched.hear("call_began", run="r", task="t", epoch=1, key="k", model="openai:x")
    failed = {"reply": None, "problem": "too many requests", "status": 429}
    watched.hear("call_ended", run="r", task="t", epoch=1, key="k", model="openai:x", **failed)
    watched.hear("attempt_ended", run="r", task="t", epoch=1, state="failed")
    watched.hear("run_ended", run="r", status="completed with failures")
    errors = [(span.attributes["error.type"], span.status.status_code) for span in watched.spans]
    assert errors == [
        ("429", StatusCode.ERROR),
        ("failed", StatusCode.ERROR),
        ("completed with failures", StatusCode.ERROR),
    ]
    assert watched.spans[0].status.description == "too many requests"


def test_what_nobody_ended_ends_with_its_run_or_with_the_next_attempt(watched) -> None:
    watched.hear("run_began", run="r")
    for epoch in (1, 2):
        watched.hear("attempt_began", run="r", task="t", epoch=epoch)
    watched.hear("call_began", run="r", task="t", epoch=2, key="k", model="openai:x")
    watched.hear("run_ended", run="r", status="interrupted")
    assert [span.attributes["error.type"] for span in watched.spans][-1] == "interrupted"
    assert Counter(span.attributes["error.type"] for span in watched.spans)["abandoned"] == 3
    watched.hear("run_began", run="s")
    watched.listener.close()
    assert watched.spans[-1].attributes["peira.run.id"] == "s"


def test_an_attempt_says_who_answered_what_and_how(watched) -> None:
    attempt = scripted_attempt("one", ["return", 1])
    attempt.work.condition = {"style": "plain", "depth": 2, "tools": ["a"], "system": CANARY * 4}
    watched.hear("attempt_began", run="r", task=attempt.spec.id, epoch=1, attempt=attempt)
    watched.listener.close()
    (span,) = watched.spans
    assert span.name == "invoke_agent scripted"
    assert (span.attributes["gen_ai.operation.name"], span.attributes["gen_ai.agent.name"]) == (
        "invoke_agent",
        "scripted",
    )
    levels = {name: value for name, value in span.attributes.items() if name.startswith("peira.factor")}
    assert levels == {"peira.factor.style": "plain", "peira.factor.depth": 2, "peira.factor.tools": '["a"]'}
    assert CANARY not in span.to_json()


# The conventions

REQUEST = Request(
    messages=(
        {"role": "user", "content": [{"type": "text", "text": CANARY}, {"type": "image", "url": "u://x"}]},
        {
            "role": "assistant",
            "content": "",
            "tool_calls": [{"id": "1", "name": "look", "arguments": {"q": 1}}],
        },
        {"role": "tool", "id": "1", "content": "rain"},
    ),
    system="be brief",
    tools=({"name": "look", "description": "looks"},),
    schema={"type": "object"},
    parameters={
        "temperature": 0,
        "top_p": 0.5,
        "max_tokens": 100,
        "seed": 7,
        "n": 2,
        "stop": "END",
        "x": "y",
    },
)
REPLY = Reply(
    "four",
    model="gpt-5-mini-2026-01-01",
    finish="stop",
    usage=Usage(input=10, output=3, cached=4, reasoning=2),
    reasoning="two and two",
    texts=("four", "4"),
    cost=0.25,
    first_token=0.5,
)


def asked(watched: Watched, model: str, request: Request | None, reply: Reply = REPLY) -> ReadableSpan:
    watched.hear("call_began", run="r", task="t", epoch=1, key="k", model=model, request=request)
    watched.hear("call_ended", run="r", task="t", epoch=1, key="k", model=model, reply=reply, problem="")
    return watched.spans[-1]


def test_a_call_in_the_words_of_the_conventions(watched) -> None:
    span = asked(watched, "openai:gpt-5-mini", REQUEST)
    assert (span.name, span.kind) == ("chat gpt-5-mini", SpanKind.CLIENT)
    assert {name: value for name, value in span.attributes.items() if name.startswith("gen_ai")} == {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": "openai",
        "gen_ai.request.model": "gpt-5-mini",
        "gen_ai.request.temperature": 0.0,
        "gen_ai.request.top_p": 0.5,
        "gen_ai.request.max_tokens": 100,
        "gen_ai.request.seed": 7,
        "gen_ai.request.choice.count": 2,
        "gen_ai.request.stop_sequences": ("END",),
        "gen_ai.output.type": "json",
        "gen_ai.response.model": "gpt-5-mini-2026-01-01",
        "gen_ai.response.finish_reasons": ("stop",),
        "gen_ai.response.time_to_first_chunk": 0.5,
        "gen_ai.usage.input_tokens": 10,
        "gen_ai.usage.output_tokens": 3,
        "gen_ai.usage.cache_read.input_tokens": 4,
        "gen_ai.usage.reasoning.output_tokens": 2,
    }
    assert span.attributes["peira.cost"] == 0.25


def test_every_attribute_is_one_that_opentelemetry_knows(watched) -> None:
    from opentelemetry.semconv._incubating.attributes import gen_ai_attributes

    known = {value for name, value in vars(gen_ai_attributes).items() if name.startswith("GEN_AI_")}
    assert {name for name in asked(watched, "openai:x", REQUEST).attributes if "gen_ai" in name} <= known


@pytest.mark.parametrize(
    ("model", "provider", "name"),
    [
        ("anthropic:claude-haiku-4-5", "anthropic", "claude-haiku-4-5"),
        ("gemini:flash", "gcp.gemini", "flash"),
        ("mistral:small", "mistral_ai", "small"),
        ("xai:grok", "x_ai", "grok"),
        ("litellm:bedrock/x:1", "litellm", "bedrock/x:1"),
        ("scripted:", "scripted", "scripted:"),
        ("fast", None, "fast"),
    ],
)
def test_providers_have_the_names_that_the_conventions_give_them(watched, model, provider, name) -> None:
    found = asked(watched, model, None).attributes
    assert (found.get("gen_ai.provider.name"), found["gen_ai.request.model"]) == (provider, name)


def test_nothing_is_said_about_what_is_not_known(watched) -> None:
    span = asked(watched, "openai:x", None, Reply("hi"))
    assert {name for name in span.attributes if name.startswith("gen_ai")} == {
        "gen_ai.operation.name",
        "gen_ai.provider.name",
        "gen_ai.request.model",
    }


@pytest.mark.parametrize("said", ["", "false", "NO_CONTENT", "EVENT_ONLY"])
def test_content_stays_out_unless_it_is_asked_for(monkeypatch, said) -> None:
    monkeypatch.setenv(CAPTURE, said)
    text = asked(Watched(), "openai:x", REQUEST).to_json()
    assert not [secret for secret in (CANARY, "be brief", "rain", "two and two", "four") if secret in text]


@pytest.mark.parametrize("said", ["true", "SPAN_ONLY", "span_and_event"])
def test_content_that_is_asked_for_has_the_conventions_form(monkeypatch, said) -> None:
    monkeypatch.setenv(CAPTURE, said)
    found = asked(Watched(), "openai:x", REQUEST).attributes
    assert json.loads(found["gen_ai.input.messages"]) == [
        {
            "role": "user",
            "parts": [
                {"type": "text", "content": CANARY},
                {"type": "uri", "modality": "image", "mime_type": None, "uri": "u://x"},
            ],
        },
        {
            "role": "assistant",
            "parts": [
                {"type": "text", "content": ""},
                {"type": "tool_call", "id": "1", "name": "look", "arguments": {"q": 1}},
            ],
        },
        {"role": "tool", "parts": [{"type": "tool_call_response", "id": "1", "response": "rain"}]},
    ]
    assert json.loads(found["gen_ai.system_instructions"]) == [{"type": "text", "content": "be brief"}]
    assert json.loads(found["gen_ai.tool.definitions"]) == [
        {"type": "function", "name": "look", "description": "looks"}
    ]
    assert json.loads(found["gen_ai.output.messages"]) == [
        {
            "role": "assistant",
            "parts": [
                {"type": "reasoning", "content": "two and two"},
                {"type": "text", "content": "four"},
            ],
            "finish_reason": "stop",
        },
        {"role": "assistant", "parts": [{"type": "text", "content": "4"}], "finish_reason": "stop"},
    ]


# Real runs


@study(cases=[("one two", "one two"), ("three", "three")], evaluators=[exact()], repeats=2,
       policy={"retries": 1, "backoff": 0})  # fmt: skip
def echo(case):
    said = ask("scripted:echo", case.input, temperature=0)
    if case.input == "three" and current_trial().attempt == 1:
        raise OSError("once")
    return ask("scripted:echo", said.text)


def test_the_spans_of_a_run_are_what_the_store_says(hooked, caplog) -> None:
    results = run(echo, store=MemoryStore(), parallel=4, progress=False)
    calls, attempts = (
        hooked.named("chat"),
        [span for span in hooked.spans if "peira.attempt" in span.attributes],
    )
    by_task = Counter(span.attributes["peira.task.id"] for span in attempts)
    assert {trial.id: trial.attempts for trial in results.trials}.items() <= by_task.items()
    scored = results.counts["scores"] - results.counts["scores reused"]
    assert len(attempts) == sum(trial.attempts for trial in results.trials) + scored
    owners = {span.context.span_id: span.attributes["peira.task.id"] for span in attempts}
    assert Counter(owners[span.parent.span_id] for span in calls) == {trial.id: 2 for trial in results.trials}
    assert sum(span.attributes["gen_ai.usage.input_tokens"] for span in calls) == 2 * (2 * 2 + 2 * 1)
    (root,) = hooked.named("run")
    assert {span.parent.span_id for span in attempts} == {root.context.span_id}
    assert (root.parent, root.attributes["peira.run.id"]) == (None, results.run_id)
    assert all(root.start_time <= span.start_time <= span.end_time <= root.end_time for span in hooked.spans)
    hooked.listener.close()
    assert not caplog.records  # each was ended once, and none is left over


def test_what_is_replayed_has_no_span_and_costs_no_tokens_twice(hooked) -> None:
    store = MemoryStore()
    run(echo, store=store, progress=False)
    before = len(hooked.named("chat"))

    @study(cases=[("one two", "one two"), ("three", "three")], repeats=2)
    def edited(case):
        return ask("scripted:echo", ask("scripted:echo", case.input, temperature=0).text).text.upper()

    results = run(edited, store=store, progress=False)
    assert {trial.output for trial in results.trials} == {"ONE TWO", "THREE"}
    assert len(hooked.named("chat")) == before


def test_a_run_inside_a_span_of_the_program_belongs_to_it(hooked) -> None:
    with hooked.provider.get_tracer("program").start_as_current_span("outer") as outer:
        run(echo, store=MemoryStore(), progress=False)
    (root,) = hooked.named("run")
    assert root.parent.span_id == outer.get_span_context().span_id


def test_telemetry_that_fails_fails_no_trial(caplog) -> None:
    class Broken(SpanProcessor):
        def on_start(self, span: Any, parent_context: Any = None) -> None:
            raise RuntimeError("the exporter is broken")

    provider = TracerProvider()
    provider.add_span_processor(Broken())
    listener = OpenTelemetry(provider)
    registry.hook(listener)
    try:
        with caplog.at_level(logging.WARNING, logger="peira"):
            results = run(echo, store=MemoryStore(), progress=False)
    finally:
        registry.unhook(listener)
    assert results.counts["succeeded"] == 4
    assert "the exporter is broken" in caplog.text


# Calls in batches

PRICE = '[models."{name}"]\nprice = {{input = 200.0, output = 400.0}}\n'
HALF = (10 * 200.0 + 5 * 400.0) / 1_000_000 / 2
"""What a call in a batch costs: the endpoint counts 10 tokens in and 5 out."""
either = pytest.mark.parametrize("provider", ["openai"], indirect=True)


@pytest.fixture
def batched(provider, tmp_path, monkeypatch) -> Any:
    """A study whose calls can be handed in, two for each of three cases."""
    monkeypatch.chdir(tmp_path)
    Path("peira.toml").write_text(PRICE.format(name=provider.name))
    name = provider.name

    def agent(case):  # type: ignore[no-untyped-def]
        return ask(name, ask(name, case.input, temperature=0).text + "!").text

    return study(agent=agent, name="s", cases=["ab", "cd", "ef"])


def test_calls_in_batches_lie_in_the_run_from_hand_in_to_answer(hooked, provider, batched, caplog) -> None:
    results = run(batched, store="s.db", batch=True, progress=False)
    (root,) = hooked.named("run")
    spans = hooked.named("chat")
    assert sorted(span.attributes["peira.call.key"] for span in spans) == provider.billed_keys()
    assert len({span.attributes["peira.batch.id"] for span in spans}) == 2
    for span in spans:
        said = span.attributes
        assert (span.name, span.kind) == (f"chat {provider.model}", SpanKind.CLIENT)
        assert (said["gen_ai.usage.input_tokens"], said["gen_ai.usage.output_tokens"]) == (10, 5)
        assert (said["peira.cost"], span.status.status_code) == (pytest.approx(HALF), StatusCode.UNSET)
        assert span.parent.span_id == root.context.span_id
        assert root.start_time < span.start_time < span.end_time < root.end_time
        assert "peira.batch.earlier" not in said
    assert Counter(span.attributes.get("gen_ai.request.temperature") for span in spans) == {0.0: 3, None: 3}
    attempts = [span for span in hooked.spans if "peira.attempt" in span.attributes]
    states = Counter(span.attributes.get("peira.state") for span in attempts)
    assert states["succeeded"] == len(results.trials) == 3
    assert set(states) == {"succeeded", "waiting"}
    assert not [span for span in attempts if span.status.status_code is StatusCode.ERROR]
    assert not caplog.records


@either
def test_a_batch_of_an_earlier_process_has_its_spans_where_it_is_collected(hooked, provider, batched) -> None:
    provider.plan(hold=True)
    begun = submit(batched, store="s.db", batch=True, progress=False)
    while not provider.batches():
        threading.Event().wait(0.02)
    begun.cancel()
    begun.result()
    assert hooked.named("chat") == []
    provider.plan(hold=False)
    collect("s.db")
    spans = hooked.named("chat")
    assert sorted(span.attributes["peira.call.key"] for span in spans) == provider.billed_keys()
    for span in spans:
        assert (span.attributes["peira.batch.earlier"], span.parent) == (True, None)
        assert span.attributes["peira.run.id"] == begun.result().run_id
        assert span.attributes["peira.cost"] == pytest.approx(HALF)
        assert span.end_time - span.start_time < 50_000_000
    run(batched, store="s.db", batch=True, progress=False)
    assert len(hooked.named("chat")) == 6


@either
def test_calls_that_a_batch_did_not_answer_are_errors(hooked, provider, batched) -> None:
    provider.plan(whole={"status": "failed", "code": "no_luck", "message": "not with us"})
    run(batched, store="s.db", batch=True, progress=False)
    spans = hooked.named("chat")
    assert len(spans) % 3 == 0
    assert {(span.status.status_code, span.status.description) for span in spans} == {
        (StatusCode.ERROR, "not with us")
    }


# In the background


def test_runs_in_the_background_are_told_too(hooked) -> None:
    assert submit(echo, store=MemoryStore(), progress=False).result().status == "completed"
    assert len(hooked.named("run")) == 1
