"""`make shots`: screenshots of every web page, at two widths and in both colour schemes, to look at.

They are written to build/shots, of the project in docs/gallery, whose runs are made for them: one that goes
on, one that waits for people, one with tools, a work plan, and streams.
"""

from __future__ import annotations

import json
import random
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from playwright.sync_api import sync_playwright

from peira import open as open_store
from peira.report.writers.pdf import browser

ROOT = Path(__file__).resolve().parents[1]
VIEWS = [(1280, "light"), (1280, "dark"), (390, "light"), (390, "dark")]
PEIRA = [sys.executable, "-P", "-m", "peira.cli"]
MESSAGES = ["Where is my lamp?", "Send it now!", "It is broken.", "My lawyer will call you.", "Thank you."]
SLOW = {"live", "run", "compare", "inbox", "runs", "experiment", "goals"}
"""Pages parts of which come later."""


def main(folder: Path) -> int:
    """Take every picture; returns the exit code."""
    program = browser()
    if program is None:
        print("there is no chromium to take pictures with", file=sys.stderr)
        return 1
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="peira-shots-") as made, ExitStack() as open_parts:
        place = Path(made) / "gallery"
        shutil.copytree(ROOT / "docs" / "gallery", place)
        for study in ("shop.py", "letters.py"):
            _peira(place, "run", study, "--quiet")
        _peira(place, "work", "build.toml", "--quiet")
        open_parts.enter_context(_process(place, "serve", "support.py", "--store", "live.db"))
        for number, text in enumerate(MESSAGES):
            given = json.dumps({"customer": f"customer {number % 3}", "text": text})
            _peira(place, "stream", "submit", "support", "--input", given, "--store", "live.db")
        _write_letters(place / "live.db")
        _peira(place, "run", "deciding.py", "-p", "8", "--detach", "--json")
        open_parts.callback(_peira, place, "cancel")
        started = open_parts.enter_context(sync_playwright())
        chromium = started.chromium.launch(
            executable_path=shutil.which(program) or program, args=["--no-sandbox"]
        )
        for store, pages in (("gallery.db", gallery_pages), ("live.db", stream_pages)):
            with _process(place, "serve", "--store", store, "--json") as server:
                _take(chromium, folder, _said(server), pages)
        chromium.close()
    return 0


def _peira(place: Path, *words: str) -> None:
    subprocess.run([*PEIRA, *words], cwd=place, check=False, capture_output=True)


def _write_letters(store: Path) -> None:
    """Send newsletters, and report which of them were opened."""
    opens = {"News": 0.3, "Is": 0.85, "Ten": 0.35}
    chance, letters = random.Random(4), open_store(store).stream("newsletter")
    for begin in range(0, 400, 40):
        readers = range(begin, begin + 40)
        jobs = letters.submit_many([{"input": f"reader {n}", "key": f"letter-{n}"} for n in readers])
        for job in jobs:
            first = str(job.result(timeout=60)).partition(": ")[2].split()[0]
            if chance.random() < 0.9:
                job.outcome("opened", chance.random() < opens[first])


@contextmanager
def _process(place: Path, *words: str) -> Iterator[subprocess.Popen[str]]:
    """A command that goes on until the end of the block."""
    process = subprocess.Popen([*PEIRA, *words], cwd=place, stdout=subprocess.PIPE, text=True)
    try:
        yield process
    finally:
        process.terminate()
        process.communicate()


def _said(server: subprocess.Popen[str]) -> dict[str, str]:
    """What the server says of where it is."""
    assert server.stdout is not None
    text = ""
    while not text.endswith("}\n"):
        text += server.stdout.readline()
    found: dict[str, str] = json.loads(text)
    return found


def gallery_pages(get: Any) -> dict[str, str]:
    """The pages of studies, by the names of their pictures."""
    runs: dict[str, str] = {}
    for one in get("/runs")["runs"]:
        runs.setdefault(one["study"], one["id"])
    live, shop, build = runs["deciding"], runs["shop"], get("/work")["runs"][0]["run"]
    trial = get(f"/runs/{shop}/trials?limit=1")["trials"][0]["id"]
    call = get("/calls?limit=1")["calls"][0]["key"]
    pair = next(one["key"] for one in get("/inbox")["questions"] if one["evaluator"] == "kinder")
    return {
        "runs": "/runs",
        "live": f"/runs/{live}",
        "run": f"/runs/{shop}",
        "conditions": f"/runs/{live}/conditions",
        "trials": f"/runs/{live}/trials?limit=12",
        "trial": f"/runs/{shop}/trials/{trial}",
        "compare": f"/compare?run={live}&limit=8",
        "calls": f"/calls?run={live}&limit=20",
        "call": f"/calls/{call}",
        "plan": "/plan",
        "inbox": "/inbox",
        "pair": f"/inbox?key={pair}",
        "events": f"/runs/{shop}/events?limit=20",
        "report": f"/runs/{shop}/report",
        "works": "/work",
        "work": f"/work/{build}",
        "unit": f"/work/{build}/units/api",
        "error": "/nothing",
    }


def stream_pages(get: Any) -> dict[str, str]:
    """The pages of streams, by the names of their pictures."""
    job = get("/streams/support/jobs")["jobs"][0]["job"]
    return {
        "streams": "/streams",
        "stream": "/streams/support",
        "job": f"/streams/support/jobs/{job}",
        "experiment": "/streams/newsletter/experiment",
        "goals": "/streams/newsletter/goals",
        "decisions": "/streams/support/decisions",
    }


def _take(chromium: Any, folder: Path, at: dict[str, str], pages: Any) -> None:
    for width, scheme in VIEWS:
        context = chromium.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme)
        page = context.new_page()
        page.goto(at["url"])

        def get(path: str, page: Any = page) -> Any:
            return page.evaluate(f"fetch({json.dumps('/api/v1' + path)}).then(one => one.json())")

        for name, path in pages(get).items():
            page.goto(at["address"] + path)
            page.wait_for_timeout(2500 if name in SLOW else 500)
            page.screenshot(path=folder / f"{name}-{width}-{scheme}.png", full_page=name != "report")
        context.close()


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "build" / "shots"))
