"""Kills at random moments with people in the loop: no answer is lost, nobody is asked twice."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

import peira
from peira.app.inbox import answer, inbox, question
from peira.app.session import Session
from peira.core.log.events import State
from peira.errors import StoreInUse, Unknown
from peira.stores.verify import verify

STUDY = """
import sys
from peira import Case, Policy, ask_person, run, step, study

def note(what, where):
    with open(where, "a") as out:
        out.write(what + "\\n")
    return what

def right(output):
    return ask_person("Right?", show=output, options=[0, 1])

@study(name="letters", cases=[Case(str(n), id=str(n)) for n in range(6)], evaluators=[right],
       policy=Policy(interruptions=10_000))
def letters(case):
    draft = step("draft", note, case.id, sys.argv[2])
    first = ask_person("First?", show=draft)
    return [draft, first, ask_person("Second?", show=first)]

if __name__ == "__main__":
    done = run(letters, store=sys.argv[1], wait_for_people=True, progress=False, wait=30)
    sys.exit(0 if done.status == "completed" else 5)
"""
QUESTIONS = 6 * 3


def said(prompt: str, case: str) -> object:
    return 1 if prompt == "Right?" else f"{prompt} {case}"


def killed_and_answered(folder: Path, kills: int, seed: int) -> None:
    """Kill the run again and again while its questions are answered, beside it and alone."""
    rng = random.Random(seed)
    (folder / "letters.py").write_text(STUDY)
    path, steps = folder / "s.db", folder / "steps"
    words = [sys.executable, str(folder / "letters.py"), str(path), str(steps)]
    answered: dict[str, str] = {}
    left = kills
    deadline = time.monotonic() + 30 + 6 * kills
    while True:
        assert time.monotonic() < deadline, "it never ends"
        with open(folder / "stderr", "ab") as errors:
            process = subprocess.Popen(words, stderr=errors)
        end = time.monotonic() + (rng.uniform(0.3, 1.6) if left > 0 else 60)
        while process.poll() is None and time.monotonic() < end:
            answer_some(path, answered, rng, 1 if left > 0 else 6)
            time.sleep(rng.uniform(0, 0.1))
        if process.poll() is None:
            os.kill(process.pid, signal.SIGKILL)
        code = process.wait()
        left -= 1
        if code == 0:
            break
        assert code == -signal.SIGKILL, (folder / "stderr").read_text()
        if rng.random() < 0.3:
            answer_some(path, answered, rng, 1)  # nobody is there: it is done here
    assert len(answered) == QUESTIONS
    results = peira.open(path).results()
    for trial in results.trials:
        case = trial.case_id
        assert trial.output == [case, f"First? {case}", f"Second? {case}"]
    assert all(question(key, path).row.by == by for key, by in answered.items())
    noted = steps.read_text().split()
    with Session.find(path).reading() as store:
        rows = store.find("task", [trial.id for trial in results.trials])
        assert {row.state for row in rows.values()} == {State.succeeded}
        # A step that was cut off before it was recorded is executed again: each such kill cost its task
        # an interruption, and waiting cost none.
        assert len(noted) - 6 <= kills
        assert verify(store) == []


def answer_some(path: Path, answered: dict[str, str], rng: random.Random, most: int) -> None:
    try:
        found = inbox(path)
    except Unknown:  # there is no store yet
        return
    for one in rng.sample(found, min(most, len(found))):
        assert one.key not in answered, "it was answered, and is asked again"
        by = f"person {len(answered)}"
        try:
            outcome = answer(one.key, said(one.question.prompt, one.question.case), path, by=by)
        except StoreInUse:  # its owner was killed meanwhile; the command stays queued
            outcome = answer(one.key, said(one.question.prompt, one.question.case), path, by=by)
        assert outcome.question.row.by == by
        answered[one.key] = by


def test_kills_with_people_in_the_loop(tmp_path: Path) -> None:
    killed_and_answered(tmp_path, kills=5, seed=1)


@pytest.mark.torture
@pytest.mark.parametrize("seed", range(10))
def test_many_kills_with_people_in_the_loop(seed: int, tmp_path: Path) -> None:
    killed_and_answered(tmp_path, kills=20, seed=seed)


def test_two_processes_answer_at_once(tmp_path: Path) -> None:
    """Each of many questions is answered by two processes at the same time: one is taken, one is refused."""
    (tmp_path / "letters.py").write_text(STUDY)
    path, steps = tmp_path / "s.db", tmp_path / "steps"
    process = subprocess.Popen([sys.executable, str(tmp_path / "letters.py"), str(path), str(steps)])
    try:
        while True:
            try:
                if len(inbox(path)) == 6:
                    break
            except Unknown:
                pass
            time.sleep(0.05)
        for one in inbox(path)[:3]:
            command = [sys.executable, "-m", "peira.cli", "inbox", "answer", one.key]
            both = [
                subprocess.Popen([*command, name, "--by", name, "--store", str(path)], stderr=subprocess.PIPE)
                for name in ("ann", "ben")
            ]
            ends = {
                name: (p.communicate()[1].decode(), p.returncode) for name, p in zip("ab", both, strict=True)
            }
            assert sorted(code for _, code in ends.values()) == [0, 1]
            winner = "ann" if ends["a"][1] == 0 else "ben"
            [refused] = [text for text, code in ends.values() if code == 1]
            assert f"answered already, by {winner}" in refused
            assert question(one.key, path).row.by == winner
    finally:
        process.kill()
        process.wait()


@pytest.mark.parametrize("kills", [5])
def test_kills_while_all_wait_cost_nothing(kills: int, tmp_path: Path) -> None:
    (tmp_path / "letters.py").write_text(STUDY)
    path, steps = tmp_path / "s.db", tmp_path / "steps"
    for _ in range(kills):
        process = subprocess.Popen([sys.executable, str(tmp_path / "letters.py"), str(path), str(steps)])
        while True:
            try:
                if len(inbox(path)) == 6 and peira.open(path).run().status == "running":
                    break
            except Unknown:
                pass
            time.sleep(0.02)
        process.kill()
        process.wait()
    with Session.find(path).owned() as store:
        waiting = store.waiting()
        assert {(row.attempts, row.interruptions, row.state) for row in waiting} == {(0, 0, State.waiting)}
        assert len(waiting) == 6
    assert sorted(steps.read_text().split()) == [str(n) for n in range(6)]
