"""What can be done from a page or a program, on a living run; every act is an event that says who did it."""

from __future__ import annotations

import json
import re
import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from .conftest import Server, Tab, copy_store, serving
from .test_browser import begin

ASKING = """
from peira import ask_person, exact, study

@study(cases=[(f"draft {n}", "send") for n in range(6)], evaluators=[exact()])
def mails(case):
    return ask_person("Send this?", show=f"Dear customer, **{case.input}** <script>window.pwned=1</script>",
                      options=["send", "drop"], to="editors")
"""


def post(server: Server, path: str, status: int = 200, **body: Any) -> Any:
    found = server.ask(f"/api/v1{path}", "POST", json.dumps(body).encode(), Content_Type="application/json")
    assert found.status == status, found.text
    return found.json


def until(check: Callable[[], Any], patience: float = 120.0) -> Any:
    deadline = time.monotonic() + patience
    while not (found := check()):
        assert time.monotonic() < deadline
        time.sleep(0.1)
    return found


@pytest.fixture
def folder(project: Path, tmp_path: Path) -> Path:
    for name in ("sums.py", "live.py", "peira.toml"):
        shutil.copy(project / name, tmp_path / name)
    (tmp_path / "mails.py").write_text(ASKING)
    return tmp_path


@pytest.mark.timeout(300)
def test_a_living_run_is_paused_adjusted_and_cancelled(folder: Path) -> None:
    _, run = begin(folder)
    with serving(folder, "--store", "s.db") as server:

        def done() -> int:
            return int(server.api(f"/runs/{run}")["progress"]["done"])

        assert "paused" in post(server, f"/runs/{run}/pause")["said"]
        until(lambda: server.api(f"/runs/{run}")["run"]["status"] == "paused")
        time.sleep(0.5)
        still = done()
        time.sleep(1.0)
        assert done() == still
        last = server.api(f"/runs/{run}/trials?limit=1&state=not%20begun")["trials"][0]["id"]
        post(server, f"/runs/{run}/trials/{last[:16]}/cancel")
        until(lambda: server.api(f"/trials/{last}?run={run}")["state"] == "cancelled")
        post(server, f"/runs/{run}/parallel", parallel=2)
        post(server, f"/runs/{run}/parallel", 400, parallel=0)
        post(server, f"/runs/{run}/resume")
        until(lambda: done() > still)
        post(server, f"/runs/{run}/cancel")
        assert server.api(f"/runs/{run}")["run"]["status"] == "cancelled"
        post(server, f"/runs/{run}/pause", 400)
        events = server.api(f"/runs/{run}/events?limit=1000&kinds=run.command")["events"]
        commands = [one["command"] for one in events]
        assert commands == ["pause", "cancel", "adjust", "resume", "cancel"]
        assert all(one["by"] for one in events)
        begun = post(server, f"/runs/{run}/again", 201)
        assert server.api(f"/runs/{begun['run']}")["run"]["study"] == "slow"
        [planned] = server.api(f"/runs/{begun['run']}/events?kinds=run.planned")["events"]
        assert planned["by"].endswith("(web)")
        post(server, f"/runs/{begun['run']}/cancel")


@pytest.mark.timeout(300)
def test_outputs_are_scored_again(folder: Path, project: Path) -> None:
    copy_store(project, folder)
    with serving(folder, "--store", "s.db") as server:
        run = server.api("/runs")["runs"][0]["id"]
        post(server, f"/runs/{run}/score", evaluators="includes", name="lenient")
        names = [one["evaluation"] for one in server.api("/runs")["runs"]]
        assert "lenient" in names
        assert "sums.py" in post(server, "/plan", 400, study="sum.py")["error"]
        assert post(server, "/plan", 400, study="../../etc/passwd")["error"].startswith("study: ")
        post(server, "/runs", 400, study="peira.toml")
        post(server, f"/runs/{run}/score", 400, evaluators=" ")
        post(server, "/calls/abcdef/discard", 400)


CALLING = """
import time
from peira import ask, exact, study

@study(cases=[(f"q{n}", f"q{n}") for n in range(600)], evaluators=[exact()])
def calling(case):
    said = ask("scripted:", case.input).text
    time.sleep(0.1)
    return said
"""


