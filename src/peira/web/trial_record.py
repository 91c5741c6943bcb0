"""Finds one trial and everything recorded about it, quickly also in a run with a million trials."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import msgspec

from peira.app.store.trial import TrialRecord, run_of_trial, trial_at
from peira.core.ids import resolve
from peira.engine.run_log import event_values
from peira.errors import Unknown
from peira.results.reader import ResultReader
from peira.results.rows import record
from peira.results.trials import shown_trial
from peira.web.reader import PlannedRun, SiteReader
from peira.web.site import Site

DIGITS = re.compile(r"[0-9a-f]{4,64}")


class TrialParameters(msgspec.Struct, frozen=True):
    """Where the trial is: in which `run` (else the newest that has it), and its `number` if that is known."""

    run: str = ""
    number: int | None = None


def trial_document(found: TrialRecord, number: int) -> dict[str, Any]:
    """Everything recorded about a trial, as `peira show --json` has it, and its number in the plan."""
    return {
        **record(found.result, found.run),
        "number": number,
        "seed": found.seed,
        "executed_by": found.executed_by or None,
        "transcript": msgspec.to_builtins(found.transcript.entries),
        **({"printed": dict(found.printed)} if found.printed else {}),
        "events": [event_values(one) for one in found.records],
    }


async def find_trial(site: Site, prefix: str, query: TrialParameters) -> tuple[TrialRecord, int]:
    """A trial by the first digits of its id, and its number in the plan."""
    if not DIGITS.fullmatch(prefix):
        raise Unknown(f"{prefix!r} is not a trial id: use four or more of its digits")
    return await site.reader.long(_find, site.reader, prefix, query)


def _find(reader: SiteReader, prefix: str, query: TrialParameters) -> tuple[TrialRecord, int]:
    planned = reader.planned(query.run or _run_of(reader, prefix))
    number = place_of(planned, prefix, query.number)
    rows, run = reader.rows(planned.run.id), planned.run.id
    trials = ResultReader(planned.manifest, rows, run, layout=planned.layout)
    found = trial_at(planned.layout.place(number), reader.slow_store, rows, trials, run)
    return replace(found, result=shown_trial(found.result)), number


def _run_of(reader: SiteReader, prefix: str) -> str:
    """The run to look for a trial in: the one that changed its task last, else the newest that has it."""
    if len(prefix) == 64 and (task := reader.store.find("task", [prefix]).get(prefix)) is not None:
        return str(task.run)
    if found := run_of_trial(prefix, reader.slow_session):
        return found
    raise Unknown(f"no trial {prefix!r} in this store")


def place_of(planned: PlannedRun, prefix: str, number: int | None = None) -> int:
    """The number of the trial with this prefix; `number` is a guess, which is checked first."""
    layout = planned.layout
    known = number is not None and 0 <= number < layout.size
    if known and number is not None and layout.trial_id(layout.place(number)).startswith(prefix):
        return number
    places = {
        id: place.number for place in layout.places() if (id := layout.trial_id(place)).startswith(prefix)
    }
    return places[resolve(prefix, places, "trial")]
