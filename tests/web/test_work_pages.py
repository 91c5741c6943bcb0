"""Work plans on pages: the graph, the ends of logs while units run, cancelling and retrying units."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from peira.web.unit_graph import GraphUnit, unit_graph

from .conftest import Tab, serving
from .test_actions import post, until

PLAN = """
base = "base"
parallel = 2
[units.first]
run = ["sh", "-c", "echo '<script>window.pwned=1</script>'; echo done > made/a.txt"]
may_write = ["made"]
[units.slow]
needs = ["first"]
run = ["sh", "-c", "while :; do echo still here; sleep 0.2; done"]
[units.broken]
needs = ["first"]
run = ["sh", "-c", "test -e {flag} || exit 3"]
confine = false
[units.last]
needs = ["broken"]
run = ["true"]
"""


def test_units_stand_below_what_they_need() -> None:
    units = [
        GraphUnit("a", "succeeded", ()),
        GraphUnit("b<script>", "failed", ("a",)),
        GraphUnit("c", "running", ("a",)),
        GraphUnit("d", "blocked", ("b<script>", "c")),
    ]
    drawn = unit_graph(units, "/work/1/units/")
    assert drawn.count('class="edge"') == 4
    assert "<script" not in drawn
    assert "✗ failed" in drawn
    assert 'href="/work/1/units/b%3Cscript%3E"' in drawn
    assert unit_graph([GraphUnit(str(n), "waiting", ()) for n in range(500)]) == ""
    assert unit_graph([]) == ""


@pytest.mark.timeout(300)
def test_a_work_plan_is_seen_and_steered(tmp_path: Path, tab: Callable[..., Tab]) -> None:
    (tmp_path / "base").mkdir()
    (tmp_path / "plan.toml").write_text(PLAN.replace("{flag}", str(tmp_path / "flag")))
    words = [sys.executable, "-P", "-m", "peira.cli", "work", "plan.toml", "--store", "s.db", "--quiet"]
    running = subprocess.Popen(words, cwd=tmp_path, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        with serving(tmp_path, "--store", "s.db") as server:
            until(lambda: server.api("/work")["runs"])
            run = server.api("/work")["runs"][0]["run"]

            def state(name: str, of: str = run) -> str:
                return str(server.api(f"/work/{of}")["units"][name]["state"])

            until(
                lambda: (state("first"), state("slow"), state("broken")) == ("succeeded", "running", "failed")
            )
            assert state("last") == "blocked"
            seen = tab(of=server)
            seen.page.on("dialog", lambda dialog: dialog.accept())
            seen.go(f"/work/{run}")
            seen.until("document.querySelector('[aria-label=slow] .tail')?.innerText.includes('still here')")
            assert seen.page.locator(".graph .unit").count() == 4
            assert seen.serious() == []
            assert seen.see("window.pwned") is None
            seen.page.locator("[aria-label=slow] button").click()
            until(lambda: state("slow") == "cancelled")
            assert running.wait(60) == 1
            (tmp_path / "flag").touch()
            post(server, f"/work/{run}/retry", 400, units=" ")
            post(server, f"/work/{run}/retry", 400, units="first")
            seen.go(f"/work/{run}")
            seen.page.locator("[aria-label=broken] button").click()
            until(lambda: server.api("/work")["runs"][0]["run"] != run)
            again = server.api("/work")["runs"][0]["run"]
            until(lambda: state("last", again) == "succeeded")
            seen.go(f"/work/{run}/units/first")
            assert "<script>" in seen.page.inner_text("main")
            assert "made/a.txt" in seen.page.inner_text("aside")
            seen.go("/runs")
            assert seen.page.locator(f'a[href="/work/{run[:16]}"]').count() == 1
            assert server.ask(f"/work/{run}/units/none").status == 404
            assert seen.said == []
    finally:
        running.kill()
        running.wait()
