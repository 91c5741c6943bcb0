"""Deleting runs, and copies of a store: what its streams rest on is in it afterwards, too."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from peira import open, run, serve, session, stream
from peira.app.store.retention import delete
from peira.cli import main

pytestmark = pytest.mark.timeout(120)
LONG = "a conversation so far, which is no short text " * 100
STUDY = """
from peira import exact, study

@study(cases=[("a", "a")], evaluators=[exact()])
def other(case):
    return case.input
"""


def remember(case: Any) -> Any:
    said = LONG + case.input["text"]
    return session().update(lambda before: {"n": before.get("n", 0) + 1, "said": said})["n"]


def hosted(store: Any) -> Any:
    return serve(stream(remember, session="input.who", isolation="shared"), store=store)


@pytest.fixture(params=["file", "postgres"])
def where(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """A store with a stream that has done a job, and has another in its queue."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    Path("other.py").write_text(STUDY)
    made = "live.db" if request.param == "file" else request.getfixturevalue("postgres_url")
    with hosted(made) as host:
        assert host.submit("remember", {"who": 1, "text": "first"}, key="first").result(30) == 1
        open(made).stream("remember").pause()
        host.submit("remember", {"who": 1, "text": "second"}, key="second")
    return made


def goes_on(store: str) -> None:
    """The stream is known, its job has its input, and the session what was written."""
    assert main(["verify", "--store", store]) == 0
    view = open(store).stream("remember")
    assert {job["key"]: job["state"] for job in view.jobs()} == {"first": "succeeded", "second": "queued"}
    with hosted(store) as host:
        open(store).stream("remember").resume()
        assert host.submit("remember", {"who": 1, "text": "second"}, key="second").result(30) == 2


def test_a_stream_goes_on_after_other_runs_were_deleted(where: str) -> None:
    other = run("other.py", store=where, progress=False).run_id
    delete([other], where)
    goes_on(where)


def test_a_copy_of_the_store_has_its_streams(where: str) -> None:
    goes_on(str(open(where).backup("copy.db")))
