"""Pages in a real browser: what they show and do, that they ask nobody else, and run nothing of others."""

from __future__ import annotations

import base64
import json
import re
import shutil
import signal
import struct
import subprocess
import sys
import time
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from .conftest import Server, Tab, serving

Open = Callable[..., Tab]
TOKEN = "a-token-that-stays-the-same"


def paths(server: Server, run: str) -> dict[str, str]:
    trials = server.api(f"/runs/{run}/trials?limit=200&text=pwned")["trials"]
    other = server.api("/runs")["runs"][1]["id"]
    found = {
        "runs": "/runs",
        "run": f"/runs/{run}",
        "conditions": f"/runs/{run}/conditions",
        "trials": f"/runs/{run}/trials?limit=200",
        "events": f"/runs/{run}/events",
        "levels": f"/compare?run={run}&show=all&limit=100",
        "two runs": f"/compare?run={run}&other={other}&show=all",
        "choose": "/compare",
        "calls": "/calls",
        "plan": "/plan",
        "inbox": "/inbox",
        "streams": "/streams",
        "work": "/work",
        "error": "/nothing",
    }
    for number, trial in enumerate(trials):
        found[f"trial {number}"] = f"/runs/{run}/trials/{trial['id']}"
    return found


FITS = """() => [...document.querySelectorAll('section, h1, .head, .filter, pre, .tabs, .bar')].filter(
    one => one.getBoundingClientRect().right > innerWidth + 1).map(one => one.outerHTML.slice(0, 120))"""


@pytest.mark.timeout(300)
@pytest.mark.parametrize(("width", "scheme"), [(1280, "light"), (390, "dark")])
def test_every_page_is_quiet_inert_and_fits(
    tab: Open, server: Server, run: str, width: int, scheme: str
) -> None:
    seen = tab(width, scheme)
    for name, path in paths(server, run).items():
        seen.said.clear()
        seen.asked.clear()
        seen.go(path)
        seen.page.wait_for_load_state("load")
        seen.see("document.querySelectorAll('details').forEach(one => { one.open = true })")
        seen.page.mouse.move(width / 2, 400)
        assert seen.see("window.pwned") is None, name
        noise = [line for line in seen.said if "404" not in line]
        assert noise == [], name
        assert all(url.startswith(("data:", f"http://{server.host}/")) for url in seen.asked), name
        assert seen.see("document.documentElement.scrollWidth") <= width, name
        assert seen.see(FITS) == [], name
        assert seen.see("document.querySelectorAll('iframe, object, embed, main script').length") == 0, name
        assert seen.see(
            "[...document.querySelectorAll('a')].every(one => !/^javascript:/i.test(one.href))"
        ), name


@pytest.mark.timeout(300)
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_nothing_serious_is_found_by_axe(tab: Open, server: Server, run: str, scheme: str) -> None:
    seen = tab(1280, scheme)
    for name, path in list(paths(server, run).items())[:15]:
        seen.go(path)
        seen.page.wait_for_timeout(300)
        assert seen.serious() == [], name


def test_trials_are_stepped_through_by_keyboard(tab: Open, server: Server, run: str) -> None:
    seen = tab()
    seen.go(f"/runs/{run}/trials?state=wrong")
    wrong = [one["id"] for one in server.api(f"/runs/{run}/trials?state=wrong&limit=200")["trials"]]
    seen.page.locator("table.trials a").first.click()
    for expected in wrong[:3]:
        seen.page.wait_for_url(re.compile(expected[:16]))
        assert "wrong" in seen.page.inner_text("aside")
        seen.page.keyboard.press("j")
    seen.page.wait_for_url(re.compile(wrong[3][:16]))
    seen.page.keyboard.press("k")
    seen.page.wait_for_url(re.compile(wrong[2][:16]))
    seen.page.keyboard.press("?")
    assert seen.page.locator("#keys").is_visible()
    seen.page.keyboard.press("Escape")
    seen.go(f"/runs/{run}/trials")
    seen.page.keyboard.press("/")
    seen.page.keyboard.type("tool broke")
    seen.page.keyboard.press("Enter")
    seen.page.wait_for_url(re.compile("text=tool"))
    assert seen.page.locator("table.trials tbody tr").count() == 4


