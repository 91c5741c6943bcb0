"""Outcomes of jobs: what became of them, reported by any process, also long after they have ended.

A report is a command to the owner of the store. The last report of a name counts, and all of them stay in the
log, with who sent each; a command that is found again changes nothing.
"""

from __future__ import annotations

import math
from typing import Any

from peira.core.contracts import Op
from peira.core.ids import Json
from peira.core.log.events import CommandTaken, OutcomeReported, OutcomeValue
from peira.core.log.rows import Task
from peira.engine.commands import HANDLERS, CommandService
from peira.engine.control import Command
from peira.engine.streams.declaration import last_opening
from peira.engine.streams.jobs import job_of
from peira.engine.streams.submission import host_of
from peira.errors import Invalid

OUTCOME = "outcome"
"""The command that reports an outcome; its body has the job's id, a name and a value."""
MOST_NAME, MOST_TEXT = 100, 1000


def outcome_problems(name: str, value: Json, taken: dict[str, str]) -> list[str]:
    """The problems of an outcome; `taken` maps names that it must not have to what has them."""
    problems = []
    if not name.isidentifier() or len(name) > MOST_NAME:
        problems.append(f"name: {name!r} must be a word of letters, digits and _")
    if name in taken:
        problems.append(f"name: {name!r} is {taken[name]}; give the outcome another name")
    if not isinstance(value, (bool, int, float, str)):
        problems.append(f"value: must be true, false, a number or a text, not {value!r}")
    elif isinstance(value, float) and not math.isfinite(value):
        problems.append(f"value: must be finite, not {value!r}")
    elif isinstance(value, str) and len(value) > MOST_TEXT:
        problems.append(f"value: a text has at most {MOST_TEXT:,} characters, not {len(value):,}")
    return problems


def outcome_command(job: str, name: str, value: OutcomeValue, by: str) -> Command:
    """The command that reports an outcome."""
    return Command(OUTCOME, "", by, body={"job": job, "name": name, "value": value})


def _report(service: CommandService, command: Command) -> None:
    """Record an outcome, and notify the host that serves the stream."""
    id, name = str(command.body.get("job")), str(command.body.get("name"))
    value: Any = command.body.get("value")
    store = service.store
    task: Task | None = store.find("task", [id]).get(id)
    if task is None or outcome_problems(name, value, {}):
        raise Invalid(f"outcome: there is no job {id[:12]!r}")
    if task.outcomes and _is_recorded(service, task.id, command.id):
        return
    job = job_of(store.get(task.payload))
    run, _ = last_opening(store, job.stream)
    event = OutcomeReported(task.id, name, value, command.by, command.id)
    note = CommandTaken(command.command, command.id, command.by)
    store.commit([Op(run.id, (note, event))]).result()
    host = host_of(service)
    if host is not None and name not in task.outcomes and host.serves(job.stream):
        host.note_outcome(job, name, value)


def _is_recorded(service: CommandService, task: str, command: str) -> bool:
    """Whether the outcome of this command was recorded before."""
    events = (record.event for record in service.store.about([task]))
    return any(isinstance(event, OutcomeReported) and event.id == command for event in events)


HANDLERS[OUTCOME] = _report
