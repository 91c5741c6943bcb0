"""Life-cycle hooks: each begin has its end, and a failing hook never fails a trial."""

from __future__ import annotations

import logging
import threading
import time
from collections import Counter

import msgspec

from peira import Case, ask, current_trial, exact, run, study, submit
from peira.core.contracts import Attempt
from peira.core.ids import own_copy
from peira.core.log.events import State, TaskSpec
from peira.core.models import Reply, Request
from peira.core.registry import registry
from peira.engine.hooks import LAST_WAIT, MOST_WAITING, Hooks
from peira.engine.journal import INLINE
from peira.stores.memory import MemoryStore
from peira.testing.fakes import ManualClock


class Listener:
    """Notes what it is told, from whatever thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.heard: list[tuple[str, dict]] = []

    def _hear(self, name: str, facts: dict) -> None:
        with self._lock:
            self.heard.append((name, facts))

    def names(self) -> Counter:
        return Counter(name for name, _ in self.heard)


for hook in ("run", "stage", "trial", "attempt"):
    for when in ("began", "ended"):
        name = f"{hook}_{when}"
        setattr(Listener, name, lambda self, _name=name, **facts: self._hear(_name, facts))


@study(
    cases=[Case(i, expected=i) for i in range(5)], evaluators=[exact()], policy={"retries": 1, "backoff": 0}
)
def flaky(case):
    if case.input == 2 and current_trial().attempt == 1:
        raise OSError("once")
    if case.input == 3:
        raise OSError("always")
    return case.input


def test_every_begin_has_its_end(hooked) -> None:
    listener = hooked(Listener())
    results = run(flaky, store=MemoryStore(), parallel=2, progress=False)
    names = listener.names()
    assert names["run_began"] == names["run_ended"] == 1
    assert names["stage_began"] == names["stage_ended"] == 2
    assert names["trial_began"] == names["trial_ended"] == 5
    assert names["attempt_began"] == names["attempt_ended"] == 7 + 4  # five trials, two retries; four scores
    assert listener.heard[0] == ("run_began", {"run": results.run_id})
    assert listener.heard[-1] == ("run_ended", {"run": results.run_id, "status": "completed with failures"})


def test_hooks_are_told_what_the_store_says(hooked) -> None:
    listener = hooked(Listener())
    results = run(flaky, store=MemoryStore(), parallel=2, progress=False)
    told = {facts["task"]: facts["state"] for name, facts in listener.heard if name == "trial_ended"}
    assert told == {trial.id: trial.state.value for trial in results.trials}
    attempts = Counter(f["task"] for name, f in listener.heard if name == "attempt_began")
    assert {trial.id: attempts[trial.id] for trial in results.trials} == {
        trial.id: trial.attempts for trial in results.trials
    }


def test_trial_hooks_come_around_its_attempts(hooked) -> None:
    listener = hooked(Listener())
    results = run(flaky, store=MemoryStore(), parallel=4, progress=False)
    for trial in results.trials:
        its = [name for name, facts in listener.heard if facts.get("task") == trial.id]
        assert its[0] == "trial_began"
        assert its[-1] == "trial_ended"


def test_a_retried_failure_has_its_begin_and_end_in_the_next_run(hooked) -> None:
    """A trial that failed in an earlier run is begun again: its begin is told again."""
    store = MemoryStore()
    run(flaky, store=store, progress=False)
    listener = hooked(Listener())
    run(flaky, store=store, progress=False)
    began = [f["task"] for name, f in listener.heard if name == "trial_began"]
    ended = [f["task"] for name, f in listener.heard if name == "trial_ended" and f["state"] == "failed"]
    assert began == ended
    assert len(began) == 1


class Outputs:
    """Notes what it is told of trials' ends, and changes what it was given."""

    def __init__(self) -> None:
        self.heard: dict[str, tuple[str, object, str]] = {}
        self.threads: set[str] = set()

    def trial_ended(self, run, task, state, output, problem) -> None:
        self.threads.add(threading.current_thread().name)
        self.heard[task] = (run, state, own_copy(output), problem)
        if isinstance(output, dict):
            output["text"] = "changed by a hook"


def wordy(repeats: int):
    def speak(case):
        if case.input == 2:
            raise OSError("no words")
        return {"text": "x" * case.input}

    def as_long_as_asked(output, case):
        return output["text"] == "x" * case.input

    return study(
        agent=speak,
        name="wordy",
        cases=[1, 2, INLINE + 1],
        evaluators=[as_long_as_asked],
        repeats=repeats,
        policy={"retries": 0},
    )


