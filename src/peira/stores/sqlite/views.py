"""Views for other programs: `runs`, `trials`, `scores` and `calls`, with plain names and decoded values.

`sqlite3`, datasette, pandas and the like know neither the plan of a run nor how payloads are packed. What a
task is about stands in the plan alone, and is written to the tables `listed_...` when a run ends; the views
join it with the results, tokens and costs that the store has anyway, which are not stored twice. The tables
hold nothing that could not be made again, and are no part of what `verify` checks.

Only what the SQLite of Debian 12 (3.40) knows is used here.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from operator import itemgetter

import apsw

from peira.core.contracts import CallWords, PlanEntry
from peira.stores.rows import SEQ_BITS, STATES
from peira.stores.sqlite.statements import SIZES, UpsertTarget, insert

TABLES = """
CREATE TABLE listed_plan (
    n INTEGER PRIMARY KEY, manifest TEXT NOT NULL UNIQUE, complete INTEGER NOT NULL  -- 1: nothing is missing
);
CREATE TABLE listed_condition (n INTEGER PRIMARY KEY, agent TEXT NOT NULL, factors TEXT NOT NULL);
CREATE TABLE listed_case (
    n INTEGER PRIMARY KEY, id TEXT NOT NULL, slice TEXT, cluster TEXT, input TEXT, expected TEXT,
    metadata TEXT
);
CREATE TABLE listed_trial (
    plan INTEGER NOT NULL, place INTEGER NOT NULL,
    task BLOB NOT NULL,                          -- the first 8 bytes of its id, which is what it is found by
    condition INTEGER NOT NULL, case_n INTEGER NOT NULL, repeat INTEGER NOT NULL, output TEXT,
    PRIMARY KEY (plan, place)
) WITHOUT ROWID;
CREATE TABLE listed_score (
    plan INTEGER NOT NULL, place INTEGER NOT NULL, name TEXT NOT NULL, task BLOB NOT NULL,
    PRIMARY KEY (plan, place, name)
) WITHOUT ROWID;
CREATE TABLE listed_call (n INTEGER PRIMARY KEY, prompt TEXT, reply TEXT);
"""

HIDDEN = "(not shown: a key stands in it)"


_NAMES = " ".join(f"WHEN {code} THEN '{state.value}'" for code, state in enumerate(STATES))
# Each makes SQL of the name of a table of tasks.
_state = f"CASE {{0}}.state {_NAMES} END".format  # the name of its state
_of = "json_extract(CAST({}.result AS TEXT), '$.{}')".format  # a part of its result, which is JSON
_time = "strftime('%Y-%m-%dT%H:%M:%fZ', {}, 'unixepoch')".format  # a moment as text, in UTC
_ended = _time(  # the time of its last event, whose place its newest range says: run:first-last
    "(SELECT event.at FROM event WHERE event.place = "
    f"(CAST({{0}}.events AS INTEGER) << {SEQ_BITS}) + "
    "CAST(substr({0}.events, instr({0}.events, '-') + 1) AS INTEGER))"
).format
_value = (  # its value: text as it is, numbers as numbers, true and false as 1 and 0
    f"CASE WHEN {_of('{0}', 'exposed')} IS NULL THEN {_of('{0}', 'output')} ELSE '{HIDDEN}' END"
).format
_FAILURE = "{0} || ': ' || {1}"
_SHOWN = "status NOT IN ('deleted', 'frozen')"

VIEWS = {
    "runs": f"""
        SELECT id AS run, name, study, status, trials,
            {_time("planned")} AS planned,
            {_time("nullif(json_extract(rest, '$.started'), 0)")} AS started,
            {_time("nullif(json_extract(rest, '$.finished'), 0)")} AS finished,
            json_extract(rest, '$.counts."generate.succeeded"') AS succeeded,
            json_extract(rest, '$.counts."generate.failed"') AS failed,
            json_extract(rest, '$.counts."generate.reused"') AS reused,
            (SELECT total(json_extract(value, '$.money')) FROM json_each(rest, '$.spent')) AS cost,
            (SELECT sum(coalesce(json_extract(value, '$.input'), 0)) FROM json_each(rest, '$.spent'))
                AS input_tokens,
            (SELECT sum(coalesce(json_extract(value, '$.output'), 0)) FROM json_each(rest, '$.spent'))
                AS output_tokens,
            json_extract(rest, '$.tags') AS tags,
            nullif(json_extract(rest, '$.evaluation'), '') AS evaluation,
            nullif(json_extract(rest, '$.reason'), '') AS reason
        FROM (SELECT n, id, name, study, status, trials, planned, CAST(rest AS TEXT) AS rest FROM run)
        WHERE {_SHOWN} ORDER BY n DESC
    """,
    "trials": f"""
        SELECT run.id AS run, run.name AS run_name, run.study, lower(hex(task.id)) AS trial,
            c.agent, c.factors AS condition, k.id AS case_id, k.slice, k.cluster, l.repeat,
            {_state("task")} AS state, k.input, k.expected,
            coalesce(l.output, {_value("task")}) AS output,
            {_FAILURE.format(_of("task", "failure.type"), _of("task", "failure.message"))} AS failure,
            {_of("task", "took")} AS took, {_of("task", "metrics.cost")} AS cost,
            {_of("task", "metrics")} AS metrics, task.attempts, task.run <> run.n AS reused,
            {_ended("task")} AS ended, k.metadata
        FROM run CROSS JOIN listed_plan AS p ON p.manifest = run.manifest
            CROSS JOIN listed_trial AS l ON l.plan = p.n
            CROSS JOIN task ON substr(task.id, 1, 8) = l.task
            CROSS JOIN listed_condition AS c ON c.n = l.condition
            CROSS JOIN listed_case AS k ON k.n = l.case_n
        WHERE run.{_SHOWN}
    """,
    "scores": f"""
        SELECT run.id AS run, run.name AS run_name, run.study, lower(hex(trial.id)) AS trial,
            c.agent, c.factors AS condition, k.id AS case_id, k.slice, k.cluster, l.repeat,
            s.name AS score, {_state("task")} AS state, {_value("task")} AS value,
            {_FAILURE.format(_of("task", "failure.type"), _of("task", "failure.message"))} AS failure,
            {_of("task", "took")} AS took, {_of("task", "metrics.cost")} AS cost
        FROM run CROSS JOIN listed_plan AS p ON p.manifest = run.manifest
            CROSS JOIN listed_score AS s ON s.plan = p.n
            CROSS JOIN listed_trial AS l ON l.plan = p.n AND l.place = s.place
            CROSS JOIN task ON substr(task.id, 1, 8) = s.task
            CROSS JOIN task AS trial ON substr(trial.id, 1, 8) = l.task
            CROSS JOIN listed_condition AS c ON c.n = l.condition
            CROSS JOIN listed_case AS k ON k.n = l.case_n
        WHERE run.{_SHOWN}
    """,
    "calls": f"""
        SELECT lower(hex(call.key)) AS call, run.id AS run, lower(hex(call.task)) AS task, call.name AS stage,
            call.model, call.state, json_extract(CAST(call.rest AS TEXT), '$[1]') AS sends,
            CASE WHEN call.input >= 0 THEN call.input END AS input_tokens,
            CASE WHEN call.output >= 0 THEN call.output END AS output_tokens,
            CASE WHEN call.cost >= 0 THEN call.cost END AS cost,
            {_time("event.at")} AS asked, t.prompt, t.reply,
            nullif(json_extract(CAST(call.rest AS TEXT), '$[2]'), '') AS problem
        FROM call JOIN run ON run.n = call.asked >> {SEQ_BITS}
            LEFT JOIN event ON event.place = call.asked LEFT JOIN listed_call AS t ON t.n = call.n
        WHERE call.asked IS NOT NULL
    """,
}
"""The views, by name. A run's own trials and scores, with reused ones, are those with its id in `run`."""


