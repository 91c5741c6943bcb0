"""Every way in which a send can end, against the endpoint process, and what it means for the bill."""

from __future__ import annotations

import asyncio
import socket
import traceback

import pytest

from peira.core.models import Answer, Request
from peira.core.text.secrets import hidden_in
from peira.errors import CallFailed
from peira.models import ServedModel, Timeouts, anthropic, openai
from peira.models.http import send as rooms
from peira.models.http.send import KEPT

CANARY = "canary-7f3a91c2-key-0b5d"  # as the fixture `endpoint` sets it
QUESTION = Request(messages=({"role": "user", "content": "Capital of France?"},))
SHORT = Timeouts(connect=2.0, first_byte=0.3, total=5.0)


def send(model: ServedModel, request: Request = QUESTION) -> Answer:
    async def whole() -> Answer:
        try:
            return await model.send(request)
        finally:
            await model.close()

    return asyncio.run(whole())


def failure(model: ServedModel, request: Request = QUESTION) -> CallFailed:
    with pytest.raises(CallFailed) as failed:
        send(model, request)
    return failed.value


def meaning(failed: CallFailed) -> str:
    assert not (failed.free and failed.doubt)
    return "free" if failed.free else "doubt" if failed.doubt else "permanent"


@pytest.mark.parametrize(
    ("status", "means"),
    [
        *((status, "permanent") for status in (307, 400, 401, 402, 403, 404, 405, 413, 422)),
        *((status, "free") for status in (409, 425, 429, 503, 529)),
        *((status, "doubt") for status in (408, 500, 502, 504)),
    ],
)
@pytest.mark.parametrize("stream", [False, True])
def test_what_a_status_means(endpoint, status: int, means: str, stream: bool) -> None:
    endpoint.always({"status": status, "message": "out of cheese", "headers": {"location": "/elsewhere"}})
    failed = failure(openai(endpoint.model, stream=stream))
    assert (meaning(failed), failed.status) == (means, status)
    assert str(failed).startswith(f"/v1/chat/completions: {status}")
    assert "out of cheese" in str(failed)
    assert endpoint.sends() == 1


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({"retry-after": "12"}, 12.0),
        ({"retry-after-ms": "250"}, 0.25),
        ({"x-ratelimit-remaining-tokens": "0", "x-ratelimit-reset-tokens": "1m30.5s"}, 90.5),
        ({}, None),
    ],
)
def test_the_wait_that_was_asked_for(endpoint, headers: dict[str, str], seconds: float | None) -> None:
    endpoint.always({"status": 429, "headers": headers})
    assert failure(openai(endpoint.model)).retry_after == seconds


def test_an_empty_account_is_permanent(endpoint) -> None:
    endpoint.always({"status": 429, "code": "insufficient_quota", "message": "check your plan"})
    assert meaning(failure(openai(endpoint.model))) == "permanent"


@pytest.mark.parametrize("what", ["reset", "cut"])
@pytest.mark.parametrize("stream", [False, True])
def test_a_connection_that_breaks_after_sending_is_in_doubt(endpoint, what: str, stream: bool) -> None:
    endpoint.always({"do": what})
    failed = failure(openai(endpoint.model, stream=stream))
    assert meaning(failed) == "doubt"
    assert "sent, but no answer" in str(failed)
    assert (endpoint.sends(), endpoint.bills()) == (1, 1)


def test_a_stale_connection_is_not_used_for_a_second_try(endpoint) -> None:
    """aiohttp would resend what is idempotent; a question is not."""
    endpoint.script({"text": "fine"}, {"do": "reset"})
    model = openai(endpoint.model)

    async def twice() -> None:
        try:
            await model.send(QUESTION)
            await model.send(QUESTION)
        finally:
            await model.close()

    with pytest.raises(CallFailed):
        asyncio.run(twice())
    assert endpoint.sends() == 2


def test_silence_is_in_doubt(endpoint) -> None:
    endpoint.always({"do": "hang"})
    failed = failure(openai(endpoint.model, timeouts=SHORT))
    assert meaning(failed) == "doubt"
    assert "nothing came for 0.3 s" in str(failed)


def test_an_answer_that_never_ends_is_in_doubt(endpoint) -> None:
    endpoint.always({"do": "trickle"})
    failed = failure(openai(endpoint.model, timeouts=Timeouts(first_byte=0.5, total=0.6)))
    assert meaning(failed) == "doubt"
    assert "not complete within 0.6 s" in str(failed)


@pytest.mark.parametrize("stream", [False, True])
def test_of_an_answer_that_is_too_large_the_beginning_is_kept(endpoint, stream: bool) -> None:
    """It was paid for: it is recorded, and permanent when it is read."""
    endpoint.always({"do": "huge"})
    model = openai(endpoint.model, stream=stream)
    answer = send(model)
    assert answer.cut
    assert answer.body.startswith(b'{"choices": [')
    assert len(answer.body) == KEPT
    with pytest.raises(CallFailed) as failed:
        model.read(answer)
    assert meaning(failed.value) == "permanent"
    assert "too large" in str(failed.value)