def test_a_trials_end_comes_with_its_output(hooked) -> None:
    """Small ones and those stored as blobs; of trials that are done, and of those that are reused."""
    store = MemoryStore()
    for repeats in (1, 2):
        one, other = hooked(Outputs()), hooked(Outputs())
        results = run(wordy(repeats), store=store, progress=False)
        why = {State.failed: "OSError: no words", State.succeeded: ""}
        assert one.heard == other.heard
        assert one.heard == {
            trial.id: (results.run_id, trial.state.value, trial.output, why[trial.state])
            for trial in results.trials
        }
        answered = [trial for trial in results.trials if trial.state is State.succeeded]
        assert {len(trial.output["text"]) for trial in answered} == {1, INLINE + 1}
        assert [trial.reused for trial in answered].count(True) == 2 * (repeats - 1)
        assert all(score.value is True for trial in answered for score in trial.scores.values())
        assert one.threads == {"peira-hooks"}


def test_a_failing_hook_fails_nothing_and_is_named_once(hooked, caplog) -> None:
    class Broken:
        def attempt_began(self, **_):
            raise RuntimeError("hook is broken")

        trial_ended = run_began = run_ended = stage_began = stage_ended = attempt_ended = attempt_began

    hooked(Broken())
    with caplog.at_level(logging.WARNING, logger="peira"):
        results = run(flaky, store=MemoryStore(), progress=False)
    assert results.counts["succeeded"] == 4
    assert [r.message for r in caplog.records if "hook is broken" in r.message]
    assert len(caplog.records) == 1


# Hooks run on threads of their own, with no lock of the engine


ONE = "scripted:echo"


def asking(n: int = 3):
    @study(cases=[str(i) for i in range(n)])
    def asked(case):
        return ask(ONE, case.input)

    return asked


class Slow:
    """Sleeps in each of its methods."""

    def __init__(self, seconds: float) -> None:
        self.seconds, self.began, self.ended = seconds, 0, 0

    def attempt_began(self) -> None:
        self.began += 1
        time.sleep(self.seconds)

    def attempt_ended(self) -> None:
        self.ended += 1


def test_a_hook_that_sleeps_costs_the_run_nothing(hooked) -> None:
    """The last attempt is over before the hook has heard of half of them."""
    slow, over = hooked(Slow(0.05)), []

    @study(cases=list(range(20)))
    def quick(case):
        over.append(slow.began)
        return case.input

    since = time.monotonic()
    results = run(quick, store=MemoryStore(), parallel=1, progress=False)
    assert results.counts["succeeded"] == 20
    assert over[-1] < 10, "attempts waited for the hook"
    assert time.monotonic() - since >= 20 * 0.05, "the run did not wait for the hook in the end"
    assert (slow.began, slow.ended) == (20, 20)


def test_a_hook_may_wait_for_a_thread_that_asks_for_progress(hooked) -> None:
    """Under the engine's lock that was a deadlock."""
    ready, seen = threading.Event(), []

    class Asking:
        def attempt_ended(self) -> None:
            ready.wait(10)
            other = threading.Thread(target=lambda: seen.append(handle.progress()))
            other.start()
            other.join(10)
            assert not other.is_alive()

        trial_ended = attempt_began = attempt_ended

    hooked(Asking())
    handle = submit(asking(), store=MemoryStore(), progress=False)
    ready.set()
    assert handle.result(30).counts["succeeded"] == 3
    assert len(seen) == 9


def test_hooks_hear_things_in_the_order_in_which_they_happened(hooked) -> None:
    heard: list[tuple[str, str]] = []

    class All:
        def run_began(self) -> None:
            heard.append(("run_began", ""))

        def trial_began(self, task) -> None:
            heard.append(("trial_began", task))

        def attempt_began(self, task) -> None:
            heard.append(("attempt_began", task))

        def call_began(self, task) -> None:
            heard.append(("call_began", task))

        def call_ended(self, task) -> None:
            heard.append(("call_ended", task))

        def attempt_ended(self, task) -> None:
            heard.append(("attempt_ended", task))

        def trial_ended(self, task) -> None:
            heard.append(("trial_ended", task))

        def run_ended(self) -> None:
            heard.append(("run_ended", ""))

    hooked(All())
    results = run(asking(30), store=MemoryStore(), parallel=8, progress=False)
    assert (heard[0][0], heard[-1][0]) == ("run_began", "run_ended")
    whole = ["trial_began", "attempt_began", "call_began", "call_ended", "attempt_ended", "trial_ended"]
    for trial in results.trials:
        assert [name for name, task in heard if task == trial.id] == whole


