"""Live experiments and goals on pages: what they show of a living stream, and outcomes reported there."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import peira
from peira.app.streams.view import StreamView

from .conftest import Server, Tab, serving
from .test_actions import post, until
from .test_browser import FITS

JOBS = 140


@peira.stream(
    factors={"style": ["short", "friendly"]},
    assign="thompson",
    stop="when decided",
    parallel=4,
    experiment={"score": "solved"},
    goals=["mean(failed) <= 0.5", "mean(failed) >= 0.9"],
)
def reply(case: Any, style: str) -> str:
    peira.current_trial().decide("refund?", options=["yes", "no"], chosen="no", why="<b>policy</b>")
    return f"{style} reply to {case.input}"


@peira.stream
def plain(case: Any) -> Any:
    return case.input


@pytest.fixture(scope="module")
def desk(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Server, StreamView]]:
    """Pages beside a host whose experiment was decided by outcomes that were reported; two are missing."""
    folder = tmp_path_factory.mktemp("tickets")
    host = peira.serve(reply, plain, store=folder / "s.db")
    view = host.stream("reply")
    jobs = host.submit_many("reply", [{"input": n, "key": f"t{n}"} for n in range(JOBS)])
    for job in jobs[2:]:
        answer = job.result(timeout=60)
        assert isinstance(answer, str)
        job.outcome("solved", answer.startswith("friendly"))
    until(lambda: view.stats()["experiment"]["winner"] == "friendly")
    with serving(folder, "--store", "s.db") as server:
        yield server, view
    host.stop()


def test_the_interface_says_what_results_say(desk: tuple[Server, StreamView]) -> None:
    server, view = desk
    found = server.api("/streams/reply/experiment")
    assert (found["winner"], found["score"], found["late"]) == ("friendly", "solved", True)
    assert found["decision"]["answer"] == "friendly is best"
    assert [one["share"] for one in found["arms"]] == [0.0, 1.0]
    assert sum(one["values"] for one in found["arms"]) == JOBS - 2
    assert sum(one["open"] for one in found["arms"]) == 2
    assert len(found["splits"]) >= 2
    assert [sum(one["shares"]) for one in found["splits"]] == pytest.approx([1.0] * len(found["splits"]))
    [one] = found["differences"]
    [same] = view.results().compare("style", score="solved").contrasts
    assert same.difference is not None
    assert (same.first, same.second) == ("friendly", "short")
    assert (one["first"], one["second"]) == ("friendly", "short")
    assert one["mean"] == pytest.approx(same.difference.mean)
    assert [one["low"], one["high"]] == pytest.approx([same.difference.low, same.difference.high])
    sizes = [point[0] for point in one["path"]]
    assert sizes == sorted(set(sizes))
    assert one["path"][-1] == [one["n"], one["mean"], one["low"], one["high"]]
    [turned] = server.api("/streams/reply/experiment?arm=short")["differences"]
    assert turned["mean"] == pytest.approx(-one["mean"])
    goals = server.api("/streams/reply/goals")["goals"]
    assert [one["verdict"] for one in goals] == ["met", "missed"]
    assert goals[0]["path"][-1][0] == goals[0]["n"] == JOBS
    reported = server.api("/streams/reply/outcomes")
    assert (reported["total"], len(reported["outcomes"])) == (JOBS - 2, JOBS - 2)
    assert server.ask("/api/v1/streams/reply/experiment?arm=shrt").status == 404
    assert server.ask("/api/v1/streams/plain/experiment").status == 404
    assert server.api("/streams/plain/goals")["goals"] == []


@pytest.mark.timeout(300)
@pytest.mark.parametrize(("width", "scheme"), [(1280, "light"), (390, "dark")])
def test_pages_of_an_experiment(
    desk: tuple[Server, StreamView], tab: Callable[..., Tab], width: int, scheme: str
) -> None:
    seen = tab(width, scheme, of=desk[0])
    pages = {
        "/streams/reply/experiment": "Decided: friendly is best",
        "/streams/reply/goals": "✗ missed",
        "/streams/reply/decisions": "<b>policy</b>",
        "/streams/plain/experiment": "compares nothing",
        "/streams/plain/goals": "has no goals",
    }
    for path, words in pages.items():
        seen.go(path)
        seen.until(f"document.querySelector('main').innerText.includes({words!r})")
        assert seen.serious() == [], path
        assert seen.see("document.documentElement.scrollWidth") <= width, path
        assert seen.see(FITS) == [], path
    seen.go("/streams/reply/experiment")
    seen.until("document.querySelectorAll('svg.chart').length === 2")
    assert "style=friendly scores higher than style=short on solved" in seen.page.inner_text("main")
    assert seen.said == []


def test_an_outcome_is_reported_on_the_page(desk: tuple[Server, StreamView], tab: Callable[..., Tab]) -> None:
    server, view = desk
    seen = tab(of=server)
    seen.go("/streams/reply/jobs/t0")
    assert seen.page.input_value("input[name=name]") == "solved"
    seen.page.fill("input[name=text]", "true")
    seen.page.click("button:has-text('Report')")
    until(lambda: server.api("/streams/reply/jobs/t0")["outcomes"] == {"solved": True})
    [event] = list(view.job("t0").events(kinds="job.outcome"))
    assert event["by"].endswith("(web)")
    seen.page.wait_for_selector("text=The outcome is recorded")
    assert server.ask("/api/v1/streams/reply/jobs/t1/outcome", "POST", b'{"name": "took"}').status == 400
    post(server, "/streams/reply/jobs/t1/outcome", name="solved", value=False)
    assert seen.said == []


def test_saved_pages_of_an_experiment_need_nothing(
    desk: tuple[Server, StreamView], chromium: Any, tmp_path: Path
) -> None:
    for name, words in {"experiment": "Shares over time", "goals": "at every look"}.items():
        file = tmp_path / f"{name}.html"
        file.write_bytes(desk[0].ask(f"/streams/reply/{name}.html").body)
        page = chromium.new_page()
        asked: list[str] = []
        page.on("request", lambda request, asked=asked: asked.append(request.url))
        page.goto(file.as_uri())
        assert asked == [file.as_uri()]
        assert words in page.inner_text("main")
        assert page.locator("svg.chart").count() == 2
        page.close()


def test_who_only_looks_reports_nothing(desk: tuple[Server, StreamView], tmp_path: Path) -> None:
    folder = desk[0].errors.parent
    with serving(folder, "--store", "s.db", "--read-only") as looking:
        found = looking.ask("/api/v1/streams/reply/jobs/t1/outcome", "POST", b'{"name": "x", "value": 1}')
        assert found.status == 403
        assert "Report an outcome" not in looking.ask("/streams/reply/jobs/t1").text
