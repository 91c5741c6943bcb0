"""Calls of models, from an agent's `ask` to the bills in the log of a real endpoint in another process."""

from __future__ import annotations

import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import tomli_w

import peira
from peira import ask, ask_async, study
from peira.api import execute
from peira.api.running import Outcome, Wishes
from peira.core.events import CallAnswered, CallIntended, CallLost, RunNoted, TaskFinished
from peira.stores.sqlite import SqliteStore
from peira.stores.verify import verify

CENT = {"output": 1000}
"""Ten tokens of output are a cent."""
TEN_TOKENS = {"text": "so it is", "usage": {"input": 7, "output": 10}}

Project = Callable[..., None]


@pytest.fixture
def project(folder: Path) -> Project:
    """Write a peira.toml with these models."""

    def write(**models: Any) -> None:
        (folder / "peira.toml").write_text(tomli_w.dumps({"models": models}))

    return write


@pytest.fixture
def fast(endpoint: Any, project: Project) -> Any:
    """The endpoint's model, known to the project as "fast"."""
    project(fast=at(endpoint))
    return endpoint


def at(remote: Any, **more: Any) -> dict[str, Any]:
    return {"model": f"openai:{remote.model}", "base_url": f"{remote.base}/v1", **more}


def nowhere() -> str:
    """A base URL at which nobody listens."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return f"http://127.0.0.1:{taken.getsockname()[1]}/v1"


async def asks(case, model="fast"):
    return await ask_async(model, case.input, max_tokens=10)


def studied(agent: Any = asks, cases: int = 20, **more: Any) -> peira.Study:
    return study(**{"agent": agent, "name": "s", "cases": [f"q{i}" for i in range(cases)], **more})


def conducted(asked: Any, store: Any = "s.db", **wishes: Any) -> Outcome:
    return execute(asked, Wishes(store=store, progress=False, **wishes))


def events(kind: Any, store: Any = "s.db") -> list[Any]:
    look = peira.open(store)
    records = (record for one in look.runs() for record in look.events(one.id, limit=100_000))
    return [record.event for record in records if isinstance(record.event, kind)]


def notices(store: Any = "s.db") -> list[str]:
    return [event.text for event in events(RunNoted, store)]


def problems(outcome: Outcome) -> set[str]:
    return {row.failure.message for row in outcome.results.failures if row.failure}


def sound(store: str = "s.db") -> None:
    opened = SqliteStore(store, readonly=True)
    assert list(verify(opened)) == []
    opened.close()


# Money


def test_64_workers_spend_a_dollar_on_exactly_a_hundred_calls(endpoint: Any, project: Project) -> None:
    project(fast=at(endpoint, price=CENT))
    endpoint.always({**TEN_TOKENS, "delay": 0.02})
    first = conducted(studied(cases=180, budget={"money": 1.0}), parallel=64)
    assert endpoint.bills() == endpoint.sends() == 100
    assert (first.results.status, first.finished.exit_code) == ("stopped by a limit", 3)
    assert first.finished.reason == "budget.money of $1 is used up"
    assert first.results.spent.money == pytest.approx(1.0)
    assert first.results.counts["succeeded"] == 100
    assert not first.results.ok

    again = conducted(studied(cases=180, budget={"money": 1.0}), parallel=64)
    assert (again.results.status, again.finished.exit_code) == ("stopped by a limit", 3)
    assert endpoint.sends() == 100

    raised = conducted(studied(cases=180, budget={"money": 1.25}), parallel=64)
    assert (endpoint.bills(), raised.finished.exit_code) == (125, 3)
    last = conducted(studied(cases=180, budget={"money": 5.0}), parallel=64)
    assert (endpoint.bills(), last.finished.exit_code) == (180, 0)
    assert [trial.output for trial in last.results.trials] == ["so it is"] * 180
    assert last.results.cost.money == pytest.approx(1.8)
    sound()


def test_judges_retries_and_second_calls_are_paid_from_the_same_purse(
    endpoint: Any, project: Project
) -> None:
    project(fast=at(endpoint, price=CENT))
    endpoint.always(TEN_TOKENS)
    endpoint.script(*[{"fail": "doubt"}] * 3)  # they may have been billed: they count

    async def twice(case):
        one = await ask_async("fast", case.input, max_tokens=10)
        return await ask_async("fast", f"sure? {one}", max_tokens=10)

    def judged(output):
        return ask("fast", f"is it right? {output}", max_tokens=10).text != ""

    asked = studied(twice, cases=40, evaluators=[judged], budget={"money": 0.5})
    outcome = conducted(asked, parallel=16)
    assert (endpoint.bills(), outcome.finished.exit_code) == (50, 3)
    assert len(events(CallLost)) == 3


def test_where_a_call_has_no_bound_the_overshoot_is_at_most_the_calls_in_flight(
    endpoint: Any, project: Project
) -> None:
    project(fast=at(endpoint, price=CENT))
    sizes = [(7 * i) % 31 + 10 for i in range(300)]
    endpoint.script(*({"text": "x", "usage": {"input": 1, "output": n}, "delay": 0.01} for n in sizes))

    async def unbounded(case):
        return await ask_async("fast", case.input)

    outcome = conducted(studied(unbounded, cases=250, budget={"money": 1.0}), parallel=16)
    spent = sum(sizes[: endpoint.bills()]) / 1000
    assert outcome.finished.exit_code == 3
    assert 1.0 - 0.041 <= spent <= 1.0 + 16 * 0.040
    assert outcome.results.spent.money == pytest.approx(spent)


def test_a_trial_has_its_own_budget_and_the_run_goes_on(endpoint: Any, project: Project) -> None:
    project(fast=at(endpoint, price=CENT))
    endpoint.always(TEN_TOKENS)

    def greedy(case):
        return [ask("fast", f"{case.input} {n}", max_tokens=10).text for n in range(int(case.input[1:]) + 1)]

    outcome = conducted(studied(greedy, cases=6, budget={"per_trial": {"calls": 3}}))
    states = [trial.state.value for trial in outcome.results.trials]
    assert states == ["succeeded"] * 3 + ["exhausted"] * 3
    assert outcome.finished.exit_code != 0
    assert endpoint.bills() == 1 + 2 + 3 + 3 * 3
    raised = conducted(studied(greedy, cases=6, budget={"per_trial": {"calls": 6}}))
    assert (raised.finished.exit_code, endpoint.bills()) == (0, 1 + 2 + 3 + 4 + 5 + 6)


def test_a_model_has_its_own_budget_and_the_others_go_on(endpoint: Any, project: Project) -> None:
    other = endpoint.other("other")
    project(fast=at(endpoint, price=CENT), dear=at(other, price=CENT))
    asked = studied(
        lambda case, model: ask(model, case.input, max_tokens=10),
        cases=10,
        factors={"model": ["fast", "dear"]},
        budget={"per_model": {"dear": {"calls": 4}}},
    )
    outcome = conducted(asked, parallel=4)
    assert (endpoint.bills(), other.bills()) == (10, 4)
    assert outcome.finished.exit_code == 3
    assert "calls of 4 is used up" in outcome.finished.reason


def test_a_budget_for_a_model_without_a_price_is_refused_before_anything_is_asked(fast: Any) -> None:
    asked = studied(lambda case, model: ask(model, case.input), factors={"model": ["fast"]})
    with pytest.raises(peira.PeiraError, match="fast: its price is unknown"):
        conducted(asked.model_copy(update={"budget": peira.Budget(money=1.0)}))
    assert fast.sends() == 0
    assert not Path("s.db").exists()


# At what pace


def test_a_provider_that_says_when_to_come_back_is_left_alone_until_then(fast: Any) -> None:
    fast.script({"status": 429, "retry_after": 1})
    outcome = conducted(studied(cases=6), parallel=3)
    assert outcome.results.ok
    assert fast.bills() == 6
    refused, *later = sorted(seen["at"] for seen in fast.seen())
    assert len(later) == 6
    assert sum(at < refused + 0.95 for at in later) <= 2  # those that were under way when it said so
    assert all(lost.doubt is False for lost in events(CallLost))


def test_an_endpoint_that_takes_only_so_many_at_once_needs_no_tuning(fast: Any) -> None:
    fast.allow(4)
    fast.always({"delay": 0.03})
    outcome = conducted(studied(cases=60), parallel=32)
    assert outcome.results.ok
    assert (fast.bills(), fast.peak()) == (60, 4)
    assert fast.sends() < 150
    sends = [event.send for event in events(CallIntended)]
    assert len(sends) == fast.sends()


def test_a_stated_rate_and_concurrency_are_kept(endpoint: Any, project: Project) -> None:
    limits = {"requests_per_minute": 240, "concurrency": 2}
    project(fast=at(endpoint, limits=limits))
    endpoint.always({"delay": 0.02})
    assert conducted(studied(cases=11), parallel=8).results.ok
    came = sorted(seen["at"] for seen in endpoint.seen())
    assert endpoint.peak() <= 2
    assert came[-1] - came[0] >= (11 - 1) / 4 - 1.1  # a second's worth at once, then 4 a second


# Dead endpoints and fallbacks


def dead_and_alive(endpoint: Any, project: Project, dead_cases: int, **policy: Any) -> Outcome:
    project(alive=at(endpoint), dead={"model": "openai:gone", "base_url": nowhere()})
    asked = study(
        agent=lambda case, model: ask(model, case.input),
        name="s",
        cases=[f"q{i}" for i in range(dead_cases)],
        factors={"model": ["dead", "alive"]},
        policy=policy,
    )
    return conducted(asked, parallel=4)


def check_dead_and_alive(outcome: Outcome, cases: int) -> None:
    by_model = {"dead": [], "alive": []}
    for trial in outcome.results.trials:
        by_model[trial.condition["model"]].append(trial)
    assert [trial.state.value for trial in by_model["alive"]] == ["succeeded"] * cases
    assert [trial.state.value for trial in by_model["dead"]] == ["failed"] * cases
    assert outcome.finished.exit_code == 1
    for problem in problems(outcome):
        assert "Connect" in problem or "refused" in problem
        assert "\n" not in problem
    finished = [r for r in peira.open("s.db").events(limit=100_000) if isinstance(r.event, TaskFinished)]
    ended = {record.event.task: record.at for record in finished}
    last_alive = max(ended[trial.id] for trial in by_model["alive"])
    assert last_alive < max(ended[trial.id] for trial in by_model["dead"])
    assert sum("dead is paused, others go on" in notice for notice in notices()) == 1


def test_a_dead_endpoint_is_paused_and_the_others_go_on(endpoint: Any, project: Project) -> None:
    outcome = dead_and_alive(endpoint, project, 8, call_tries=1)
    check_dead_and_alive(outcome, 8)
    assert endpoint.bills() == 8


@pytest.mark.torture
def test_a_dead_endpoint_is_given_up_in_the_end(endpoint: Any, project: Project) -> None:
    outcome = dead_and_alive(endpoint, project, 40)
    check_dead_and_alive(outcome, 40)
    assert sum("dead is given up" in notice for notice in notices()) == 1
    alive = [trial for trial in outcome.results.trials if trial.condition["model"] == "alive"]
    assert endpoint.bills() == len(alive)


def test_a_model_that_cannot_answer_is_replaced_and_that_is_recorded(endpoint: Any, project: Project) -> None:
    spare = endpoint.other("spare")
    project(fast=at(endpoint, fallbacks=["spare"]), spare=at(spare))
    endpoint.always({"fail": "permanent", "message": "decommissioned"})
    spare.always({"text": "from the spare"})
    first = conducted(studied(cases=6))
    assert [trial.output for trial in first.results.trials] == ["from the spare"] * 6
    assert {trial.about["served"] for trial in first.results.trials} == {"spare"}
    assert (endpoint.bills(), spare.bills()) == (0, 6)
    (notice,) = notices()
    assert notice.startswith("fast cannot answer, spare is asked instead:")
    assert "decommissioned" in notice

    async def edited(case, model="fast"):
        return (await ask_async(model, case.input, max_tokens=10)).text.upper()

    asked_before = endpoint.sends(), spare.sends()
    again = conducted(studied(edited, cases=6))
    assert [trial.output for trial in again.results.trials] == ["FROM THE SPARE"] * 6
    assert {trial.about["served"] for trial in again.results.trials} == {"spare"}
    assert (endpoint.sends(), spare.sends()) == asked_before
    sound()


def test_a_panel_does_not_share_an_answer_when_one_stands_in_for_another(
    endpoint: Any, project: Project
) -> None:
    spare = endpoint.other("spare")
    project(fast=at(endpoint, fallbacks=["spare"]), spare=at(spare))
    endpoint.always({"fail": "permanent"})
    spare.script({"text": "one"}, {"text": "two"})

    async def panel(case):
        return [(await ask_async(model, case.input)).text for model in ("fast", "spare")]

    outcome = conducted(studied(panel, cases=1))
    assert outcome.results.trials[0].output == ["one", "two"]
    assert spare.bills() == 2


def test_a_refused_connection_is_one_clear_line(project: Project, folder: Path) -> None:
    project(gone={"model": "openai:gone", "base_url": nowhere()})
    outcome = conducted(studied(lambda case: ask("gone", case.input), cases=1, policy={"call_tries": 2}))
    (problem,) = problems(outcome)
    assert "not sent" in problem
    assert "\n" not in problem


def test_a_wrong_base_url_is_one_clear_line(endpoint: Any, project: Project) -> None:
    endpoint.always({"status": 404, "error": {"detail": "Not Found"}})
    project(wrong={**at(endpoint), "base_url": f"{endpoint.base}/v2/oops"})
    outcome = conducted(studied(lambda case: ask("wrong", case.input), cases=2))
    (problem,) = problems(outcome)
    assert problem == "/v2/oops/chat/completions: 404: Not Found"
    assert endpoint.sends() == 2


# Replies that must fit

SCHEMA = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}


async def extracts(case):
    return (await ask_async("fast", case.input, schema=SCHEMA)).parsed["n"]


def test_a_reply_that_does_not_fit_is_told_why_and_asked_again(fast: Any) -> None:
    fast.script({"text": "seven"}, {"text": '{"n": "7"}'}, {"text": '```json\n{"n": 7}\n```'})
    outcome = conducted(studied(extracts, cases=1))
    assert outcome.results.trials[0].output == 7
    assert outcome.results.trials[0].metrics["calls"] == 3
    first, second, third = (seen["body"]["messages"] for seen in fast.seen())
    assert (len(first), len(second), len(third)) == (1, 3, 5)
    assert "no JSON" in second[-1]["content"]
    assert "'7' is not of type 'integer'" in third[-1]["content"]
    assert all("response_format" in seen["body"] for seen in fast.seen())


def test_a_model_that_never_fits_fails_its_trial_and_no_other(fast: Any) -> None:
    fast.script(*[{"text": "no"}] * 3, {"text": '{"n": 1}'})
    outcome = conducted(studied(extracts, cases=2), parallel=1)
    assert sorted(trial.state.value for trial in outcome.results.trials) == ["failed", "succeeded"]
    (problem,) = problems(outcome)
    assert problem.startswith("fast: its reply does not fit the schema after 2 repairs: it is no JSON")
    assert fast.bills() == 4
    conducted(studied(extracts, cases=2), parallel=1)
    assert fast.bills() == 4  # the same three answers, and the same end


def test_a_failure_by_replay_alone_is_not_tried_again(fast: Any) -> None:
    fast.always({"text": "not a number"})

    async def parses(case):
        return int((await ask_async("fast", case.input)).text)

    policy = {"retries": 5, "backoff": 0.01}
    outcome = conducted(studied(parses, cases=1, policy=policy))
    (trial,) = outcome.results.trials
    assert (trial.state.value, trial.attempts, fast.bills()) == ("failed", 2, 1)


def test_redrawing_asks_anew_and_is_counted(fast: Any) -> None:
    fast.script({"text": "x"}, {"text": "y"}, {"text": "3"})

    async def parses(case):
        return int((await ask_async("fast", case.input)).text)

    policy = {"retries": 5, "backoff": 0.01, "redraw": True}
    outcome = conducted(studied(parses, cases=1, policy=policy))
    (trial,) = outcome.results.trials
    assert (trial.output, trial.attempts, fast.bills()) == (3, 3, 3)
    assert trial.metrics["redraws"] == 2
    sound()


def test_an_answer_without_sense_is_recorded_fails_its_trial_and_is_not_bought_again(fast: Any) -> None:
    fast.always({"raw": '{"choices": "none"}'})
    for _ in range(2):
        outcome = conducted(studied(cases=2))
        assert all("unknown shape" in problem for problem in problems(outcome))
        assert len(outcome.results.failures) == 2
        assert fast.bills() == 2
    sound()


# Who asks, and where from


def test_evaluators_ask_through_the_ledger_too(fast: Any) -> None:
    def plain(output):
        return ask("fast", f"plain {output}").text.startswith("plain")

    async def waiting(output):
        return (await ask_async("fast", f"waiting {output}")).text.startswith("waiting")

    first = conducted(studied(cases=5, evaluators=[plain, waiting]))
    assert {score.score.value for score in first.results.scores} == {True}
    assert fast.bills() == 15
    assert first.results.trials[0].scores["plain"].metrics["calls"] == 1

    # The same judges, with another opinion of the same answers.
    def plain(output):
        return len(ask("fast", f"plain {output}").text)

    async def waiting(output):
        return len((await ask_async("fast", f"waiting {output}")).text)

    again = conducted(studied(cases=5, evaluators=[plain, waiting]))
    assert {score.score.value for score in again.results.scores} == {len("plain q0"), len("waiting q0")}
    assert fast.bills() == 15
    sound()


def test_a_judge_does_not_get_the_answer_that_the_agent_got(fast: Any) -> None:
    def judged(case):
        return ask("fast", case.input).text != ""

    assert conducted(studied(lambda case: ask("fast", case.input), cases=3, evaluators=[judged])).results.ok
    assert fast.bills() == 6


def test_an_evaluator_that_asks_is_limited_like_an_agent(fast: Any) -> None:
    def judged(output):
        return ask("fast", f"judge {output}").text != ""

    asked = studied(lambda case: case.input, cases=8, evaluators=[judged])
    outcome = conducted(asked.model_copy(update={"budget": peira.Budget(calls=5)}))
    assert (outcome.finished.exit_code, fast.bills()) == (3, 5)
    outcome = conducted(asked.model_copy(update={"budget": peira.Budget(calls=8)}))
    assert (outcome.finished.exit_code, fast.bills()) == (0, 8)


PROCESS = """
import os
from peira import ask, ask_async, study

