"""The wiring: the only place that opens stores, and where rooms that do not know each other meet.

Its rooms are opened when something of them is asked for, by people or by each other: looking at a run opens
no engine, and a run that asks no model nothing about calls.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from peira.core.door import open_late

if TYPE_CHECKING:
    from peira.api.account import account_of
    from peira.api.acting import ANSWERS, OUTPUTS, SCORES, acted, again
    from peira.api.calls import calls_of, find_call, record_of, shown, tally_of
    from peira.api.deciding import allocated
    from peira.api.earlier import earlier_of
    from peira.api.follow import Follower
    from peira.api.look import Opened
    from peira.api.recordings import is_store, recorded_answers, reply_of
    from peira.api.rescoring import judged_by
    from peira.api.resolving import settle
    from peira.api.results import manifest_of, results_of
    from peira.api.running import Handle, Wishes, execute
    from peira.api.studies import StudyLike
    from peira.api.tables import Kept, read_kept, write_kept
    from peira.api.verbs import evaluate, generate, open, run, submit, transform

__all__ = [
    "ANSWERS",
    "OUTPUTS",
    "SCORES",
    "Follower",
    "Handle",
    "Kept",
    "Opened",
    "StudyLike",
    "Wishes",
    "account_of",
    "acted",
    "again",
    "allocated",
    "calls_of",
    "earlier_of",
    "evaluate",
    "execute",
    "find_call",
    "generate",
    "is_store",
    "judged_by",
    "manifest_of",
    "open",
    "read_kept",
    "record_of",
    "recorded_answers",
    "reply_of",
    "results_of",
    "run",
    "settle",
    "shown",
    "submit",
    "tally_of",
    "transform",
    "write_kept",
]

_ROOMS = {
    "peira.api.acting": ("ANSWERS", "OUTPUTS", "SCORES", "acted", "again"),
    "peira.api.calls": ("calls_of", "find_call", "record_of", "shown", "tally_of"),
    "peira.api.deciding": ("allocated",),
    "peira.api.earlier": ("earlier_of",),
    "peira.api.account": ("account_of",),
    "peira.api.follow": ("Follower",),
    "peira.api.look": ("Opened",),
    "peira.api.recordings": ("is_store", "recorded_answers", "reply_of"),
    "peira.api.rescoring": ("judged_by",),
    "peira.api.resolving": ("settle",),
    "peira.api.results": ("manifest_of", "results_of"),
    "peira.api.running": ("Handle", "Wishes", "execute"),
    "peira.api.studies": ("StudyLike",),
    "peira.api.tables": ("Kept", "read_kept", "write_kept"),
    "peira.api.verbs": ("evaluate", "generate", "open", "run", "submit", "transform"),
}
open_late(__name__, _ROOMS)
