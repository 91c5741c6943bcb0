"""The time and the size of web pages of a large store: `python benchmarks/web.py [--trials N] [--store S]`.

The store is made once, and kept if it is named. Every page is asked several times, after one that fills what
the server keeps in memory; the slowest of them counts.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from urllib.request import Request, urlopen

PEIRA = [sys.executable, "-P", "-m", "peira.cli"]
STUDY = """
from peira import Case, exact, study

@study(cases=[Case(f"q{{n}}", expected="a", id=f"case-{{n:04}}", slice=f"s{{n % 5}}") for n in range(1000)],
       factors={{"model": ["a", "b"], "style": ["x", "y", "z", "u", "v"]}}, repeats={repeats},
       evaluators=[exact()])
def large(case, model, style):
    if case.input == "q77" and model == "b":
        raise ValueError("no luck")
    return "a" if (len(style) + int(case.input[1:])) % 3 else "b"
"""
ROUNDS = 3
MOST_SECONDS, MOST_BYTES = 0.3, 200_000
"""What a page may take at a million trials."""
MOST_REPORT_BYTES = 500_000
"""What a report may take: one file with all its plots, each in two widths, and up to 200 trials in full."""


def main() -> int:
    parser = argparse.ArgumentParser(description="Measure web pages of a large store.")
    parser.add_argument("--trials", type=int, default=100_000, help="of the run, in steps of 10,000")
    parser.add_argument("--store", type=Path, help="a store to keep, or one that is there")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="peira-web-") as scratch:
        store = (given.store or Path(scratch) / "large.db").absolute()
        if not store.exists():
            study = store.with_name("large.py")
            study.write_text(STUDY.format(repeats=max(1, given.trials // 10_000)))
            began = time.perf_counter()
            subprocess.run([*PEIRA, "run", str(study), "--store", str(store), "--quiet"], capture_output=True)
            print(f"the store was made in {time.perf_counter() - began:.0f} s")
        return _measure(store)


def _measure(store: Path) -> int:
    server = subprocess.Popen(
        [*PEIRA, "serve", "--store", str(store), "--read-only", "--json"], stdout=subprocess.PIPE, text=True
    )
    assert server.stdout is not None
    text = ""
    while not text.endswith("}\n"):
        text += server.stdout.readline()
    at = json.loads(text)

    def get(path: str) -> tuple[float, bytes]:
        headers = {"Authorization": f"Bearer {at['token']}", "Accept": "text/html"}
        began = time.perf_counter()
        body = urlopen(Request(at["address"] + path, headers=headers)).read()
        return time.perf_counter() - began, body

    try:
        run = json.loads(get("/api/v1/runs")[1])["runs"][0]
        id, last = run["id"], run["trials"] - 1
        first = json.loads(get(f"/api/v1/runs/{id}/trials?limit=1&after={last - 1}")[1])["trials"][0]
        pages = {
            "runs": "/runs",
            "run": f"/runs/{id}",
            "conditions": f"/runs/{id}/conditions",
            "trials": f"/runs/{id}/trials",
            "trials, the last": f"/runs/{id}/trials?after={last - 50}",
            "trials, a condition": f"/runs/{id}/trials?condition=model%3Db&condition=style%3Dv",
            "trials, a case": f"/runs/{id}/trials?case=case-0977",
            "trials, failed": f"/runs/{id}/trials?state=failed",
            "trials, words": f"/runs/{id}/trials?text=nowhere",
            "trial": f"/runs/{id}/trials/{first['id']}?number={first['number']}",
            "events": f"/runs/{id}/events?after=500000",
            "compare": f"/compare?run={id}",
            "calls": "/calls",
            "inbox": "/inbox",
            "plan": "/plan",
            "streams": "/streams",
            "work": "/work",
            "report": f"/runs/{id}/report",
        }
        print(f"{run['trials']:,} trials, {store.stat().st_size / 1e6:,.0f} MB")
        slow = 0
        for name, path in pages.items():
            opening = get(path)[0]
            took, body = max((get(path) for _ in range(ROUNDS)), key=lambda found: found[0])
            most = MOST_REPORT_BYTES if name == "report" else MOST_BYTES
            within = took <= MOST_SECONDS and len(body) <= most
            slow += not within
            said = "" if within else "  above the limit"
            times = f"{1000 * opening:>8.0f} ms first {1000 * took:>6.0f} ms"
            print(f"{name:<22}{times} {len(body):>9,} bytes{said}")
        return int(slow > 0)
    finally:
        server.terminate()
        server.wait()


if __name__ == "__main__":
    sys.exit(main())