@pytest.mark.timeout(300)
def test_everything_is_done_from_pages(folder: Path, tab: Callable[..., Tab]) -> None:
    (folder / "calling.py").write_text(CALLING)
    _, run = begin(folder, study="calling.py")
    with serving(folder, "--store", "s.db") as server:

        def commands() -> list[str]:
            found = server.api(f"/runs/{run}/events?limit=1000&kinds=run.command")["events"]
            assert all("(web)" in one["by"] for one in found)
            return [one["command"] for one in found]

        seen = tab(of=server)
        seen.page.on("dialog", lambda dialog: dialog.accept())
        seen.go(f"/runs/{run}")
        assert seen.serious() == []
        seen.page.click("button:has-text('Pause')")
        seen.page.click("button:has-text('Resume')", timeout=60_000)
        seen.page.wait_for_selector("button:has-text('Pause')", timeout=60_000)
        seen.page.click("summary:has-text('At once')")
        seen.page.fill("input[name=parallel]", "2")
        seen.page.click("button:has-text('Change')")
        until(lambda: commands() == ["pause", "resume", "adjust"])
        last = server.api(f"/runs/{run}/trials?state=not%20begun&limit=1")["trials"][0]
        seen.go(f"/runs/{run}/trials/{last['id']}?number={last['number']}")
        seen.page.click("text=Cancel this trial")
        until(lambda: server.api(f"/trials/{last['id']}?run={run}")["state"] == "cancelled")
        seen.go(f"/runs/{run}")
        seen.page.click("button:has-text('Cancel')")
        until(lambda: server.api(f"/runs/{run}")["run"]["status"] == "cancelled")
        assert commands() == ["pause", "resume", "adjust", "cancel", "cancel"]
        seen.go(f"/runs/{run}")
        seen.page.click("summary:has-text('Score again')")
        seen.page.fill("input[name=evaluators]", "includes")
        seen.page.fill("input[name=name]", "lenient")
        seen.page.click("button:has-text('Score')")
        until(lambda: "lenient" in [one["evaluation"] for one in server.api("/runs")["runs"]])
        [scored] = [one["id"] for one in server.api("/runs")["runs"] if one["evaluation"] == "lenient"]
        [planned] = server.api(f"/runs/{scored}/events?kinds=run.planned")["events"]
        assert planned["by"].endswith("(web)")
        call = server.api(f"/calls?run={run}&state=answered&limit=1")["calls"][0]["key"]
        seen.go(f"/calls/{call}")
        seen.page.click("text=Discard the answer")
        until(lambda: server.api(f"/calls/{call}")["call"]["state"] == "void")
        assert "(web)" in json.dumps(server.api(f"/calls/{call}")["events"])
        assert seen.said == []


@pytest.mark.timeout(300)
def test_two_answers_are_compared_by_arrows(folder: Path, tab: Callable[..., Tab]) -> None:
    (folder / "duels.py").write_text(DUELS)
    with serving(folder, "--store", "s.db") as server:
        post(server, "/runs", 201, study="duels.py")
        until(lambda: len(server.api("/inbox")["questions"]) == 4)
        seen = tab(of=server)
        seen.go("/inbox?me=ann")
        assert seen.page.locator(".duel .given").count() == 2
        assert seen.serious() == []
        assert seen.see("window.pwned") is None
        for left in (3, 2):
            seen.page.keyboard.press("ArrowLeft")
            until(lambda left=left: len(server.api("/inbox")["questions"]) == left)
            seen.page.wait_for_timeout(800)
        seen.page.wait_for_selector("text=You have rated all that is open", timeout=30_000)
        assert server.api("/inbox?me=ann")["questions"] == []
        seen.go("/inbox?me=bob")
        seen.page.locator(".duel").wait_for()
        seen.page.keyboard.press("ArrowDown")
        until(lambda: len(server.api("/inbox")["questions"]) == 1)
        assert seen.said == []