CREATE = ";".join([TABLES, *(f"CREATE VIEW {name} AS {sql}" for name, sql in VIEWS.items())])
"""Creates the tables and the views."""

_CONDITIONS = UpsertTarget("listed_condition", "n, agent, factors", "ON CONFLICT DO NOTHING")
_CASES = UpsertTarget(
    "listed_case", "n, id, slice, cluster, input, expected, metadata", "ON CONFLICT DO NOTHING"
)
_TRIALS = UpsertTarget(
    "listed_trial",
    "plan, place, task, condition, case_n, repeat, output",
    "ON CONFLICT DO UPDATE SET task=excluded.task, condition=excluded.condition, case_n=excluded.case_n, "
    "repeat=excluded.repeat, output=excluded.output",
)
_SCORES = UpsertTarget(
    "listed_score", "plan, place, name, task", "ON CONFLICT DO UPDATE SET task=excluded.task"
)
_WORDS = SIZES[-1]
"""Calls whose words one statement writes."""
_INSERT_WORDS = f"""
INSERT OR REPLACE INTO listed_call
SELECT call.n, told.column2, told.column3 FROM (VALUES {",".join(["(?,?,?)"] * _WORDS)}) AS told
CROSS JOIN call ON substr(call.key, 1, 8) = substr(told.column1, 1, 8) AND call.key = told.column1
"""


