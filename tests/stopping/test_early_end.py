"""Runs that stop when they know enough: the same answer at any parallelism, nothing begun after it."""

from __future__ import annotations

import itertools
import math
import threading
import time

import pytest

from peira import Case, Study, current_trial, exact, run, submit
from peira import plan as preview
from peira.core.log.events import RunDecided, RunLooked, RunNoted
from peira.core.looks import Look, Span
from peira.core.registry import registry
from peira.plan.expansion import expand
from peira.plan.stopping import stop_question
from peira.stores.memory import MemoryStore
from peira.stores.sqlite import SqliteStore
from peira.stores.verify import verify

H1 = {"id": "H1", "factor": "m", "levels": ["a", "b"], "direction": "greater"}
SHARES = {"a": 0.85, "b": 0.35, "c": 0.3, "d": 0.2}


def coin(case, m):
    return int(current_trial().rng.random() < SHARES[m])


def dawdling(case, m):
    """What goes wrong takes longer, as it does."""
    right = current_trial().rng.random() < SHARES[m]
    time.sleep(0.0005 if right else 0.004)
    return int(right)


def studied(agent=coin, cases=300, levels="ab", **fields):
    cases = [Case(i, expected=1) for i in range(cases)] if isinstance(cases, int) else cases
    stop = {"stop": "when decided", "hypotheses": [H1]} if "stop" not in fields else {}
    return Study(
        name="s",
        agent=agent,
        cases=cases,
        factors={"m": list(levels)},
        **{"seed": 3, "evaluators": [exact()], **stop, **fields},
    )


def went(study, store=None, **wishes):
    return run(study, store=store or MemoryStore(), progress=False, **wishes)


def events(store, run, *kinds):
    found, after = [], 0
    while records := store.events(run, after):
        after = records[-1].seq
        found += [record.event for record in records if isinstance(record.event, kinds)]
    return found


def test_a_run_ends_when_it_is_decided():
    store = MemoryStore()
    results = went(studied(dawdling), store)
    assert results.status == "completed"
    assert results.look.answer == "H1 supported"
    assert results.counts["spared"] > 300
    assert sum(n for state, n in results.counts.items() if state in ("succeeded", "spared")) == 600
    *looked, decided = events(store, results.run_id, RunLooked, RunDecided)
    assert isinstance(decided, RunDecided)
    assert all(isinstance(look, RunLooked) for look in looked)
    assert decided.look == results.look
    assert list(verify(store)) == []


def test_running_again_does_nothing_new():
    store, study = MemoryStore(), studied(dawdling)
    first = went(study, store)
    again = went(study, store)
    assert again.status == "completed"
    assert "succeeded" not in again.counts
    assert again.look == first.look
    seen = preview(study, store=store)
    assert (seen.new, seen.spared) == (0, first.counts["spared"])
    assert "which has its answer" in str(seen)


def test_the_whole_plan_is_run_if_that_is_wished():
    store, study = MemoryStore(), studied(dawdling)
    went(study, store)
    results = went(study, store, whole=True)
    assert results.counts["succeeded"] + results.counts["reused"] == 600 == len(results)
    assert results.look is None


def test_a_changed_rule_goes_on():
    store = MemoryStore()
    first = went(studied(dawdling), store)
    later = went(studied(dawdling, hypotheses=[{**H1, "alpha": 1e-4}], stop="when decided"), store)
    assert later.look.units > first.look.units
    assert later.look.answer == "H1 supported"


@pytest.mark.parametrize("agent", [coin, dawdling])
def test_the_answer_is_the_same_at_any_parallelism(agent):
    """Also where what goes wrong is slower: looks are at units in the planned order, not as they end."""
    looks = []
    for parallel in (1, 2, 7):
        store = MemoryStore()
        results = went(studied(agent, repeats=2), store, parallel=parallel)
        looks.append([event.look for event in events(store, results.run_id, RunLooked, RunDecided)])
    assert looks[0] == looks[1] == looks[2]
    assert looks[0][-1].answer == "H1 supported"


def test_a_part_leads_on_to_the_same_answer():
    reference = went(studied()).look
    store = MemoryStore()
    for n in itertools.count(1):
        results = went(studied(budget={"trials": 10 * n, "excess": "subset"}), store)
        if results.look is not None and results.look.answer:
            break
    whole = went(studied(), store)
    assert whole.look == reference
    assert n > 1


def test_failures_are_bounded_and_cannot_win():
    def quitting(case, m):
        right = current_trial().rng.random() < 0.5
        if m == "a" and not right:
            raise RuntimeError("rather not")
        return int(right)

    results = went(studied(quitting))
    assert results.look.answer == ""
    assert results.status == "completed with failures"
    low, high = results.look.standings[0].low, results.look.standings[0].high
    assert low < 0 < high


