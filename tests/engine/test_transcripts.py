"""Transcripts: the order of what an attempt did, for every agent, evaluator and export."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

import peira
from peira import ask, current_trial, run, run_async, step, study, submit
from peira.app.store.trial import trial as trial_record
from peira.core.chat.transcript import (
    Transcript,
    TranscriptFile,
    TranscriptMessage,
    TranscriptNote,
    TranscriptStep,
)
from peira.data.outputs import inspect_log
from peira.errors import Unknown
from peira.spec.data_files import Problems
from peira.stores.sqlite import SqliteStore
from peira.stores.verify import verify

ECHO = "scripted:echo"


def double(n: int) -> int:
    return 2 * n


def works(case: Any) -> str:
    trial = current_trial()
    first = ask(ECHO, case.input, system="be brief")
    trial.log("heard", text=first.text)
    n = step("double", double, 4)
    trial.attach("notes.txt", f"{n}")
    messages = [{"role": "user", "content": case.input}, first.message, {"role": "user", "content": "and?"}]
    return ask(ECHO, messages, system="be brief").text


def kinds(found: Transcript) -> list[str]:
    names = {
        TranscriptMessage: "role",
        TranscriptStep: "name",
        TranscriptNote: "name",
        TranscriptFile: "name",
    }
    return [getattr(entry, names[type(entry)]) for entry in found.entries]


def reads(transcript: Transcript) -> float:
    return len(transcript.messages)


def sound(path: str = "s.db") -> None:
    store = SqliteStore(Path(path), readonly=True)
    assert verify(store) == []
    store.close()


def test_everything_stands_in_order_and_every_message_once(folder: Path) -> None:
    made = study(works, cases=["hello"], evaluators=[reads])
    results = run(made, store="s.db", progress=False)
    (trial,) = results.trials
    assert trial.scores["reads"].value == 5.0
    found = results.transcript(trial)
    assert kinds(found) == [
        *("system", "user", "assistant", "heard", "double", "notes.txt", "user", "assistant"),
    ]
    assert found.entries[4] == TranscriptStep("double", 8, found.entries[4].at)
    times = [entry.at for entry in found.entries if getattr(entry, "at", None) is not None]
    assert times == sorted(times)
    assert [one["role"] for one in found.openai()] == ["system", "user", "assistant", "user", "assistant"]
    assert "log heard" in str(found)
    assert results.transcript(trial.id[:8]) == found
    with pytest.raises(Unknown):
        results.transcript("ffff0000ffff")
    sound()


def test_a_score_that_reads_the_transcript_is_reused_and_made_anew_with_it(folder: Path) -> None:
    made = study(works, cases=["hello"], evaluators=[reads])
    first = run(made, store="s.db", progress=False)
    again = run(made, store="s.db", progress=False)
    assert again.trials[0].scores["reads"].value == first.trials[0].scores["reads"].value
    assert again.counts.get("evaluate", {}) or again.ok
    fresh = run(made, store="s.db", progress=False, fresh=True)
    assert fresh.trials[0].scores["reads"].value == 5.0


def test_steps_that_were_replayed_stand_in_the_transcript_too(folder: Path) -> None:
    def fails_once(case: Any) -> str:
        step("double", double, 4)
        ask(ECHO, case.input)
        if not Path("mark").exists():
            Path("mark").touch()
            raise OSError("once")
        return "done"

    made = study(fails_once, cases=["hello"], policy={"retries": 1, "backoff": 0})
    results = run(made, store="s.db", progress=False)
    assert kinds(results.transcript(results.trials[0])) == ["double", "user", "assistant"]
    record = trial_record(results.run_id, results.trials[0].id[:8], "s.db")
    assert next(type(e).__name__ for e in record.transcript.entries) == "TranscriptAttempt"
    assert "OSError: once" in str(record.transcript)
    sound()


def test_exports_in_the_shapes_of_openai_and_inspect(folder: Path) -> None:
    results = run(study(works, cases=["hello", "bye"], evaluators=[reads]), store="s.db", progress=False)
    results.export("m.jsonl", "openai")
    lines = [json.loads(line) for line in Path("m.jsonl").read_text().splitlines()]
    assert [m["role"] for m in lines[0]["messages"]] == ["system", "user", "assistant", "user", "assistant"]
    assert lines[0]["metadata"]["scores"] == {"reads": 5.0}
    results.export("m.jsonl", "openai")  # its own file is replaced
    results.export("log.json", "inspect")
    results.export("log.json", "inspect")
    problems = Problems()
    (one, two) = inspect_log.outputs(Path("log.json"), problems)
    problems.refuse()
    assert {one.output, two.output} == {"and?"}
    assert {one.input, two.input} == {"hello", "bye"}
    assert one.scores["inspect.reads"] == {"value": 5}


def test_keys_of_the_environment_are_not_shown(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-very-secret-key-0123456789")

    def leaks(case: Any) -> str:
        step("look", _key)
        return "done"

    results = run(study(leaks, cases=["hello"]), store="s.db", progress=False)
    assert "sk-very" not in str(results.transcript(results.trials[0]))


def _key() -> str:
    return "the key is sk-very-secret-key-0123456789"


def test_a_run_is_awaited_while_other_tasks_go_on(folder: Path) -> None:
    made = study(works, cases=["hello"])

    async def both() -> tuple[Any, int, Any, Any]:
        ticks = 0

        async def ticking() -> None:
            nonlocal ticks
            while True:
                ticks += 1
                await asyncio.sleep(0.001)

        ticker = asyncio.create_task(ticking())
        results = await run_async(made, store="s.db", progress=False)
        counted = ticks
        ticker.cancel()
        return (
            results,
            counted,
            await submit(made, store="s.db", progress=False),
            await run(made, store="s.db", progress=False),
        )

    results, ticks, handled, blocked = asyncio.run(both())
    assert ticks > 1
    assert [r.trials[0].output for r in (results, handled, blocked)] == ["and?"] * 3


def test_cancelling_the_task_that_awaits_a_run_cancels_the_run(folder: Path) -> None:
    async def slow(case: Any) -> str:
        await asyncio.sleep(600)
        return "never"

    async def main() -> None:
        task = asyncio.create_task(run_async(study(slow, cases=["a"]), store="s.db", progress=False))
        await asyncio.sleep(1.0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(main())
    handle = None
    for _ in range(200):
        (found,) = peira.open("s.db").runs()
        handle = found.status.value
        if handle == "cancelled":
            break
        asyncio.run(asyncio.sleep(0.05))
    assert handle == "cancelled"


def test_what_agents_report_as_cost_counts(folder: Path) -> None:
    def pays(case: Any) -> str:
        current_trial().report(cost_usd=0.25)
        return "done"

    results = run(study(pays, cases=["a"]), store="s.db", progress=False)
    assert results.trials[0].cost == 0.25
    assert "cost_usd" not in results.trials[0].metrics
