"""Streams on pages: what they show of a living host, and what can be done about it."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from .conftest import Server, Tab, serving
from .test_actions import post, until

STREAMS = """
import time
from peira import ask_person, stream

@stream(session="input.customer", isolation="synchronized", parallel=2)
def support(case):
    time.sleep(0.05)
    if "ask" in case.input["text"]:
        ask_person("Send it?", options=["yes", "no"])
    if "break" in case.input["text"]:
        raise RuntimeError("<script>window.pwned=1</script> does not answer")
    return {"reply": "<img src=x onerror=window.pwned=2>", "to": case.input["customer"]}
"""


@pytest.fixture
def hosted(tmp_path: Path) -> Iterator[Server]:
    """A web server beside a host that serves a stream."""
    (tmp_path / "support.py").write_text(STREAMS)
    host = subprocess.Popen(
        [sys.executable, "-P", "-m", "peira.cli", "serve", "support.py", "--store", "s.db"],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert host.stdout is not None
        assert "support" in host.stdout.readline()
        with serving(tmp_path, "--store", "s.db") as server:
            yield server
    finally:
        host.terminate()
        host.communicate(timeout=30)


@pytest.mark.timeout(300)
def test_a_stream_is_seen_and_steered(hosted: Server, tab: Callable[..., Tab]) -> None:
    def jobs(**states: int) -> bool:
        return bool(hosted.api("/streams/support")["states"] == states)

    def standing() -> str:
        return str(hosted.ask("/streams/support.json").json["state"]["standing"])

    assert standing() == "served"
    made = post(hosted, "/streams/support/jobs", 202, input={"customer": "ann", "text": "hi"}, key="t-1")
    again = post(hosted, "/streams/support/jobs", 202, input={"customer": "ann", "text": "hi"}, key="t-1")
    assert again["job"] == made["job"]
    post(hosted, "/streams/support/jobs", 202, input={"customer": "bo", "text": "ask"}, key="t-2")
    post(hosted, "/streams/support/jobs", 202, input={"customer": "cy", "text": "break"}, key="t-3")
    until(lambda: jobs(succeeded=1, waiting=1, failed=1))

    seen = tab(of=hosted)
    seen.page.on("dialog", lambda dialog: dialog.accept())
    seen.go("/streams")
    seen.page.click("text=support")
    seen.page.wait_for_url(re.compile("/streams/support$"))
    seen.page.click("text=Pause")
    until(lambda: standing() == "paused")
    seen.page.wait_for_selector("text=Resume")
    seen.page.fill("textarea[name=text]", '{"customer": "di", "text": "later"}')
    seen.page.fill("input[name=key]", "t-4")
    seen.page.click("button.strong:has-text('Submit')")
    seen.until("document.querySelector('#stream').innerText.includes('t-4')")
    assert hosted.api("/streams/support/jobs/t-4")["state"] == "queued"
    rows = seen.page.inner_text("[aria-label='Jobs of this stream']")
    assert all(text in rows for text in ("later", "break", "ask"))  # what the jobs are about, queued or not
    assert seen.serious() == []
    seen.page.click("text=Resume")
    until(lambda: hosted.api("/streams/support/jobs/t-4")["state"] == "succeeded")

    seen.go("/streams/support/jobs/t-2")
    seen.page.click("text=Cancel this job")
    until(lambda: jobs(succeeded=2, cancelled=1, failed=1))
    seen.go("/streams/support/jobs/t-3")
    assert "does not answer" in seen.page.inner_text("main")
    seen.go("/streams/support/jobs/t-1")
    seen.page.wait_for_timeout(200)
    assert seen.see("window.pwned") is None
    assert "onerror" in seen.page.inner_text("main")
    assert seen.serious() == []
    assert len(hosted.api("/streams/support/jobs?state=succeeded&limit=1")["jobs"]) == 1
    assert hosted.ask("/api/v1/streams/suport").status == 404
    assert hosted.ask("/streams/support.json?state=gone").status == 400
    assert seen.said == []

    seen.go("/streams/support")
    seen.page.click("text=Drain")
    until(lambda: standing() == "not served")
    post(hosted, "/streams/support/jobs", 202, input={"customer": "ed", "text": "for tomorrow"}, key="t-5")
    assert hosted.api("/streams/support/jobs/t-5")["state"] == "queued"