DUELS = """
from peira import Case, person, study

@study(cases=[Case(f"letter {n}", expected=f"Dear {n} <script>window.pwned=1</script>") for n in range(2)],
       evaluators=[person("Which is kinder?", against="expected", raters=2)])
def duels(case):
    return f"Hello **{case.input}**"
"""


@pytest.mark.timeout(300)
def test_questions_are_answered_by_keyboard(folder: Path, tab: Callable[..., Tab]) -> None:
    with serving(folder, "--store", "s.db") as server:
        run = post(server, "/runs", 201, study="mails.py")["run"]
        until(lambda: len(server.api("/inbox")["questions"]) == 6)
        first = server.api("/inbox")["questions"][0]
        assert (first["run"], first["prompt"], first["options"], first["to"]) == (
            run,
            "Send this?",
            ["send", "drop"],
            "editors",
        )
        seen = tab(of=server)
        seen.go("/inbox")
        seen.page.fill("#me", "ann")
        seen.page.locator("h1").click()
        assert seen.see("window.pwned") is None
        seen.page.wait_for_url(re.compile("me=ann"))
        for key, left in (("1", 5), ("1", 4), ("2", 3)):
            seen.page.keyboard.press(key)
            seen.until(f"document.querySelector('aside h2')?.textContent.startsWith('{left - 1}')")
            assert len(server.api("/inbox")["questions"]) == left
        third = server.api("/inbox")["questions"][0]["key"]
        assert post(server, f"/inbox/{third}/answer", 400, value="perhaps")["error"]
        assert post(server, f"/inbox/{third}/answer", value="drop", by="bob")["done"]
        late = post(server, f"/inbox/{third}/answer", value="send", by="eve")
        assert not late["done"]
        assert "bob was first" in late["said"]
        for one in server.api("/inbox")["questions"]:
            post(server, f"/inbox/{one['key']}/answer", option=0)
        seen.page.wait_for_selector("text=Nobody is asked anything", timeout=30_000)
        events = server.api(f"/runs/{run}/events?limit=1000")["events"]
        assert {one["by"] for one in events if "question" in one["kind"] and one.get("by")} >= {"ann", "bob"}
        assert seen.said == []


ENDING = """
import time
from peira import exact, study

@study(cases=[(f"q{n}", "a") for n in range(24)],
       factors={"style": ["plain", "polite"]}, evaluators=[exact()])
def ending(case, style):
    time.sleep(0.6)
    return "a"
"""


@pytest.mark.timeout(300)
def test_what_is_shown_of_a_run_that_has_ended_is_all_of_it(folder: Path, project: Path) -> None:
    (folder / "ending.py").write_text(ENDING)
    copy_store(project, folder)
    with serving(folder, "--store", "s.db") as server:

        def counted(run: str) -> int:
            return sum(int(row["n"]) for row in server.api(f"/runs/{run}/table?overall=true")["rows"])

        assert counted(server.api("/runs")["runs"][0]["id"]) == 44  # what tables need is imported by now
        _, run = begin(folder, study="ending.py")
        while server.api(f"/runs/{run}")["run"]["status"] != "completed":
            assert counted(run) <= 48  # and what was counted is kept for a while
        assert counted(run) == 48


@pytest.mark.timeout(300)
def test_buttons_follow_how_a_run_stands(folder: Path, tab: Callable[..., Tab]) -> None:
    _, run = begin(folder)
    with serving(folder, "--store", "s.db") as server:
        seen = tab(of=server)
        seen.go(f"/runs/{run}")
        tools = seen.page.locator(".tools")
        assert "Cancel" in tools.inner_text()
        one = until(lambda: server.api(f"/runs/{run}")["running"])[0]
        assert one["condition"] in ("model=small", "model=large")
        seen.until("document.querySelector('.running li')?.innerText.includes('model=') ?? false")
        post(server, f"/runs/{run}/pause")
        seen.page.wait_for_selector(".tools button:has-text('Resume')", timeout=60_000)
        post(server, f"/runs/{run}/cancel")
        seen.page.wait_for_selector(".tools button:has-text('Go on')", timeout=60_000)
        assert "Cancel" not in tools.inner_text()
        assert seen.said == []
