"""What is recorded of a trial: calls that failed and were caught, and what a command prints while it runs."""

from __future__ import annotations

import threading
import time
from pathlib import Path

import pytest

from peira import ask, command, open, run, study
from peira.app.control import cancel
from peira.app.store.trial import trial
from peira.core.chat.transcript import TranscriptMessage, text_lines
from peira.errors import CallFailed
from peira.sandbox.confinement import confinement

PROJECT = """
[models.flaky]
model = "scripted:flaky"
answers = [{fail = "permanent", message = "the model refuses"}, "second answer"]
"""


def test_a_call_that_failed_and_was_caught_is_in_the_transcript(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "peira.toml").write_text(PROJECT)
    monkeypatch.chdir(tmp_path)

    @study(cases=["hello"])
    def caught(case):
        try:
            return ask("flaky", case.input).text
        except CallFailed as problem:
            return ask("flaky", f"again: {problem}").text

    results = run(caught, store="s.db")
    [one] = results
    assert one.output == "second answer"
    found = trial(results.run_id, one.id, "s.db")
    said = [entry for entry in found.transcript.entries if isinstance(entry, TranscriptMessage)]
    assert [(entry.role, entry.status) for entry in said] == [
        ("user", ""),
        ("assistant", "no answer"),
        ("user", ""),
        ("assistant", ""),
    ]
    assert "scripted:flaky (no answer): the model refuses" in "\n".join(text_lines(found.transcript))


def test_what_a_command_prints_is_seen_while_it_runs(tmp_path: Path) -> None:
    prints = ["sh", "-c", "echo one; echo two >&2; sleep 600"]
    bot = command(prints, confine=not isinstance(confinement(), str), timeout=900)
    talk = study(name="talk", agent=bot, cases=["x"])
    store = tmp_path / "s.db"
    ended = threading.Thread(target=run, args=(talk,), kwargs={"store": store}, daemon=True)
    ended.start()
    deadline = time.monotonic() + 50
    printed: dict[str, str] = {}
    try:
        while set(printed) != {"stdout", "stderr"}:
            assert time.monotonic() < deadline
            time.sleep(0.1)
            if not store.exists() or not (runs := open(store).runs()):
                continue
            [planned] = open(store).results(runs[0].id)
            printed = dict(trial(runs[0].id, planned.id, store, latest=True).printed)
        assert printed == {"stdout": "one\n", "stderr": "two\n"}
    finally:
        cancel(open(store).runs()[0].id, store)
        ended.join(30)