def list_plan(db: apsw.Connection, plan: str, entries: Sequence[PlanEntry], complete: bool) -> None:
    """Add entries to what is listed of a plan. Called within a transaction."""
    db.execute(
        "INSERT INTO listed_plan(manifest, complete) VALUES (?1, ?2) "
        "ON CONFLICT(manifest) DO UPDATE SET complete = max(complete, ?2)",
        (plan, complete),
    )
    number = db.execute("SELECT n FROM listed_plan WHERE manifest = ?", (plan,)).get
    ordered = sorted(entries, key=itemgetter(0))  # by place: near ones are written together
    conditions = {one.group[0]: one.group for one in ordered}
    cases = {one.subject[0]: one.subject for one in ordered}
    # A statement for each row would hand the interpreter lock over with each.
    insert(db, _CONDITIONS, list(conditions.values()))
    new = [case for case in cases.values() if len(case) > 1]  # of the others the number is all that is told
    insert(db, _CASES, sorted(new, key=itemgetter(0)))
    trials = [
        (
            number,
            one.place,
            bytes.fromhex(one.task[:16]),
            one.group[0],
            one.subject[0],
            one.repeat,
            one.output or None,
        )
        for one in ordered
    ]
    insert(db, _TRIALS, trials)
    scores = [
        (number, one.place, name, bytes.fromhex(task[:16])) for one in ordered for name, task in one.scores
    ]
    insert(db, _SCORES, scores)


def list_calls(db: apsw.Connection, calls: Iterable[CallWords]) -> None:
    """Write what calls said. Called within a transaction."""
    waiting = iter(calls)
    while chunk := list(islice(waiting, _WORDS)):
        bound: list[str | bytes | None] = []
        for key, prompt, reply in chunk:
            bound += (bytes.fromhex(key), prompt, reply)
        db.execute(_INSERT_WORDS, bound + [None] * (3 * _WORDS - len(bound)))


def unlisted_calls(db: apsw.Connection, run: str) -> list[str]:
    """The keys of calls, of a run or of all, whose words are not listed or may have changed."""
    rows = db.execute(
        "SELECT call.key FROM call JOIN run ON run.n = call.asked >> ?1 "
        "LEFT JOIN listed_call AS l ON l.n = call.n "
        "WHERE call.asked IS NOT NULL AND (?2 = '' OR run.id = ?2) AND (l.n IS NULL "
        "OR call.state <> 'answered' OR json_extract(CAST(call.rest AS TEXT), '$[4]') <> '') ORDER BY call.n",
        (SEQ_BITS, run),
    )
    return [key.hex() for (key,) in rows]


def listed(db: apsw.Connection) -> dict[str, bool]:
    """The plans that are listed, and whether nothing of them is missing."""
    return {
        plan: bool(complete) for plan, complete in db.execute("SELECT manifest, complete FROM listed_plan")
    }


def listed_cases(db: apsw.Connection, numbers: range) -> int:
    """How many cases are listed with these numbers."""
    return int(
        db.execute(
            "SELECT count(*) FROM listed_case WHERE n >= ? AND n < ?", (numbers.start, numbers.stop)
        ).get
    )


def found(db: apsw.Connection, plan: str, prefix: str) -> Iterator[tuple[str, int]]:
    """The listed tasks of a plan whose ids have this prefix, with their places in it."""
    first, last = (bytes.fromhex(prefix[:16].ljust(16, filler)) for filler in ("0", "f"))
    rows = db.execute(
        "SELECT task.id, l.place FROM listed_plan AS p CROSS JOIN listed_trial AS l ON l.plan = p.n "
        "CROSS JOIN task ON substr(task.id, 1, 8) = l.task "
        "WHERE p.manifest = ? AND l.task BETWEEN ? AND ?",
        (plan, first, last),
    )
    return ((id.hex(), place) for id, place in rows if id.hex().startswith(prefix))
