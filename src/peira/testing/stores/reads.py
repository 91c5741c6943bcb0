"""Checks of reading: rows in bulk, events in pages, runs by query, blobs by digest."""

from __future__ import annotations

import pytest

from peira.core.contracts import JobQuery, Op, RunQuery
from peira.core.ids import digest, digest_bytes
from peira.core.log import events as ev
from peira.core.log.events import State, Status
from peira.core.log.state import Call, Run, Task, replayed
from peira.core.looks import Traffic
from peira.errors import Unknown
from peira.testing.stores.actions import (
    CLS,
    KIND,
    AnyStore,
    accept,
    claimed,
    find_run,
    finished,
    plan_only,
    plan_run,
    queued,
    recorded,
    refuse,
    retried,
    spec,
)


class ReadChecks:
    """Checks of everything that only reads."""

    def test_rows_are_found_in_bulk(self, store: AnyStore) -> None:
        run = plan_run(store)
        names = [f"t{i}" for i in range(1234)]
        store.commit([Op(run, (claimed(*names),))]).result()
        store.commit([Op(run, tuple(recorded(name, f"s {name}") for name in names))]).result()
        keys = [digest(name) for name in names]
        strangers = [digest(f"stranger {i}") for i in range(50)]
        assert store.find("task", [*strangers, *keys, keys[0]]).keys() == set(keys)
        assert store.find("task", strangers) == {}
        assert store.find("task", []) == {}
        steps = [digest(f"s {name}") for name in names]
        found = store.find("call", steps + strangers)
        assert {key: call.key for key, call in found.items()} == {step: step for step in steps}

    def test_runs_are_found_by_their_ids(self, store: AnyStore) -> None:
        runs = [plan_run(store, study=f"study {i}") for i in range(3)]
        found = store.find("run", [*runs, "f" * 64])
        assert {run: found[run].study for run in found} == {run: f"study {i}" for i, run in enumerate(runs)}

    def test_jobs_are_listed_by_class_and_state_newest_first(self, store: AnyStore) -> None:
        run = plan_run(store)
        jobs = [
            ev.TaskSpec(digest(f"job {i}"), "job", f"job.{'ab'[i % 2]}", labels={"key": str(i)})
            for i in range(12)
        ]
        accept(store, run, ev.TasksQueued(tuple(jobs)))
        accept(store, run, ev.TasksQueued((ev.TaskSpec(digest("no job"), KIND, "job.a"),)))
        accept(store, run, ev.TasksClaimed("job", "job.a", "1", (jobs[0].id, jobs[4].id), (1, 1)))
        accept(store, run, ev.TaskFinished(jobs[4].id, 1, State.succeeded))
        listed = store.jobs(JobQuery("job.a"))
        assert [task.labels for task in listed] == [{"key": str(i)} for i in (10, 8, 6, 4, 2, 0)]
        assert [task.labels["key"] for task in store.jobs(JobQuery("job.a", limit=2))] == ["10", "8"]
        assert [task.id for task in store.jobs(JobQuery("job.a", State.succeeded))] == [jobs[4].id]
        assert store.jobs(JobQuery("job.c")) == []
        oldest = store.jobs(JobQuery("job.a", State.queued, 2, oldest=True))
        assert [task.labels["key"] for task in oldest] == ["2", "6"]
        brief = store.jobs(JobQuery("job.a", limit=3, skip=1, brief=True))
        known = [(task.id, task.state, task.labels, task.run) for task in brief]
        assert known == [
            (jobs[i].id, task.state, task.labels, run) for i, task in zip((8, 6, 4), brief, strict=True)
        ]
        assert [task.state for task in brief] == [State.queued, State.queued, State.succeeded]
        assert store.job_counts("job.a") == {State.queued: 4, State.running: 1, State.succeeded: 1}
        assert store.job_counts("job.c") == {}
        opened = store.runs(RunQuery(limit=1))[0]
        assert opened.stream == ""

    def test_jobs_of_a_window_are_found_by_when_they_were_submitted(self, store: AnyStore) -> None:
        run, hostile = plan_run(store), '","at":"9999999999.0"\0\\'
        jobs = [
            ev.TaskSpec(
                digest(f"job {i}"),
                "job",
                "job.a",
                labels={"session": hostile, "at": f"{1e9 + 7 * i % 10:.6f}"},
            )
            for i in range(10)
        ]
        other = ev.TaskSpec(digest("other"), "job", "job.b", labels={"at": f"{1e9 + 9:.6f}"})
        accept(store, run, ev.TasksQueued((*jobs, other)))
        accept(store, run, ev.TasksClaimed("job", "job.a", "1", (jobs[7].id,), (1,)))
        accept(store, run, ev.TaskFinished(jobs[7].id, 1, State.succeeded))
        accept(store, run, ev.OutcomeReported(jobs[2].id, "at", "1"))
        late = store.jobs(JobQuery("job.a", since=1e9 + 4))
        assert [task.id for task in late] == [jobs[i].id for i in (8, 7, 5, 4, 2, 1)], "newest first"
        assert [task.id for task in store.jobs(JobQuery("job.a", State.succeeded, since=1e9 + 4))] == [
            jobs[7].id
        ]
        few = store.jobs(JobQuery("job.a", limit=2, skip=1, oldest=True, brief=True, since=1e9 + 4))
        assert [task.id for task in few] == [jobs[i].id for i in (2, 4)]
        assert store.jobs(JobQuery("job.a", since=1e9 + 10)) == []

    def test_outcomes_of_jobs_and_traffic_are_kept(self, store: AnyStore) -> None:
        run = plan_run(store)
        job = ev.TaskSpec(digest("job"), "job", "job.a", labels={"key": "k"})
        refuse(store, run, ev.OutcomeReported(job.id, "bought", True))
        accept(store, run, ev.TasksQueued((job,)))
        accept(store, run, ev.OutcomeReported(job.id, "bought", True, "Ada"))
        accept(store, run, ev.TasksClaimed("job", "job.a", "1", (job.id,), (1,)))
        accept(store, run, ev.TaskFinished(job.id, 1, State.succeeded))
        accept(store, run, ev.OutcomeReported(job.id, "stars", 4.5), ev.OutcomeReported(job.id, "bought", 0))
        found = store.find("task", [job.id])[job.id]
        assert (found.outcomes, found.state) == ({"bought": 0, "stars": 4.5}, State.succeeded)
        said = [one.event.value for one in store.about([job.id]) if isinstance(one.event, ev.OutcomeReported)]
        assert said == [True, 4.5, 0]
        traffic = Traffic("e", (0.25, 0.75), 40, why="evidence")
        accept(store, run, ev.TrafficSplit(traffic))
        assert store.find("run", [run])[run].traffic == traffic

    def test_events_come_by_the_page_in_order(self, store: AnyStore) -> None:
        run, other = plan_only(store), plan_only(store)
        for i in range(24):
            accept(store, run, ev.CommandTaken("note", str(i)))
            accept(store, other, ev.CommandTaken("other", str(i)))
        assert [record.seq for record in store.events(run, after=0, limit=10)] == list(range(1, 11))
        assert [record.seq for record in store.events(run, after=20, limit=10)] == [21, 22, 23, 24, 25]
        assert store.events(run, after=25) == []
        assert store.events("f" * 64) == []
        assert {record.run for record in store.events(run)} == {run}

    def test_the_history_is_every_record_in_the_order_of_its_commit(self, store: AnyStore) -> None:
        runs = [plan_only(store) for _ in range(3)]
        for i in range(600):
            store.commit([Op(run, (ev.CommandTaken("note", str(i)),)) for run in runs])
        store.commit([]).result()
        history = list(store.history())
        notes = [r for r in history if isinstance(r.event, ev.CommandTaken)]
        assert [(r.run, r.event.id) for r in notes] == [(run, str(i)) for i in range(600) for run in runs]  # type: ignore[union-attr]
        assert [r.at for r in history] == sorted(r.at for r in history)

    def test_every_row_is_shown(self, store: AnyStore) -> None:
        run = plan_run(store)
        accept(store, run, claimed("a", "b"), recorded("a", "s"))
        rows = list(store.rows())
        assert sorted(row.id for row in rows if isinstance(row, Task)) == sorted(map(digest, "ab"))
        assert [row.key for row in rows if isinstance(row, Call)] == [digest("s")]
        assert [row.id for row in rows if isinstance(row, Run)] == [run]

    def test_active_tasks_are_those_under_way(self, store: AnyStore) -> None:
        run = plan_run(store)
        accept(store, run, queued(spec("queued")), claimed("running", "done", "given back", "cut off"))
        accept(store, run, finished("done"))
        accept(store, run, ev.TasksReleased((digest("given back"),)))
        accept(store, run, ev.TasksInterrupted((digest("cut off"),)))
        [task] = store.active()
        assert (task.id, task.state) == (digest("running"), State.running)

    def test_runs_are_listed_newest_first_and_no_more_than_asked_for(self, store: AnyStore) -> None:
        runs = [plan_only(store) for _ in range(5)]
        assert [run.id for run in store.runs(RunQuery())] == runs[::-1]
        assert [run.id for run in store.runs(RunQuery(limit=2))] == [runs[4], runs[3]]

    def test_runs_are_listed_by_study_status_and_tag(self, store: AnyStore) -> None:
        a = plan_run(store, study="a", tags=("nightly", "gpu"))
        b = plan_run(store, study="b", tags=("nightly",))
        c = plan_only(store, study="a")
        accept(store, b, ev.RunFinished(Status.failures))

        def listed(**query: str) -> list[str]:
            return [run.id for run in store.runs(RunQuery(**query))]  # type: ignore[arg-type]

        assert listed(study="a") == [c, a]
        assert listed(study="nobody's") == []
        assert listed(status=Status.running) == [a]
        assert listed(status=Status.failures) == [b]
        assert listed(status=Status.planned, study="a") == [c]
        assert listed(tag="nightly") == [b, a]
        assert listed(tag="gpu", study="b") == []
        assert listed(tag="night") == []

    def test_frozen_plans_are_listed_only_where_they_are_asked_for(self, store: AnyStore) -> None:
        run, kept = plan_only(store, study="a"), plan_only(store, study="a")
        accept(store, kept, ev.RunFinished(Status.frozen))
        assert [found.id for found in store.runs(RunQuery())] == [run]
        assert [found.id for found in store.runs(RunQuery(study="a"))] == [run]
        assert [found.id for found in store.runs(RunQuery(study="a", status=Status.frozen))] == [kept]
        assert [found.id for found in store.runs(RunQuery(prefix=kept[:20]))] == [kept]

    def test_runs_are_found_by_name(self, store: AnyStore) -> None:
        runs = {name: plan_only(store, name=name) for name in ("one", "two", "ones")}
        plan_only(store)
        for name, run in runs.items():
            accept(store, run, ev.RunStarted("owner", 1))
            assert [(found.id, found.name) for found in store.runs(RunQuery(name=name))] == [(run, name)]
        accept(store, runs["two"], ev.RunFinished(Status.frozen))
        assert [found.id for found in store.runs(RunQuery(name="two"))] == [runs["two"]]
        assert store.runs(RunQuery(name="on")) == []
        assert len(store.runs(RunQuery())) == 3

    def test_runs_are_listed_after_another(self, store: AnyStore) -> None:
        runs = [plan_only(store) for _ in range(4)]
        for i, run in enumerate(runs):
            assert [found.id for found in store.runs(RunQuery(after=run))] == runs[:i:-1]

    def test_the_records_about_a_task_tell_its_row(self, store: AnyStore) -> None:
        """Whatever happened to it, in whichever runs, and whoever was named in the same events."""
        first, second = plan_run(store), plan_run(store)
        accept(store, first, claimed("a", "b", "c", "d"), finished("a", state=State.failed), finished("c"))
        accept(store, first, ev.TasksReleased((digest("b"),), (1,)), claimed("b", epoch=2), retried("b", 2))
        accept(store, first, ev.TasksInterrupted((digest("d"),)))
        before = {task: store.find("task", [digest(task)]).get(digest(task)) for task in "abcd"}
        accept(store, second, claimed("a", "d", epoch=2), claimed("e"), finished("a", epoch=2))
        accept(store, second, ev.TaskReused(digest("f"), digest("c"), KIND, CLS, "added"))
        for task in "abcde":
            id = digest(task)
            assert replayed(store.about([id]), {id}) == store.find("task", [id])
            then = replayed(store.about([id], first), {id})
            assert then == ({id: before[task]} if task in before else {})
        both = {digest("c"), digest("f")}
        assert replayed(store.about(sorted(both)), both) == store.find("task", sorted(both))
        assert set(store.changed_since(first)) >= {digest("a"), digest("d")}
        assert set(store.changed_since(first)) <= {digest(task) for task in "acdef"}
        assert store.changed_since(second) == []
        many = [digest(f"none {n}") for n in range(40)] + [digest("a")]
        assert store.about(many) == store.about([digest("a")])
        assert store.about([]) == []

    def test_runs_are_listed_by_prefix(self, store: AnyStore) -> None:
        runs = [plan_only(store) for _ in range(40)]
        for prefix in {run[:1] for run in runs} | {runs[0], runs[7][:10]}:
            expected = [run for run in reversed(runs) if run.startswith(prefix)]
            assert [run.id for run in store.runs(RunQuery(prefix=prefix))] == expected

    def test_runs_are_listed_by_time(self, store: AnyStore) -> None:
        runs = [find_run(store, plan_only(store)) for _ in range(6)]
        for moment in {run.planned for run in runs}:
            since = [run.id for run in reversed(runs) if run.planned >= moment]
            until = [run.id for run in reversed(runs) if run.planned <= moment]
            assert [run.id for run in store.runs(RunQuery(since=moment))] == since
            assert [run.id for run in store.runs(RunQuery(until=moment))] == until
        assert store.runs(RunQuery(since=runs[-1].planned + 1)) == []

    @pytest.mark.parametrize("size", [0, 1, 2048, 70_000, 1_000_000])
    def test_bytes_are_kept_by_their_digest(self, store: AnyStore, size: int) -> None:
        data = b"0123456789abcdef" * (size // 16) + b"x" * (size % 16)
        digest = store.put(data)
        assert digest == digest_bytes(data)
        assert store.put(data) == digest
        assert store.get(digest) == data
        assert [wrong for kept, _, wrong in store.blobs() if kept == digest] == [""]

    def test_an_op_brings_its_blobs(self, store: AnyStore) -> None:
        run = plan_run(store)
        small, large = b"small", b"large" * 50_000
        accept(store, run, ev.CommandTaken("note", "1"), blobs=(small, large))
        assert store.get(digest_bytes(small)) == small
        assert store.get(digest_bytes(large)) == large

    def test_an_unknown_digest_is_unknown(self, store: AnyStore) -> None:
        with pytest.raises(Unknown, match="no blob"):
            store.get(digest("never put"))

    def test_size_grows_with_what_is_kept(self, store: AnyStore) -> None:
        before = store.size()
        store.put(bytes(range(256)) * 4000)
        assert store.size() > before