PICTURE = {"width": 3, "height": 2}


def picture() -> str:
    """A PNG of that size, in base64."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    header = struct.pack(">IIBBBBB", PICTURE["width"], PICTURE["height"], 8, 2, 0, 0, 0)
    rows = (b"\0" + b"\xff\x80\0" * PICTURE["width"]) * PICTURE["height"]
    body = chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")
    return base64.b64encode(b"\x89PNG\r\n\x1a\n" + body).decode()


SEEING = """
from peira import ask, study

@study(cases=["What is this?"])
def seeing(case):
    parts = [
        {"type": "text", "text": case.input},
        {"type": "image", "data": "PICTURE", "media": "image/png"},
        {"type": "image", "data": "PHN2Zy8+", "media": "image/svg+xml"},
        {"type": "image", "url": "http://example.org/x.png"},
    ]
    return ask("scripted:echo", [{"role": "user", "content": parts}]).text
"""


def test_images_in_a_transcript_are_shown(tab: Open, tmp_path: Path) -> None:
    """Those that came with the message and can hold no script; nothing is loaded from elsewhere."""
    (tmp_path / "peira.toml").write_text('store = "s.db"\n')
    (tmp_path / "seeing.py").write_text(SEEING.replace("PICTURE", picture()))
    command = [sys.executable, "-P", "-m", "peira.cli", "run", "seeing.py", "--quiet"]
    subprocess.run(command, cwd=tmp_path, check=True, capture_output=True)
    with serving(tmp_path) as server:
        run = server.api("/runs")["runs"][0]["id"]
        [trial] = server.api(f"/runs/{run}/trials")["trials"]
        seen = tab(390, "light", server)
        seen.go(f"/runs/{run}/trials/{trial['id']}")
        seen.page.wait_for_load_state("load")
        shown = seen.see(
            "[...document.querySelectorAll('.talk img')].map("
            "one => ({width: one.naturalWidth, height: one.naturalHeight}))"
        )
        assert shown == [PICTURE]
        assert all(url.startswith(("data:", f"http://{server.host}/")) for url in seen.asked)
        assert seen.said == []


def test_the_list_of_runs_has_their_first_score(tab: Open, server: Server) -> None:
    seen = tab()
    seen.go("/runs")
    seen.until("[...document.querySelectorAll('td.score')].every(one => one.innerText.includes('match'))")
    cells = "[...document.querySelectorAll('#list tbody tr')].map(one => one.children.length)"
    assert set(seen.see(cells)) == {6}


def test_a_cell_of_the_table_leads_to_its_trials(tab: Open, server: Server, run: str) -> None:
    seen = tab()
    seen.go(f"/runs/{run}")
    seen.page.locator("table.forest a", has_text="trials").first.click()
    seen.page.wait_for_url(re.compile("condition="))
    assert seen.page.locator("table.trials tbody tr").count() == 12


def test_a_page_saved_as_a_file_needs_nothing(
    chromium: Any, server: Server, run: str, tmp_path: Path
) -> None:
    for name in (f"/runs/{run}", f"/runs/{run}/conditions", f"/runs/{run}/trials"):
        file = tmp_path / "page.html"
        file.write_bytes(server.ask(f"{name}.html").body)
        page = chromium.new_page()
        asked: list[str] = []
        page.on("request", lambda request, asked=asked: asked.append(request.url))
        page.goto(file.as_uri())
        assert asked == [file.as_uri()]
        assert page.locator("h1").count() == 1
        page.close()


def test_pages_are_printed_whole(tab: Open, server: Server, run: str) -> None:
    """On paper there is nothing to press or to unfold, nothing is cut off, and sections may go over pages."""
    seen = tab(720)
    seen.page.emulate_media(media="print")
    trial = server.api(f"/runs/{run}/trials?limit=1")["trials"][0]["id"]
    for path in (f"/runs/{run}", f"/runs/{run}/trials", f"/runs/{run}/trials/{trial}", f"/compare?run={run}"):
        seen.go(path)
        seen.page.wait_for_load_state("networkidle")
        seen.see("dispatchEvent(new Event('beforeprint'))")
        assert seen.see("document.documentElement.scrollWidth") <= 720, path
        hidden = "[...document.querySelectorAll('.bar, .tools, .tabs, form, button, footer')]"
        assert seen.see(f"{hidden}.every(one => !one.offsetHeight)"), path
        folded = "document.querySelectorAll('main details:not([open], .menu, .filters)').length"
        assert seen.see(folded) == 0, path
        breaks = "[...document.querySelectorAll('section')].map(one => getComputedStyle(one).breakInside)"
        assert set(seen.see(breaks)) == {"auto"}, path
        assert seen.page.pdf(format="A4").startswith(b"%PDF")
        seen.see("dispatchEvent(new Event('afterprint'))")


@pytest.fixture
def living(project: Path, tmp_path: Path) -> Path:
    """A project of its own, in which a run can be started."""
    for name in ("sums.py", "live.py", "peira.toml"):
        shutil.copy(project / name, tmp_path / name)
    return tmp_path


def begin(folder: Path, *options: str, study: str = "live.py") -> tuple[int, str]:
    """A run that goes on for a while: its process and its id."""
    words = [
        sys.executable,
        "-P",
        "-m",
        "peira.cli",
        "run",
        study,
        "-p",
        "4",
        "--detach",
        "--json",
        *options,
    ]
    said = subprocess.run(words, cwd=folder, capture_output=True, text=True)
    assert said.returncode == 0, said.stderr
    return json.loads(said.stdout)["pid"], json.loads(said.stdout)["run"]


@pytest.mark.timeout(300)
def test_a_living_run_is_followed_through_a_restart_of_the_server(tab: Open, living: Path) -> None:
    _, run = begin(living)
    done = "Number(document.querySelector('#run progress').value)"
    with serving(living, "--store", "s.db", PEIRA_TOKEN=TOKEN) as first:
        seen = tab(of=first)
        seen.go(f"/runs/{run}")
        before = seen.see(done)
        seen.until(f"{done} > {before}")
        seen.until("document.body.textContent.includes('no luck')")
        first.process.send_signal(signal.SIGKILL)
        first.process.wait()
        seen.page.wait_for_selector("#lost:not([hidden])", timeout=30_000)
    with serving(living, "--store", "s.db", "--listen", first.host, PEIRA_TOKEN=TOKEN) as second:
        lost = seen.see(done)
        seen.until(f"{done} > {lost}")
        seen.page.wait_for_selector("#lost", state="hidden", timeout=30_000)
        seen.page.on("dialog", lambda dialog: dialog.accept())
        seen.page.click("text=Cancel")
        seen.page.wait_for_selector("#said:not([hidden])", timeout=120_000)
        assert "is cancelled" in seen.page.inner_text("#said")
        assert second.api(f"/runs/{run}")["run"]["status"] == "cancelled"
        [taken] = second.api(f"/runs/{run}/events?kinds=run.command")["events"]
        assert taken["command"] == "cancel"
        assert taken["by"]


@pytest.mark.timeout(300)
def test_a_study_is_planned_and_started_from_the_page(tab: Open, living: Path) -> None:
    with serving(living, "--store", "s.db") as started:
        seen = tab(of=started)
        assert "There are no runs in this store yet" in seen.page.inner_text("main")
        seen.go("/plan")
        seen.page.select_option("select[name=study]", "sums.py")
        seen.page.click("text=See its plan")
        seen.page.wait_for_selector("#preview:not([hidden])", timeout=120_000)
        assert "48 trials" in seen.page.inner_text("#plan-plan")
        seen.page.fill("input[name=name]", "from-the-page")
        seen.page.click("button.strong")
        seen.page.wait_for_url(re.compile("/runs/[0-9a-f]{64}"), timeout=120_000)
        seen.page.wait_for_selector("text=completed with failures", timeout=120_000)
        [run] = started.api("/runs")["runs"]
        assert run["name"] == "from-the-page"
        seen.page.reload()
        seen.page.click("text=Retry failed")
        seen.until(f"!location.pathname.includes('{run['id'][:16]}')")
        deadline = time.monotonic() + 60
        while len(started.api("/runs")["runs"]) < 2 and time.monotonic() < deadline:
            time.sleep(0.2)
        assert len(started.api("/runs")["runs"]) == 2
        assert seen.said == []