def test_one_listener_is_called_on_one_thread_and_another_on_another(hooked) -> None:
    threads: dict[str, set[int]] = {"a": set(), "b": set()}

    def listener(name: str):
        def note(self) -> None:
            threads[name].add(threading.get_ident())

        return type("Listener", (), {"attempt_began": note, "call_ended": note, "run_ended": note})()

    hooked(listener("a"))
    hooked(listener("b"))
    run(asking(), store=MemoryStore(), progress=False)
    assert [len(own) for own in threads.values()] == [1, 1]
    assert not (threads["a"] | {threading.get_ident()}) & threads["b"]


def test_a_hook_that_waits_holds_up_no_other(hooked) -> None:
    free, others = threading.Event(), []

    class Stuck:
        def run_began(self) -> None:
            free.wait(30)

    class Other:
        def run_ended(self, run) -> None:
            others.append(run)
            free.set()

    hooked(Stuck())
    hooked(Other())
    results = run(asking(), store=MemoryStore(), progress=False)
    assert others == [results.run_id]


def test_what_a_hook_does_to_a_request_is_not_sent(hooked) -> None:
    """The ledger recorded one thing, and another was sent."""

    class Meddler:
        def call_began(self, request) -> None:
            request.messages[0]["content"] = "something else"
            request.parameters["temperature"] = 9

    class Witness:
        def __init__(self) -> None:
            self.said: list[str] = []

        def call_began(self, request) -> None:
            self.said.append(request.messages[0]["content"])

    hooked(Meddler())
    witness, store = hooked(Witness()), MemoryStore()
    results = run(asking(), store=store, progress=False)
    assert sorted(trial.output for trial in results.trials) == ["0", "1", "2"]
    assert sorted(witness.said) == ["0", "1", "2"]


def test_a_request_is_each_hooks_own_and_is_as_it_was_when_it_was_sent(hooked) -> None:
    free, heard = threading.Event(), []

    class Meddler:
        def call_began(self, request) -> None:
            free.wait(30)
            heard.append(request.messages[0]["content"])
            request.messages[0]["content"] = request.parameters["n"] = "changed by a hook"

    hooked(Meddler())
    hooked(Meddler())
    hooks, request = Hooks("r"), Request(({"role": "user", "content": "hello"},), parameters={"n": 1})
    hooks.call_began(("t", 1), "k", "m", request, "")
    before = msgspec.to_builtins(request)
    request.messages[0]["content"] = "changed by the model"
    free.set()
    hooks.close()
    assert heard == ["hello", "hello"]
    assert (before["messages"][0]["content"], request.parameters) == ("hello", {"n": 1})
    assert request.messages[0]["content"] == "changed by the model"


def test_a_reply_is_the_hooks_own_and_is_as_it_was_when_it_came(hooked) -> None:
    free, heard = threading.Event(), []

    class Meddler:
        def call_ended(self, reply) -> None:
            free.wait(30)
            heard.append(own_copy(reply.parsed))
            reply.parsed["n"] = "changed by the hook"

    hooked(Meddler())
    hooks, reply = Hooks("r"), Reply("x", parsed={"n": 1})
    hooks.call_ended(("t", 1), "k", "m", reply, "")
    hooks.call_ended(("t", 1), "k", "m", reply, "")
    reply.parsed["n"] = "changed by the agent"
    free.set()
    hooks.close()
    assert heard == [{"n": 1}, {"n": 1}]
    assert reply.parsed == {"n": "changed by the agent"}


def test_what_a_hook_does_to_an_attempt_the_agent_and_the_evaluator_do_not_see(hooked) -> None:
    told = threading.Semaphore(0)

    class Meddler:
        def attempt_began(self, attempt) -> None:
            work = attempt.work
            if attempt.spec.kind == "generate":
                work.case.input["n"] = work.case.metadata["m"] = work.condition["f"]["x"] = "changed"
            else:
                work.place.case.input["n"] = work.place.case.expected["n"] = "changed"
                work.output.result.metrics["took"] = 1.0
            told.release()

    seen = []

    @study(
        cases=[Case({"n": 1}, expected={"n": 1}, metadata={"m": 1})],
        factors={"f": [{"x": 1}]},
        evaluators=[lambda output, expected, case: seen.append((output, expected, case.input)) or 1.0],
    )
    def looked(case, f):
        assert told.acquire(timeout=10)
        return [case.input, case.metadata, f]

    hooked(Meddler())
    results = run(looked, store=MemoryStore(), progress=False)
    assert results.trials[0].output == [{"n": 1}, {"m": 1}, {"x": 1}]
    assert seen == [([{"n": 1}, {"m": 1}, {"x": 1}], {"n": 1}, {"n": 1})]


