"""`make shots`: screenshots of every web page, at two widths and in both colour schemes, to look at.

They are written to build/shots, of a small run that the program makes for them, beside one that goes on.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from playwright.sync_api import sync_playwright

from peira.report.writers.pdf import browser

ROOT = Path(__file__).resolve().parents[1]
VIEWS = [(1280, "light"), (1280, "dark"), (390, "light"), (390, "dark")]
PEIRA = [sys.executable, "-P", "-m", "peira.cli"]
LIVE = """
import time
from peira import exact, study

@study(title="A run that goes on", cases=[(f"q{n}", "a") for n in range(3000)],
       factors={"model": ["small", "large"]}, evaluators=[exact()])
def living(case, model):
    time.sleep(0.05)
    if case.input.endswith("77"):
        raise TimeoutError("the tool did not answer")
    return "a" if model == "large" or int(case.input[1:]) % 2 else "b"
"""


def main(folder: Path) -> int:
    """Take every picture; returns the exit code."""
    program = browser()
    if program is None:
        print("there is no chromium to take pictures with", file=sys.stderr)
        return 1
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="peira-shots-") as place:
        (Path(place) / "living.py").write_text(LIVE)
        subprocess.run([*PEIRA, "demo", "--store", "demo.db"], cwd=place, check=False, capture_output=True)
        begun = subprocess.run(
            [*PEIRA, "run", "living.py", "--store", "demo.db", "-p", "8", "--detach", "--json"],
            cwd=place,
            check=True,
            capture_output=True,
            text=True,
        )
        server = subprocess.Popen(
            [*PEIRA, "serve", "--store", "demo.db", "--json"], cwd=place, stdout=subprocess.PIPE, text=True
        )
        try:
            _take(folder, _said(server), json.loads(begun.stdout)["run"], shutil.which(program) or program)
        finally:
            server.terminate()
            server.wait()
            subprocess.run([*PEIRA, "cancel", "--store", "demo.db"], cwd=place, capture_output=True)
    return 0


def _said(server: subprocess.Popen[str]) -> dict[str, str]:
    """What the server says of where it is."""
    assert server.stdout is not None
    text = ""
    while not text.endswith("}\n"):
        text += server.stdout.readline()
    found: dict[str, str] = json.loads(text)
    return found


def _take(folder: Path, at: dict[str, str], living: str, program: str) -> None:
    with sync_playwright() as started:
        chromium = started.chromium.launch(executable_path=program, args=["--no-sandbox"])
        for width, scheme in VIEWS:
            context = chromium.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme)
            page = context.new_page()
            page.goto(at["url"])
            runs = page.evaluate("fetch('/api/v1/runs').then(answer => answer.json())")["runs"]
            run = next(one["id"] for one in runs if one["id"] != living)
            trials = page.evaluate(f"fetch('/api/v1/runs/{run}/trials?limit=1').then(one => one.json())")
            trial = trials["trials"][0]["id"]
            pages = {
                "runs": "/runs",
                "live": f"/runs/{living}",
                "run": f"/runs/{run}",
                "conditions": f"/runs/{run}/conditions",
                "trials": f"/runs/{run}/trials?limit=12",
                "trial": f"/runs/{run}/trials/{trial}",
                "compare": f"/compare?run={run}&limit=8",
                "calls": f"/calls?run={run}&limit=20",
                "plan": "/plan",
                "inbox": "/inbox",
                "events": f"/runs/{run}/events?limit=20",
                "report": f"/runs/{run}/report",
            }
            for name, path in pages.items():
                page.goto(at["address"] + path)
                page.wait_for_timeout(1500 if name in ("live", "run", "compare") else 500)
                page.screenshot(path=folder / f"{name}-{width}-{scheme}.png", full_page=name != "report")
            context.close()
        chromium.close()


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "build" / "shots"))