def test_a_refused_connection_is_free() -> None:
    with socket.socket() as taken:  # bound, and not listening
        taken.bind(("127.0.0.1", 0))
        failed = failure(openai("m", base_url=f"http://127.0.0.1:{taken.getsockname()[1]}/v1"))
    assert meaning(failed) == "free"
    assert str(failed).startswith("/v1/chat/completions: not sent: ")


def test_an_unknown_host_is_free() -> None:
    assert meaning(failure(openai("m", base_url="http://no-such-host.invalid/v1"))) == "free"


def test_a_failed_handshake_is_free(endpoint) -> None:
    base = endpoint.base.replace("http://", "https://")
    assert meaning(failure(openai(endpoint.model, base_url=f"{base}/v1"))) == "free"
    assert endpoint.sends() == 0


def test_a_connection_that_is_never_made_is_free() -> None:
    with socket.socket() as deaf:
        deaf.bind(("127.0.0.1", 0))
        deaf.listen(0)
        port = deaf.getsockname()[1]
        waiting = [socket.socket() for _ in range(4)]  # nobody accepts: the queue is full
        for one in waiting:
            one.setblocking(False)
            one.connect_ex(("127.0.0.1", port))
        failed = failure(openai("m", base_url=f"http://127.0.0.1:{port}/v1", timeouts=Timeouts(connect=0.3)))
        for one in waiting:
            one.close()
    assert meaning(failed) == "free"
    assert "no connection within 0.3 s" in str(failed)


@pytest.mark.parametrize(
    "turn",
    [
        {"raw": "{", "type": "application/json"},
        {"raw": "<html>Welcome to nginx</html>", "type": "text/html"},
        {"raw": '{"error": {"message": "no provider answered"}}'},
        {"raw": "{}"},
        {"raw": ""},
    ],
    ids=["malformed", "html", "error", "empty object", "empty"],
)
@pytest.mark.parametrize("stream", [False, True])
def test_a_senseless_answer_is_kept_and_permanent_when_read(endpoint, turn, stream: bool) -> None:
    endpoint.always(turn)
    model = openai(endpoint.model, stream=stream)
    answer = send(model)
    assert answer.body.decode() == turn["raw"]
    with pytest.raises(CallFailed) as failed:
        model.read(answer)
    assert meaning(failed.value) == "permanent"


@pytest.mark.parametrize("make", [openai, anthropic])
@pytest.mark.parametrize(
    "end",
    [{"events": 3}, {"events": 3, "error_event": {"type": "error", "error": {"message": "overloaded"}}}],
)
def test_a_stream_that_breaks_off_is_in_doubt(endpoint, make, end) -> None:
    endpoint.always({"text": "a long answer in many pieces", **end})
    failed = failure(make(endpoint.model, stream=True))
    assert meaning(failed) == "doubt"
    assert ("overloaded" in str(failed)) == ("error_event" in end)


@pytest.mark.parametrize("make", [openai, anthropic])
def test_the_time_to_the_first_token(endpoint, make) -> None:
    endpoint.always({"text": "Paris", "first": 0.1})
    model = make(endpoint.model, stream=True)
    answer = send(model)
    assert answer.first_token is not None
    assert 0.1 <= answer.first_token <= answer.latency
    assert model.read(answer).first_token == answer.first_token
    assert send(make(endpoint.model)).first_token is None


def test_only_headers_about_limits_and_ids_are_kept(endpoint) -> None:
    headers = {
        "x-request-id": "req_1",
        "x-ratelimit-remaining-requests": "9",
        "set-cookie": "a=b",
        "x-other": "1",
    }
    endpoint.always({"text": "Paris", "headers": headers})
    assert send(openai(endpoint.model)).headers == {
        "x-request-id": "req_1",
        "x-ratelimit-remaining-requests": "9",
    }


def everything_said(failed: BaseException) -> str:
    """The exception, all that hangs on it, and the values in the frames of its traceback."""
    said = [str(failed), repr(failed), repr(failed.__dict__), "".join(traceback.format_exception(failed))]
    frames = traceback.walk_tb(failed.__traceback__)
    said += [
        repr(value)
        for frame, _ in frames
        if "peira" in frame.f_code.co_filename
        for value in frame.f_locals.values()
    ]
    assert failed.__context__ is None
    assert failed.__cause__ is None
    return "\n".join(said)