def test_a_hook_that_does_not_come_to_its_end_is_named_and_not_waited_for_long(hooked, caplog) -> None:
    free = threading.Event()

    class Stuck:
        def __init__(self) -> None:
            self.heard = 0

        def attempt_began(self) -> None:
            self.heard += 1
            free.wait(60)

    stuck, hooks = hooked(Stuck()), Hooks("r")
    for n in range(3):
        hooks.attempt_began(Attempt(TaskSpec(f"{n}", "unit", "unit"), 1, None), trial=False)
    since = time.monotonic()
    with caplog.at_level(logging.WARNING, logger="peira"):
        hooks.close(wait=0.2)
    assert 0.2 <= time.monotonic() - since < 10
    [record] = caplog.records
    assert "Stuck.attempt_began has not come to its end: 2 more facts are not told" in record.getMessage()
    free.set()
    for thread in threading.enumerate():
        if thread.name == "peira-hooks":
            thread.join(10)
    assert stuck.heard == 1, "what was left was told after the run was over"


def test_a_hook_that_does_not_keep_up_misses_facts_and_that_is_said(hooked, caplog) -> None:
    free, heard = threading.Event(), []

    class Behind:
        def run_ended(self, status) -> None:
            free.wait(30)
            heard.append(status)

    hooked(Behind())
    hooks, much = Hooks("r"), MOST_WAITING + 500
    for n in range(much):
        hooks.run_ended(str(n))
    free.set()
    with caplog.at_level(logging.WARNING, logger="peira"):
        hooks.close(wait=60)
    assert MOST_WAITING <= len(heard) < much
    assert heard == [str(n) for n in range(len(heard))]
    assert [r.getMessage() for r in caplog.records] == [
        f"hook {Behind.run_ended.__qualname__} is too slow: it is not told everything"
    ]


def test_a_hook_that_ends_its_thread_is_reported_and_called_again(hooked, caplog) -> None:
    class Leaving:
        heard = 0

        def attempt_began(self) -> None:
            self.heard += 1
            raise SystemExit("enough")

    leaving = hooked(Leaving())
    with caplog.at_level(logging.WARNING, logger="peira"):
        results = run(asking(), store=MemoryStore(), progress=False)
    assert results.counts["succeeded"] == leaving.heard == 3
    [record] = caplog.records
    assert "Leaving.attempt_began failed and is ignored: SystemExit: enough" in record.getMessage()


def test_a_hook_may_run_a_study_of_its_own(hooked) -> None:
    """Its facts wait behind the one that is being told: it does not wait for itself."""
    inner = []

    class Nesting:
        def attempt_ended(self) -> None:
            if not inner:
                inner.append(None)
                inner.append(run(asking(1), store=MemoryStore(), progress=False).counts["succeeded"])

    hooked(Nesting())
    since = time.monotonic()
    run(asking(1), store=MemoryStore(), progress=False)
    assert inner == [None, 1]
    assert time.monotonic() - since < LAST_WAIT


def test_who_is_unhooked_hears_no_more_though_facts_wait_for_him() -> None:
    free, began, heard = threading.Event(), threading.Event(), []

    class Leaving:
        def run_ended(self, status) -> None:
            heard.append(status)
            began.set()
            free.wait(30)

    leaving, hooks = Leaving(), Hooks("r")
    registry.hook(leaving)
    hooks.run_ended("1")
    hooks.run_ended("2")
    assert began.wait(10)
    registry.unhook(leaving)
    free.set()
    hooks.close()
    assert heard == ["1"]


def test_who_takes_at_is_told_when_it_happened_and_not_when_it_is_heard(hooked) -> None:
    clock = ManualClock(1000.0)
    heard, free = [], threading.Event()

    class Late:
        def run_began(self, run, at) -> None:
            free.wait(30)
            heard.append((run, at))

    hooked(Late())
    hooks = Hooks("r", clock)
    hooks.run_began()
    clock.advance(500)
    free.set()
    hooks.close()
    assert heard == [("r", 1000.0)]


def test_hooks_leave_no_threads_behind(hooked) -> None:
    hooked(Slow(0.0))
    run(asking(), store=MemoryStore(), progress=False)
    assert [thread.name for thread in threading.enumerate() if thread.name == "peira-hooks"] == []


def test_nothing_that_is_kept_for_hooks_grows_with_the_number_of_tasks(hooked) -> None:
    hooked(Slow(0.0))
    hooks = Hooks("r")
    for n in range(1000):
        attempt = Attempt(TaskSpec(f"{n}", "unit", "unit"), 1, None)
        hooks.attempt_began(attempt, trial=True)
        hooks.attempt_ended(attempt, State.waiting)
    sizes = [len(value) for value in vars(hooks).values() if isinstance(value, (set, dict, list))]
    hooks.close()
    assert max(sizes) <= 1