def test_a_value_outside_the_range_ends_the_looking_and_not_the_run():
    def grade(output):
        return 1.0 + output

    store = MemoryStore()
    results = went(studied(cases=40, evaluators=[grade]), store)
    assert results.counts["succeeded"] == 80
    [noted] = events(store, results.run_id, RunNoted)
    assert "(stop.range)" in noted.text
    inside = went(
        studied(cases=80, evaluators=[grade], hypotheses=[H1], stop={"rule": "decided", "range": [0, 2]})
    )
    assert inside.look is not None


def test_cases_of_a_cluster_are_one_unit():
    cases = [Case(i, expected=1, cluster=f"c{i % 40}") for i in range(200)]
    results = went(studied(cases=cases, hypotheses=[{**H1, "alpha": 1e-9}], stop="when decided"))
    assert (results.look.units, results.look.unit) == (40, "cluster")


def test_losers_of_a_race_are_run_no_more():
    store = MemoryStore()
    results = went(studied(dawdling, levels="abcd", cases=400, stop={"rule": "racing", "by": "m"}), store)
    assert results.look.answer == "a is best"
    ran = {m: sum(trial.condition["m"] == m for trial in results) for m in "abcd"}
    assert results.counts["spared"] > 800
    assert ran["d"] < 400
    assert list(verify(store)) == []
    again = went(studied(dawdling, levels="abcd", cases=400, stop={"rule": "racing", "by": "m"}), store)
    assert "succeeded" not in again.counts
    assert again.look == results.look


def test_a_race_is_the_same_at_any_parallelism():
    def close(case, m):
        time.sleep(current_trial().rng.random() / 500)
        return int(current_trial().rng.random() < {"a": 0.7, "b": 0.55, "c": 0.3}[m])

    looks = []
    for parallel in (1, 6):
        store = MemoryStore()
        study = studied(close, levels="abc", cases=150, stop={"rule": "racing", "by": "m"})
        results = went(study, store, parallel=parallel)
        looks.append([event.look for event in events(store, results.run_id, RunLooked, RunDecided)])
    assert looks[0] == looks[1]


def test_successive_rejects_find_the_best_through_the_engine():
    right = 0
    for seed in range(10):
        rule = {"rule": "successive_rejects", "by": "m", "budget": 200}
        results = went(studied(levels="abcd", cases=100, seed=seed, stop=rule))
        right += results.look.answer == "a is left"
    assert right == 10


def test_an_outcome_may_be_a_part_or_a_metric():
    def parts(output):
        return {"right": output, "words": 3}

    part = went(
        studied(
            evaluators=[parts],
            outcomes=[{"name": "right", "evaluator": "parts", "metric": "right", "primary": True}],
            hypotheses=[H1],
            stop="when decided",
        )
    )
    assert part.look.answer == "H1 supported"

    def reporting(case, m):
        right = coin(case, m)
        current_trial().report(gain=float(right))
        return right

    metric = went(
        studied(
            reporting,
            outcomes=[{"name": "gain", "metric": "gain", "primary": True}],
            hypotheses=[H1],
            stop="when decided",
        )
    )
    assert metric.look.answer == "H1 supported"


def test_results_say_that_they_were_stopped_and_what_holds(tmp_path):
    store = SqliteStore(tmp_path / "s.db")
    results = went(studied(dawdling), store)
    assert any("stopped by its rule (decided)" in note for note in results.notes)
    assert any("too narrow" in note for note in results.table("m").notes)
    [finding] = results.hypotheses().found
    assert finding.verdict == "supported"
    assert finding.contrasts[0].difference.low == results.look.standings[0].low
    assert all(trial.state == "succeeded" for trial in results)
    store.close()


def test_random_rules_agree_with_a_plain_replay():
    """The engine's looks are those of the rule over complete cases in the planned order, and no others."""
    for seed in range(3):
        study = studied(seed=seed, cases=120)
        results = went(study, parallel=5)
        plan = expand(study)
        question = stop_question(plan)
        values = {trial.id: trial.scores["exact"].value for trial in went(study, whole=True)}
        watch, order = question.rule.watch(question.question), list(plan.layout.in_run_order())
        look = None
        for pair in zip(order[::2], order[1::2], strict=True):
            places = [plan.layout.place(index) for index in pair]
            assert len({place.case.id for place in places}) == 1
            unit = {}
            for place in places:
                value = float(values[plan.layout.trial_id(place)])
                unit[question.places[id(place.condition)]] = Span(value, value)
            look = watch.take(unit) or look
            if look is not None and look.answer:
                break
        assert look == results.look


class Broken:
    range = (0.0, 1.0)

    def problems(self, study):
        return iter(())

    def claims(self, study):
        return ()

    def outcome(self, study):
        return ""

    def watch(self, question):
        return self

    def take(self, unit):
        raise ZeroDivisionError("no looks today")


