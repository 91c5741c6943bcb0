"""A key or a model that is refused: a few calls are enough to know."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import peira
from peira import ask
from peira.cli import main
from peira.core.models import ModelLimits
from peira.engine.calls.rate_limit import REFUSALS, RateLimiter
from peira.errors import CallFailed

from .conftest import Project, at, conducted, notices, problems, sound, studied

WRONG_KEY = {"status": 401, "message": "Incorrect API key provided"}


@pytest.mark.parametrize("status", [401, 403, 404])
def test_a_refusal_of_the_key_or_the_model_ends_the_run_after_a_few(fast: Any, status: int) -> None:
    fast.always({"status": status, "message": "no, never"})
    outcome = conducted(studied(cases=100), parallel=8)
    assert REFUSALS <= fast.sends() <= REFUSALS + 8
    assert outcome.finished.exit_code == 1
    assert outcome.finished.reason.startswith("fast refuses its calls (")
    assert f"{status}" in outcome.finished.reason
    assert "no, never" in outcome.finished.reason
    (notice,) = notices()
    assert notice.endswith("; no more are sent")
    counts = outcome.results.counts
    assert counts["left"] > 50, "not begun"
    fast.always({"text": "so it is"})
    assert conducted(studied(cases=100)).results.ok
    sound()


def test_retries_do_not_ask_a_model_that_refuses(fast: Any) -> None:
    fast.always(WRONG_KEY)
    policy = {"retries": 5, "backoff": 0.01}
    conducted(studied(cases=30, policy=policy), parallel=4)
    assert fast.sends() <= REFUSALS + 4


def test_other_models_go_on(endpoint: Any, project: Project) -> None:
    other = endpoint.other("b")
    project(fast=at(endpoint), other=at(other))
    endpoint.always(WRONG_KEY)
    asked = studied(
        lambda case, model: ask(model, case.input), cases=20, factors={"model": ["fast", "other"]}
    )
    outcome = conducted(asked, parallel=4)
    assert other.bills() == 20
    assert (outcome.results.counts["succeeded"], outcome.results.counts["failed"]) == (20, 20)
    assert outcome.finished.reason.startswith("fast refuses its calls (")
    assert endpoint.sends() <= REFUSALS + 4
    assert len(problems(outcome)) == 2, "the refusal itself, and that nothing more was sent"
    sound()


def test_a_fallback_answers_for_a_model_that_refuses(endpoint: Any, project: Project) -> None:
    other = endpoint.other("b")
    project(fast=at(endpoint, fallbacks=["other"]), other=at(other))
    endpoint.always(WRONG_KEY)
    outcome = conducted(studied(cases=20), parallel=2)
    assert outcome.results.ok
    assert (other.bills(), endpoint.sends() <= REFUSALS + 2) == (20, True)


def test_single_refusals_between_answers_are_only_failures() -> None:
    said: list[str] = []
    limiter = RateLimiter("m", ModelLimits(), lambda: 0.0, said.append)
    for _ in range(3):
        for _ in range(REFUSALS - 1):
            limiter.failed(CallFailed("moderated", status=403), 0.0)
        limiter.answered(0, None)
    for _ in range(3 * REFUSALS):
        limiter.failed(CallFailed("too long", status=400), 0.0)
    assert (said, limiter.refused) == ([], "")


def test_the_command_line_says_so_once(fast: Any, folder: Path, capsys: Any) -> None:
    fast.always(WRONG_KEY)
    (folder / "s.py").write_text(
        "from peira import ask, study\n\n@study(cases=[f'q{i}' for i in range(50)])\n"
        "def s(case):\n    return ask('fast', case.input)\n"
    )
    assert main(["run", "s.py", "--store", "s.db", "--quiet"]) == 1
    out, err = capsys.readouterr()
    assert "s: stopped" in out
    assert "(fast refuses its calls (" in out
    assert err.count("no more are sent") == 1
    assert peira.open("s.db").runs()[0].status == "stopped by a limit"