@pytest.mark.parametrize(
    "turn", [{"status": 401, "echo": True}, {"status": 500, "echo": True}, {"do": "reset"}, {"do": "hang"}]
)
@pytest.mark.parametrize("make", [openai, anthropic])
def test_no_failure_knows_the_key(endpoint, make, turn, caplog: pytest.LogCaptureFixture) -> None:
    endpoint.always(turn)
    model = make(endpoint.model, timeouts=SHORT)
    failed = failure(model)
    assert CANARY not in everything_said(failed)
    assert CANARY not in repr(model) + repr(model.identity) + caplog.text
    assert len(str(failed)) <= 300
    assert "\n" not in str(failed)
    sent = endpoint.seen()[0]["headers"]
    assert CANARY in sent.get("authorization", "") + sent.get("x-api-key", "")


@pytest.mark.parametrize("turn", [{"status": 400, "echo": True}, {"do": "reset"}, {"text": "fine"}])
def test_no_failure_knows_what_a_base_url_holds(endpoint, turn, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_API_KEY")
    endpoint.always(turn)
    base = endpoint.base.replace("//", f"//user:{CANARY}@")
    model = openai(endpoint.model, base_url=f"{base}/v1?token={CANARY}&code=hush-hush-hush")
    assert CANARY not in repr(model) + repr(model.identity)
    if "text" not in turn:
        said = everything_said(failure(model))
        assert CANARY not in said
        assert "hush-hush" not in said
    else:
        send(model)
    [seen] = endpoint.seen()
    assert seen["path"] == f"/v1/chat/completions?token={CANARY}&code=hush-hush-hush"
    assert seen["headers"]["authorization"].startswith("Basic ")


def test_no_connection_failure_knows_the_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", CANARY)
    failed = failure(openai("m", base_url=f"http://user:{CANARY}@no-such-host.invalid/v1?key={CANARY}"))
    assert CANARY not in everything_said(failed)


def test_an_answer_that_echoes_the_key_is_kept_as_it_came_and_marked(endpoint) -> None:
    endpoint.always({"text": f"your key is {CANARY}", "headers": {"x-request-id": CANARY}})
    model = openai(endpoint.model)
    answer = send(model)
    assert model.read(answer).text == f"your key is {CANARY}"
    assert answer.headers == {}
    [(start, end)] = answer.exposed
    assert answer.body[start:end] == CANARY.encode()
    assert CANARY.encode() not in hidden_in(answer.body, answer.exposed)


@pytest.mark.parametrize("key", ["EMPTY", "none", "test", "x", "0", "sk-1234"])
def test_a_placeholder_for_a_key_is_no_secret(endpoint, monkeypatch: pytest.MonkeyPatch, key: str) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", key)
    endpoint.always({"text": f"{key} 0 x test none EMPTY"})
    model = openai(endpoint.model)
    answer = send(model)
    assert model.read(answer).text == f"{key} 0 x test none EMPTY"
    assert answer.exposed == ()
    endpoint.always({"status": 400, "message": "the text EMPTY is no test, none of x 0"})
    assert str(failure(model)).endswith("the text EMPTY is no test, none of x 0 (scripted)")


@pytest.mark.parametrize(
    "raw", ['{"error": "%s', '{"error": {"message": "{\\"key\\": \\"%s\\"}"}}', "<p>%s</p>"]
)
def test_a_key_in_escapes_is_recognised_in_a_failure(endpoint, monkeypatch, raw: str) -> None:
    key = "canary/7f3a91c2/key/0b5d"
    monkeypatch.setenv("OPENAI_API_KEY", key)
    plain = "".join(f"\\u{ord(letter):04x}" for letter in key)
    for form in (
        key,
        key.replace("/", "\\/"),
        key.replace("/", "\\\\/"),
        plain,
        plain.upper().replace("U", "u"),
    ):
        endpoint.script({"status": 400, "text_error": raw % form})
        said = str(failure(openai(endpoint.model)))
        assert "7f3a91c2" not in said.replace("\\", "")
        assert "hidden" in said


def test_two_hundred_at_once_on_one_pool(endpoint) -> None:
    endpoint.always({"text": "Paris", "delay": 0.05})
    one, other = openai(endpoint.model), anthropic(endpoint.model)

    async def together() -> tuple[list[Answer], int]:
        answers = await asyncio.gather(*(m.send(QUESTION) for m in (one, other) for _ in range(100)))
        pools = len(rooms._pools)
        await one.close()
        assert len(rooms._pools) == pools
        await other.close()
        assert len(rooms._pools) == pools - 1
        return answers, pools

    answers, pools = asyncio.run(together())
    assert pools == 1
    assert (
        {one.read(a).text for a in answers[:100]} == {other.read(a).text for a in answers[100:]} == {"Paris"}
    )
    assert (endpoint.sends(), endpoint.bills()) == (200, 200)


def test_answers_go_to_those_who_asked(endpoint) -> None:
    model = openai(endpoint.model)
    questions = [Request(messages=({"role": "user", "content": f"say {i}"},)) for i in range(50)]

    async def together() -> list[Answer]:
        try:
            return await asyncio.gather(*map(model.send, questions))
        finally:
            await model.close()

    assert [model.read(a).text for a in asyncio.run(together())] == [f"say {i}" for i in range(50)]