def test_a_rule_that_fails_is_told_of_and_fails_no_run():
    if "broken" not in registry.names("stop"):
        registry.add("stop", "broken", Broken)
    store = MemoryStore()
    results = went(studied(cases=30, stop="broken"), store)
    assert results.status == "completed"
    assert results.counts["succeeded"] == 60
    [noted] = events(store, results.run_id, RunNoted)
    assert noted.text.endswith("ZeroDivisionError: no looks today")


class Thinking(Broken):
    """A rule that does what a test says whenever it is asked; it has its answer after so many units."""

    def __init__(self, enough=math.inf):
        self.enough, self.units = enough, 0

    def take(self, unit):
        self.units += 1
        THINKS[0]()
        return Look(self.units, self.units, answer="enough" if self.units >= self.enough else "")

    def finish(self):
        return Look(self.units, self.units)


THINKS = [lambda: None]


def thinking(do, **fields):
    if "thinking" not in registry.names("stop"):
        registry.add("stop", "thinking", Thinking)
    THINKS[0] = do
    return studied(**{"agent": lambda case, m: 1, "stop": {"rule": "thinking"}, **fields})


def test_a_rule_may_wait_for_a_thread_that_asks_for_progress():
    """Nobody else's code runs under the engine's lock: here that was a deadlock."""
    ready, seen = threading.Event(), []

    def think():
        ready.wait(10)
        other = threading.Thread(target=lambda: seen.append(handle.progress()))
        other.start()
        other.join(10)
        assert not other.is_alive()

    handle = submit(thinking(think, cases=5), store=MemoryStore(), progress=False)
    ready.set()
    results = handle.result(60)
    assert (results.status, len(seen)) == ("completed", 5)


@pytest.mark.parametrize("parallel", [1, 4])
def test_nothing_begins_while_the_rule_thinks(parallel):
    """However slow it is, what it finds unnecessary is not begun."""
    begun, while_thinking = [], []

    def agent(case, m):
        begun.append(case.id)
        time.sleep(0.03)
        return 1

    def think():
        under_way = len(begun)
        time.sleep(0.2)
        while_thinking.append(len(begun) - under_way)

    study = thinking(think, agent=agent, cases=30, stop={"rule": "thinking", "enough": 2})
    results = went(study, parallel=parallel)
    assert results.look.answer == "enough"
    assert max(while_thinking) <= parallel  # claimed before the rule was asked
    assert len(begun) <= 4 + 2 * parallel


def test_a_rule_that_never_answers_does_not_keep_a_run_from_being_cancelled():
    free, asked_for = threading.Event(), threading.Event()

    def think():
        asked_for.set()
        free.wait(60)

    store = MemoryStore()
    handle = submit(thinking(think, cases=5), store=store, progress=False)
    assert asked_for.wait(10)
    assert handle.progress().total == 10
    since = time.monotonic()
    handle.cancel()
    assert handle.result(30).status == "cancelled"
    assert time.monotonic() - since < 20
    free.set()
    assert list(verify(store)) == []


def test_a_rule_that_ends_its_thread_ends_the_run_and_hangs_nobody():
    def think():
        raise SystemExit("enough")

    with pytest.raises(SystemExit, match="enough"):
        went(thinking(think, cases=5))


def test_a_rule_that_fails_in_the_end_is_told_of_and_fails_no_run():
    class Failing(Thinking):
        def finish(self):
            raise ZeroDivisionError("no last look")

        def take(self, unit):
            self.units += 1

    if "failing" not in registry.names("stop"):
        registry.add("stop", "failing", Failing)
    store = MemoryStore()
    results = went(studied(cases=3, stop="failing"), store)
    assert (results.status, results.counts["succeeded"]) == ("completed", 6)
    [noted] = events(store, results.run_id, RunNoted)
    assert noted.text.endswith("ZeroDivisionError: no last look")


def test_a_race_finds_the_best_through_the_engine():
    """Ten races of three, with wide gaps: the best is given up in none, and left alone in nearly all."""
    looks = [
        went(studied(levels="abc", cases=80, seed=seed, stop={"rule": "racing", "by": "m"})).look
        for seed in range(10)
    ]
    assert not any("a" in look.dropped for look in looks)
    assert sum(look.answer == "a is best" for look in looks) >= 8


def test_answers_that_a_transform_finds_are_followed_alike_now_and_later():
    """Some outputs hold no answer: whatever that makes of them, a replay makes the same of it."""

    def talking(case, m):
        time.sleep(0.002)
        drawn = current_trial().rng.random()
        return "no idea" if drawn > 0.9 else f"I think it is {int(drawn < SHARES[m])}"

    def graded(output):
        return float(output)

    store, study = MemoryStore(), studied(talking, transform="last_number", evaluators=[graded])
    first = went(study, store)
    assert first.look.answer == "H1 supported"
    again = went(study, store)
    assert again.look == first.look
    assert "succeeded" not in again.counts
