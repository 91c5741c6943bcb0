"""Streams over HTTP: jobs are submitted, waited for, cancelled; webhooks are signed, fresh, and fire once."""

from __future__ import annotations

import http.client
import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from peira.web.rest.streams import FRESH, MOST_HOOK, signature
from tests.web.conftest import Answer, Server, serving

SECRET = "a-secret-of-this-test"
STREAMS = """
import time
from peira import ask, current_trial, stream, webhook

@stream(factors={"style": ["plain", "loud"]}, assign="random")
def saying(case, style):
    return ask("scripted:echo", f"{style} {case.input}", max_tokens=20)

@stream(triggers=[webhook(secret="HOOK_SECRET"), webhook(secret="NOT_SET", name="other")], parallel=2)
def echo(case):
    if isinstance(case.input, dict) and "sleep" in case.input:
        time.sleep(case.input["sleep"])
    current_trial().decide("answer?", options=["yes", "no"], chosen="yes", why="it is asked")
    return case.input
"""


@pytest.fixture(scope="module")
def hosted(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    folder = tmp_path_factory.mktemp("hosted")
    (folder / "streams.py").write_text(STREAMS)
    options = ("streams.py", "--store", "live.db", "--listen", "127.0.0.1:0")
    with serving(folder, *options, HOOK_SECRET=SECRET) as server:
        yield server


def post(server: Server, path: str, body: Any = None) -> Answer:
    return server.ask(f"/api/v1{path}", "POST", json.dumps(body or {}).encode())


def hook(server: Server, body: bytes, at: str = "", said: str | None = None, **headers: str) -> Answer:
    at = at or str(int(time.time()))
    said = signature(SECRET, at, body) if said is None else said
    given = {"X_Peira_Time": at, "X_Peira_Signature": said, "Authorization": "", **headers}
    return server.ask("/hooks/echo/webhook", "POST", body, **given)


def test_a_job_is_submitted_waited_for_and_listed(hosted: Server) -> None:
    made = post(hosted, "/streams/echo/jobs", {"input": {"n": 1}, "key": "a", "group": "g"})
    assert made.status == 202
    job = made.json["job"]
    found = hosted.api(f"/streams/echo/jobs/{job}?wait=20")
    assert (found["state"], found["output"], found["key"]) == ("succeeded", {"n": 1}, "a")
    assert post(hosted, "/streams/echo/jobs", {"input": 2, "key": "a"}).json == {
        "job": job,
        "state": "succeeded",
    }
    assert [one["job"] for one in hosted.api("/streams/echo/jobs")["jobs"] if one["key"] == "a"] == [job]
    assert hosted.api("/streams")["streams"][0]["stream"] == "echo"
    assert hosted.api("/streams/echo")["parallel"] == 2
    decided = [one for one in hosted.api("/streams/echo/decisions") if one["job"] == job]
    assert [(one["what"], one["chosen"], one["why"]) for one in decided] == [
        ("answer?", "yes", "it is asked")
    ]
    events = hosted.api(f"/streams/echo/events?job={job}&level=jobs")["events"]
    assert [event["kind"] for event in events] == ["tasks.queued", "tasks.claimed", "task.finished"]
    rest = hosted.api(f"/streams/echo/events?job={job}&level=jobs&after={events[0]['cursor']}")["events"]
    assert rest == events[1:]


def test_a_job_is_cancelled_and_a_stream_paused(hosted: Server) -> None:
    assert post(hosted, "/streams/echo/pause").json["done"] == "pause"
    job = post(hosted, "/streams/echo/jobs", {"input": 5, "key": "held"}).json["job"]
    assert hosted.api(f"/streams/echo/jobs/{job}")["state"] == "queued"
    assert post(hosted, f"/streams/echo/jobs/{job}/cancel").json["state"] == "cancelled"
    assert post(hosted, "/streams/echo/resume").json["done"] == "resume"
    after = post(hosted, "/streams/echo/jobs", {"input": 6}).json["job"]
    assert hosted.api(f"/streams/echo/jobs/{after}?wait=20")["output"] == 6


def test_what_is_wrong_is_said(hosted: Server) -> None:
    assert post(hosted, "/streams/ecko/jobs").status == 404
    assert hosted.ask("/api/v1/streams/echo/jobs/nothing").status == 404
    refused = post(hosted, "/streams/echo/jobs", {"input": 1, "key": "", "priority": 9999})
    assert (refused.status, len(refused.json["problems"])) == (400, 2)
    assert hosted.ask("/api/v1/streams/echo/jobs", "POST", b"{}", Authorization="").status == 401
    before = hosted.api("/streams/echo/jobs")["jobs"]
    for body in ({"inptu": 1}, {"input": 1, "keys": "k"}):
        refused = post(hosted, "/streams/echo/jobs", body)
        assert (refused.status, "unknown field" in refused.text) == (400, True)
    assert hosted.api("/streams/echo/jobs")["jobs"] == before


def test_live_text_is_followed_as_server_sent_events(hosted: Server) -> None:
    job = post(hosted, "/streams/saying/jobs", {"input": "one two"}).json["job"]
    hosted.api(f"/streams/saying/jobs/{job}?wait=20")
    pieces = hosted.api(f"/streams/saying/live?job={job}")["pieces"]
    assert "".join(piece["text"] for piece in pieces).split()[1:] == ["one", "two"]
    assert {piece["task"] for piece in pieces} == {job}
    connection = http.client.HTTPConnection(hosted.host, timeout=30)
    headers = {"Authorization": f"Bearer {hosted.token}", "Accept": "text/event-stream"}
    connection.request("GET", f"/api/v1/streams/saying/live?after={pieces[0]['n']}", headers=headers)
    found = connection.getresponse()
    assert found.getheader("Content-Type") == "text/event-stream"
    assert found.readline() == f"id: {pieces[1]['n']}\n".encode()
    assert json.loads(found.readline().removeprefix(b"data: ")) == pieces[1]
    connection.close()
    assert hosted.ask("/api/v1/streams/nothing/live").status == 404


def test_an_experiment_is_ended_by_hand(hosted: Server) -> None:
    assert post(hosted, "/streams/saying/decide", {"arm": "quiet"}).status == 400
    assert post(hosted, "/streams/echo/decide", {"arm": "plain"}).status == 400
    assert post(hosted, "/streams/saying/decide", {"arm": "loud", "why": "it is"}).json["done"] == "decide"
    experiment = hosted.api("/streams/saying")["experiment"]
    assert (experiment["winner"], experiment["shares"]) == ("loud", {"plain": 0.0, "loud": 1.0})
    [decided] = hosted.api("/streams/saying/events?kinds=run.decided")["events"]
    assert "(web): it is" in decided["look"]["answer"]


def test_a_signed_request_is_one_job_however_often_it_is_delivered(hosted: Server) -> None:
    first = hook(hosted, b'{"order": 1}', X_Peira_Delivery="d-1")
    assert first.status == 202
    again = hook(hosted, b'{"order": 1}', str(int(time.time()) + 1), X_Peira_Delivery="d-1")
    assert (again.status, again.json["job"]) == (202, first.json["job"])
    now = str(int(time.time()))
    unnamed = [hook(hosted, b'{"order": 2}', now).json["job"] for _ in range(2)]
    assert unnamed[0] == unnamed[1] != first.json["job"]
    found = hosted.api(f"/streams/echo/jobs/{first.json['job']}?wait=20")
    assert (found["output"], found["trigger"]) == ({"order": 1}, "webhook")


def test_a_request_that_is_not_signed_well_and_lately_is_refused(hosted: Server) -> None:
    before = len(hosted.api("/streams/echo/jobs?limit=1000")["jobs"])
    now = int(time.time())
    body = b'{"order": 3}'
    assert hook(hosted, body, said="").status == 401
    assert hook(hosted, body, said="0" * 64).status == 401
    assert hook(hosted, body, said=signature("another", str(now), body), at=str(now)).status == 401
    assert hook(hosted, b'{"order": 4}', said=signature(SECRET, str(now), body), at=str(now)).status == 401
    for late in (now - int(FRESH) - 60, now + int(FRESH) + 60):
        assert hook(hosted, body, at=str(late)).status == 401
    assert hook(hosted, body, at="soon").status == 401
    assert hook(hosted, b"not json").status == 400
    assert hook(hosted, b'"' + b"x" * MOST_HOOK + b'"').status == 413
    assert hosted.ask("/hooks/echo/nothing", "POST", body, Authorization="").status == 404
    assert hosted.ask("/hooks/echo/other", "POST", body, Authorization="").status == 401
    assert hosted.ask("/hooks/echo/webhook", "POST", body, Host="evil.example").status == 403
    assert len(hosted.api("/streams/echo/jobs?limit=1000")["jobs"]) == before


def test_a_server_that_only_shows_takes_no_webhooks(hosted: Server, tmp_path: Path) -> None:
    store = Path(hosted.errors).parent / "live.db"
    with serving(tmp_path, "--store", str(store), "--read-only", HOOK_SECRET=SECRET) as showing:
        assert hook(showing, b"1").status == 403
        assert showing.api("/streams/echo")["stream"] == "echo"
