"""A plan that has ended with nothing failed is known as a whole: running it again asks about no task."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from peira import Case, evaluate, exact, generate, run, study, transform
from peira.stores.memory import MemoryStore
from peira.stores.verify import verify


class Asked(MemoryStore):
    """Counts the tasks it is asked about."""

    tasks = 0

    def find(self, kind: Any, keys: Any) -> dict[str, Any]:
        self.tasks += len(keys) if kind == "task" else 0
        return super().find(kind, keys)


def studied(fails: bool = False, **more: Any) -> Any:
    def agent(case):  # type: ignore[no-untyped-def]
        if fails and case.input == 3:
            raise OSError("no")
        return case.input

    cases = [Case(i, expected=i) for i in range(10)]
    return study(agent=agent, name="s", cases=cases, evaluators=[exact()], **more)


def test_the_same_plan_again_is_answered_without_a_question() -> None:
    store = Asked()
    first = run(studied(), store=store, progress=False)
    store.tasks = 0
    again = run(studied(), store=store, progress=False)
    assert store.tasks == 0
    assert (again.counts["reused"], again.counts["scores reused"]) == (10, 10)
    assert again.status == first.status == "completed"
    assert str(again.table()) == str(first.table())
    assert all(trial.reused for trial in again.trials)
    assert verify(store) == []


def test_what_failed_or_changed_is_looked_at() -> None:
    store = Asked()
    assert run(studied(fails=True), store=store, progress=False).counts["failed"] == 1
    assert run(studied(fails=True), store=store, progress=False).counts["failed"] == 1
    assert run(studied(), store=store, progress=False).counts["succeeded"] == 10
    assert run(studied(repeats=2), store=store, progress=False).counts["succeeded"] == 10
    assert run(studied(), store=store, progress=False, fresh=True).counts["succeeded"] == 10


def test_other_evaluators_are_no_part_of_what_was_done() -> None:
    store = Asked()
    results = run(studied(), store=store, progress=False)
    judged = evaluate(results, [lambda output: output > 4])
    assert judged.counts["scores"] == 10
    assert judged.table().rows[0]["mean"] == 0.5


def test_a_run_that_went_through_some_stages_is_not_the_whole_of_it() -> None:
    store = Asked()
    generate(studied(transform="first_line"), store=store, progress=False)
    assert transform(studied(transform="first_line"), store=store, progress=False).counts["answers"] == 10
    results = run(studied(transform="first_line"), store=store, progress=False)
    assert (results.counts["reused"], results.counts["scores"]) == (10, 10)
    assert verify(store) == []


def test_few_failures_are_the_only_ones_that_are_looked_at_again() -> None:
    store = Asked()
    assert run(studied(fails=True), store=store, progress=False).counts["failed"] == 1
    store.tasks = 0
    again = run(studied(fails=True), store=store, progress=False)
    assert store.tasks == 1
    assert (again.counts["failed"], again.counts["reused"], again.counts["scores reused"]) == (1, 9, 9)
    assert again.counts["planned"] == 10
    third = run(studied(fails=True), store=store, progress=False)
    assert (third.counts["failed"], third.counts["reused"]) == (1, 9)
    assert verify(store) == []


def test_a_score_that_failed_is_the_only_one_that_is_looked_at_again(tmp_path: Path) -> None:
    broken = tmp_path / "broken"
    broken.touch()

    def fails(output):  # type: ignore[no-untyped-def]
        if output == 3 and broken.exists():
            raise OSError("no")
        return True

    def judged() -> Any:
        return study(
            agent=lambda case: case.input,
            name="s",
            cases=[Case(i, expected=i) for i in range(10)],
            evaluators=[exact(), fails],
        )

    store = Asked()
    first = run(judged(), store=store, progress=False)
    assert (first.counts["scores"], first.counts["scores failed"]) == (20, 1)
    store.tasks = 0
    broken.unlink()
    again = run(judged(), store=store, progress=False)
    assert store.tasks <= 4  # its trial, its two scores
    assert (again.counts["reused"], again.counts["scores reused"]) == (10, 19)
    assert again.status == "completed"
    store.tasks = 0
    assert run(judged(), store=store, progress=False).counts["scores reused"] == 20
    assert store.tasks == 0
    assert verify(store) == []
