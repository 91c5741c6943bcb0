"""Calls of models: at what pace, and what becomes of those whose endpoint is dead."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import peira
from peira import ask, ask_async, study
from peira.app.run import RunOutcome
from peira.core.log.events import CallIntended, CallLost, TaskFinished

from .conftest import (
    Project,
    at,
    conducted,
    events,
    notices,
    nowhere,
    problems,
    sound,
    studied,
)

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


def dead_and_alive(endpoint: Any, project: Project, dead_cases: int, **policy: Any) -> RunOutcome:
    project(alive=at(endpoint), dead={"model": "openai:gone", "base_url": nowhere()})
    asked = study(
        agent=lambda case, model: ask(model, case.input),
        name="s",
        cases=[f"q{i}" for i in range(dead_cases)],
        factors={"model": ["dead", "alive"]},
        policy=policy,
    )
    return conducted(asked, parallel=4)


def check_dead_and_alive(outcome: RunOutcome, cases: int) -> None:
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
