"""Random plans with random failures, kills and resumes, against a model of what must come of them."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from peira.app.session import Session
from peira.app.work.view import find_work
from peira.core.log.events import TERMINAL, TaskFinished
from peira.engine.work.record import unit_task

PROGRAM = """
import json, os, sys
from pathlib import Path
from peira import fanout, unit
plan = json.loads(Path("plan.json").read_text())

def work(unit):
    before = Path("executed").read_text().split() if Path("executed").exists() else []
    with open("executed", "ab", buffering=0) as file:
        file.write(f"{unit}\\n".encode())
    if before.count(unit) < plan[unit]["fails"]:
        raise RuntimeError("not yet")
    return unit

command = ["sh", "-c", "echo {unit} >> executed; echo {unit} > {unit}/{unit}; "
           "test $(grep -c '^{unit}$' executed) -gt FAILS"]
units = [
    unit(name, work, one["needs"]) if one["kind"] == "function" else
    unit(name, [w.replace("FAILS", str(one["fails"])).replace("executed", os.path.abspath("executed"))
                for w in command], one["needs"], may_write=[name], confine=False)
    for name, one in plan.items()
]
outcome = fanout({"base": "base", "parallel": 3, "units": units}, store="w.db", progress=False)
Path("states.json").write_text(json.dumps({n: u.state for n, u in outcome.units.items()}))
"""
KILLS = ("engine.after_claim", "engine.before_end", "store.before_commit", "store.after_commit")


def random_plan(rng: random.Random) -> dict[str, Any]:
    names = [f"u{n}" for n in range(rng.randint(3, 9))]
    return {
        name: {
            "needs": rng.sample(names[:n], rng.randint(0, min(n, 3))),
            "fails": rng.choice([0, 0, 0, 1, 2]),
            "kind": rng.choice(["function", "function", "command"]),
        }
        for n, name in enumerate(names)
    }


def expected(plan: dict[str, Any], executed: Counter[str], recorded: set[str]) -> dict[str, str]:
    """What the next whole run comes to, given what was executed and recorded before it."""
    found: dict[str, str] = {}
    for name, one in plan.items():
        if any(found[need] != "succeeded" for need in one["needs"]):
            found[name] = "blocked"
        else:
            fine = name in recorded or executed[name] >= one["fails"]
            found[name] = "succeeded" if fine else "failed"
    return found


def look(folder: Path, plan: dict[str, Any]) -> tuple[Counter[str], set[str]]:
    """What was executed so far, and which units have succeeded by the store; checks the ends of every run."""
    log = folder / "executed"
    executed = Counter(log.read_text().split() if log.exists() else [])
    if not (folder / "w.db").exists():
        return executed, set()
    session, recorded = Session.find(folder / "w.db"), set[str]()
    with session.owned() as store:  # as the next owner sees it: what was cut off is put right
        for run in [one for one in store.runs(_all()) if "work" in one.tags]:
            ends = Counter(
                record.event.task
                for record in store.events(run.id, limit=100_000)
                if isinstance(record.event, TaskFinished)
            )
            assert all(n == 1 for n in ends.values()), "a unit has one end in a run"
            tasks = {unit_task(run.id, name): name for name in plan}
            assert ends.keys() <= tasks.keys()
            rows = store.find("task", list(tasks))
            assert {task for task, row in rows.items() if row.state in TERMINAL} == set(ends)
            recorded |= {tasks[task] for task, row in rows.items() if row.state == "succeeded"}
    return executed, recorded


def _all() -> Any:
    from peira.core.contracts import RunQuery

    return RunQuery(tag="work", limit=1000)


def check(seed: int, folder: Path, warm: Any) -> None:
    rng = random.Random(seed)
    plan = random_plan(rng)
    (folder / "base").mkdir()
    (folder / "base" / "a").write_text("a")
    (folder / "plan.json").write_text(json.dumps(plan))
    (folder / "p.py").write_text(PROGRAM)
    for round_ in range(6):
        executed, recorded = look(folder, plan)
        (folder / "states.json").unlink(missing_ok=True)
        kill = f"{rng.choice(KILLS)}:{rng.randint(1, 6)}" if round_ < 3 else ""
        env = {**os.environ, **({"PEIRA_FAILPOINT": kill} if kill else {})}
        words = [sys.executable, "p.py"]
        process = warm.start(words, cwd=folder, env=env, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
        _, said = process.communicate(timeout=120)
        now, _ = look(folder, plan)
        again = {name for name in now if now[name] > executed[name]}
        assert not again & recorded, f"seed {seed}: executed again after its end was recorded"
        assert all(now[name] - executed[name] <= 1 for name in now)
        if (folder / "states.json").exists():
            states = json.loads((folder / "states.json").read_text())
            assert states == expected(plan, executed, recorded), f"seed {seed}, round {round_}"
        else:
            assert kill, f"seed {seed}: {said!r}"
    assert set(states.values()) <= {"succeeded", "failed", "blocked"}
    session = Session.find(folder / "w.db")
    with session.reading() as store:
        assert find_work(session, store).run.status.value.startswith("completed")


@pytest.mark.timeout(300)
@pytest.mark.parametrize("seed", range(3))
def test_random_plans_come_to_what_the_model_says(seed: int, tmp_path: Path, warm: Any) -> None:
    check(seed, tmp_path, warm)


@pytest.mark.torture
@pytest.mark.parametrize("seed", range(100, 200))
def test_many_random_plans_come_to_what_the_model_says(seed: int, tmp_path: Path, warm: Any) -> None:
    check(seed, tmp_path, warm)