CASES = [f"q{i}" for i in range(6)]

@study(cases=CASES, name="s")
def plain(case):
    return [ask("fast", case.input).text, os.getpid()]

@study(cases=CASES, name="s", budget={"calls": 4})
def limited(case):
    return [ask("fast", case.input).text, os.getpid()]

@study(cases=CASES, name="w")
async def waiting(case):
    return [(await ask_async("fast", case.input)).text, os.getpid()]

@study(cases=CASES[:1], name="f")
def fails(case):
    ask("fast", case.input)

@study(cases=CASES[:1], name="h", policy={"in_doubt": "hold"})
def held(case):
    ask("fast", case.input)

@study(cases=CASES[:2], name="t", policy={"timeout": 1.5})
def late(case):
    return ask("fast", case.input).text
"""


@pytest.fixture
def in_processes(fast: Any, written: Any) -> Callable[..., Outcome]:
    written(PROCESS)
    return lambda name, parallel=2: conducted(f"s.py:{name}", runner="process", parallel=parallel)


def test_in_other_processes_a_budget_holds_and_goes_on_when_raised(fast: Any, in_processes: Any) -> None:
    stopped = in_processes("limited")
    assert (stopped.finished.exit_code, fast.bills()) == (3, 4)
    assert stopped.finished.reason == "budget.calls of 4 is used up"
    states = {trial.state.value for trial in stopped.results.trials}
    assert {"succeeded", "exhausted"} <= states <= {"succeeded", "exhausted", "queued"}
    raised = in_processes("plain")
    assert (raised.finished.exit_code, fast.bills()) == (0, 6)
    outputs = [trial.output for trial in raised.results.trials]
    assert [text for text, _ in outputs] == [f"q{i}" for i in range(6)]
    assert len({pid for _, pid in outputs}) >= 2
    sound()


def test_in_other_processes_a_long_wait_frees_the_worker(fast: Any, in_processes: Any) -> None:
    fast.script({"status": 429, "retry_after": 3.2})
    outcome = in_processes("waiting")
    assert outcome.results.ok
    assert fast.bills() == 6
    assert {trial.attempts for trial in outcome.results.trials} == {1}
    sound()


def test_in_other_processes_failures_are_what_they_are(fast: Any, in_processes: Any) -> None:
    fast.script({"status": 404, "message": "no such model"}, {"do": "reset"})
    (problem,) = problems(in_processes("fails", parallel=1))
    assert "no such model" in problem
    outcome = in_processes("held", parallel=1)
    assert [trial.state.value for trial in outcome.results.trials] == ["in_doubt"]


def test_in_other_processes_a_timeout_frees_the_worker_at_once(fast: Any, in_processes: Any) -> None:
    """The second trial ends while the call of the first is still under way; its answer is kept, too."""
    fast.script({"delay": 6, "text": "late"})
    outcome = in_processes("late", parallel=1)
    assert sorted(trial.state.value for trial in outcome.results.trials) == ["failed", "succeeded"]
    kinds = [type(event) for event in events((TaskFinished, CallAnswered))]
    assert kinds == [TaskFinished, CallAnswered, TaskFinished, CallAnswered]
    sound()


def test_two_agents_that_ask_the_same_at_the_same_time_both_get_an_answer(fast: Any) -> None:
    fast.always({"delay": 0.05})

    async def loud(case):
        return (await ask_async("fast", case.input)).text.upper()

    async def quiet(case):
        return (await ask_async("fast", case.input)).text

    asked = study(agents={"loud": loud, "quiet": quiet}, name="s", cases=["a", "b", "c"])
    outcome = conducted(asked, parallel=6)
    assert outcome.results.ok, problems(outcome)
    assert sorted(trial.output for trial in outcome.results.trials) == ["A", "B", "C", "a", "b", "c"]
    sound()


# In doubt


def test_a_retry_waits_for_the_answer_that_is_on_its_way(fast: Any) -> None:
    """The first attempt timed out while its call was under way: nobody pays for it a second time."""
    fast.always({"delay": 0.9})
    policy = {"timeout": 0.6, "retries": 1, "backoff": 0.01}
    outcome = conducted(studied(cases=2, policy=policy))
    assert outcome.results.ok, problems(outcome)
    assert fast.bills() == 2
    sound()


@pytest.mark.parametrize("turn", [{"do": "reset"}, {"do": "cut"}, {"fail": "doubt"}])
def test_what_is_held_is_billed_at_most_once(fast: Any, turn: dict[str, Any]) -> None:
    fast.always(turn)
    held = studied(cases=4, policy={"in_doubt": "hold", "retries": 3, "backoff": 0.01})
    for _ in range(2):
        outcome = conducted(held)
        assert {trial.state.value for trial in outcome.results.trials} == {"in_doubt"}
        assert outcome.finished.exit_code == 1
    assert sorted(fast.billed()) == [f"q{i}" for i in range(4)]


def test_what_was_cut_off_when_the_run_ended_counts_as_sent(fast: Any) -> None:
    fast.script({"delay": 30, "text": "never heard"})
    asked = studied(cases=1, policy={"timeout": 0.3}, budget={"calls": 2})
    outcome = conducted(asked)
    (spent,) = outcome.results.spent_by_model
    assert (spent.sends, spent.answers, spent.doubtful) == (1, 0, 1)
    again = conducted(asked)  # sent again, which is the second of two
    assert (again.results.ok, fast.bills()) == (True, 2)
    more = conducted(studied(cases=2, budget={"calls": 2}))
    assert (more.finished.exit_code, fast.bills()) == (3, 2)
    sound()


DOUBTS = [
    ({"do": "reset"}, {"in_doubt": "hold"}),
    ({"fail": "doubt"}, {"in_doubt": "hold"}),
    ({"delay": 30}, {"timeout": 0.3}),
]


@pytest.mark.parametrize(("turn", "policy"), DOUBTS, ids=["reset", "failed", "cut off"])
def test_later_runs_count_what_a_send_without_an_answer_may_have_cost(
    endpoint: Any, project: Project, turn: dict[str, Any], policy: dict[str, Any]
) -> None:
    project(fast=at(endpoint, price=CENT))
    endpoint.script(turn)
    endpoint.always(TEN_TOKENS)
    first = conducted(studied(cases=1, policy=policy, budget={"money": 0.04}))
    spent = first.results.spent
    assert (spent.money, spent.doubtful, spent.doubtful_money) == (0.0, 1, pytest.approx(0.01))
    assert spent.price == "$0.00 and 1 in doubt (perhaps $0.010 more)"
    assert spent.doubtful_tokens >= 10
    others = study(agent=asks, name="s", cases=[f"another {i}" for i in range(9)], budget={"money": 0.04})
    second = conducted(others, parallel=4)
    assert (second.finished.exit_code, second.results.spent.price) == (3, "$0.030")
    more = conducted(others)
    assert (more.finished.exit_code, more.results.spent.calls, endpoint.bills()) == (3, 0, 4)
    sound()


def test_without_a_budget_an_intent_says_nothing_of_money_and_a_doubt_does(
    endpoint: Any, project: Project
) -> None:
    project(fast=at(endpoint, price=CENT))
    endpoint.script({"do": "reset"})
    outcome = conducted(studied(cases=1))
    assert [(event.tokens, event.money) for event in events(CallIntended)] == [(0, 0.0)] * 2
    (lost,) = events(CallLost)
    assert (lost.money, outcome.results.spent.doubtful_money) == (pytest.approx(0.01),) * 2
    conducted(studied(cases=2, budget={"calls": 10, "money": 1.0}))
    assert events(CallIntended)[0].money == pytest.approx(0.01)
    sound()


def test_what_is_sent_again_is_recorded_first(fast: Any) -> None:
    fast.script({"do": "reset"}, {"fail": "doubt"}, {"do": "cut"})
    outcome = conducted(studied(cases=3), parallel=3)
    assert outcome.results.ok
    lost = [event for event in events(CallLost) if event.doubt]
    assert fast.bills() <= 3 + len(lost) == 6
    assert outcome.results.spent.doubtful == 3
    sound()
