"""The ledger from Python: `open(store).calls()`, `.call(key)`, `.tally()`, `.resolve(...)`."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

import peira
from peira.core.codec import encode
from peira.core.contracts import CallQuery
from peira.core.ids import digest, digest_bytes
from peira.core.log import events as ev
from peira.core.log.events import State, Status
from peira.core.models import Answer
from peira.errors import Invalid, StoreInUse, Unknown
from peira.stores.memory import MemoryStore
from peira.stores.sqlite import SqliteStore
from peira.stores.verify import verify
from peira.testing.stores.actions import accept, claimed, find_call, find_run, find_task, finished, plan_run

REQUEST = b'{"messages":[{"role":"user","content":"hello"}]}'
ANSWER = Answer(200, b'{"said":"hi"}', 0.5)


@pytest.fixture(params=["memory", "sqlite"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Any]:
    made = MemoryStore() if request.param == "memory" else SqliteStore(tmp_path / "s.db")
    yield made
    assert verify(made) == []
    made.close()


def ask(store: Any, run: str, task: str, key: str, *then: Any, model: str = "till:x", send: int = 1) -> None:
    """A call, and what becomes of it."""
    intent = ev.CallIntended(digest(task), 1, digest(key), model, digest_bytes(REQUEST), "generate", send)
    accept(store, run, intent, *then, blobs=(REQUEST,))


def answer(task: str, key: str, **more: Any) -> ev.CallAnswered:
    return ev.CallAnswered(digest(task), digest(key), msgspec.Raw(encode(ANSWER)), **more)


def doubt(task: str, key: str) -> ev.CallLost:
    return ev.CallLost(digest(task), digest(key), "reset", doubt=True)


@pytest.fixture
def run(store: Any) -> str:
    """A completed run: an answered call with a price, one without, and one in doubt."""
    run = plan_run(store)
    accept(store, run, claimed("a", "b"))
    ask(store, run, "a", "priced", answer("a", "priced", input=3, output=2, cost=0.5, served="x"))
    ask(store, run, "a", "unpriced", answer("a", "unpriced", served="other"))
    ask(store, run, "b", "doubtful", doubt("b", "doubtful"), model="till:y")
    accept(store, run, finished("a"), finished("b", state=State.in_doubt))
    accept(store, run, ev.RunFinished(Status.completed))
    return run


def test_calls_are_frozen_values_in_which_the_unknown_is_none(store: Any, run: str) -> None:
    doubtful, unpriced, priced = peira.open(store).calls(run=run[:8])
    assert (priced.input, priced.output, priced.cost, priced.served) == (3, 2, 0.5, "")
    assert (unpriced.input, unpriced.cost, unpriced.served) == (None, None, "other")
    assert (doubtful.state, doubtful.status, doubtful.why) == ("in_doubt", "in doubt", "reset")
    assert (priced.task, priced.stage, priced.run) == (digest("a"), "generate", run)
    assert (priced.sends, priced.resends) == (1, 0)
    with pytest.raises(AttributeError):
        priced.cost = 0.0  # type: ignore[misc]


def test_calls_are_chosen_and_counted(store: Any, run: str) -> None:
    opened = peira.open(store)
    assert [call.model for call in opened.calls(model="till:y")] == ["till:y"]
    assert len(opened.calls(task=digest("a")[:6], limit=1)) == 1
    tally = opened.tally(task=digest("a"), limit=1)
    assert (tally.states, tally.cost, tally.unpriced) == ({"answered": 2}, 0.5, 1)
    assert opened.calls(CallQuery(prefix=digest("priced")[:9]))[0].key == digest("priced")
    with pytest.raises(Unknown, match="no run"):
        opened.calls(run="ffffffff")
    with pytest.raises(Invalid, match="did you mean 'in_doubt'"):
        opened.calls(state="in_dout")


def test_a_call_whole(store: Any, run: str) -> None:
    found = peira.open(store).call(digest("priced")[:12])
    assert found.request == {"messages": [{"role": "user", "content": "hello"}]}
    assert found.answer == ANSWER
    assert [type(record.event) for record in found.records] == [ev.CallIntended, ev.CallAnswered]
    assert peira.open(store).call(digest("doubtful")).answer is None


def test_its_events_are_found_in_every_run_that_had_to_do_with_it(store: Any, run: str) -> None:
    peira.open(store).resolve("resend", by="ada")
    other, later = plan_run(store), plan_run(store)
    for again, epoch, send in ((other, 2, 2), (later, 3, 3)):
        accept(store, again, claimed("b", epoch=epoch))
        intent = ev.CallIntended(
            digest("b"), epoch, digest("doubtful"), "till:y", digest_bytes(REQUEST), "generate", send
        )
        accept(store, again, intent, doubt("b", "doubtful"))
        accept(store, again, finished("b", epoch, State.in_doubt))
    records = peira.open(store).call(digest("doubtful")).records
    assert [(record.run, type(record.event).__name__) for record in records] == [
        (run, "CallIntended"),
        (run, "CallLost"),
        (run, "CallSettled"),
        (other, "CallIntended"),
        (other, "CallLost"),
        (later, "CallIntended"),
        (later, "CallLost"),
    ]


def test_what_is_in_doubt_may_be_sent_again(store: Any, run: str) -> None:
    settled = peira.open(store).resolve("resend", by="ada")
    assert [call.key for call in settled.calls] == [digest("doubtful")]
    assert (settled.by, settled.runs) == ("ada", (run,))
    call = find_call(store, "doubtful")
    assert (call.state, call.why) == ("lost", "settled by ada")
    assert not find_run(store, run).reopened
    assert peira.open(store).resolve("resend").calls == ()


def test_a_discarded_answer_reopens_every_run_that_was_complete(store: Any, run: str) -> None:
    other, failed = plan_run(store), plan_run(store)
    accept(store, other, ev.RunFinished(Status.completed))
    accept(store, failed, ev.RunFinished(Status.failures))
    peira.open(store).resolve("discard", digest("priced")[:7], digest("unpriced"))
    assert (find_call(store, "priced").state, find_call(store, "unpriced").state) == ("void", "void")
    assert find_task(store, "a").state is State.queued
    assert [find_run(store, one).reopened for one in (run, other, failed)] == [True, True, False]
    before = find_run(store, other).next_seq
    accept(store, run, claimed("a", epoch=2))
    ask_again = ev.CallIntended(
        digest("a"), 2, digest("priced"), "till:x", digest_bytes(REQUEST), "generate", 2
    )
    accept(store, run, ask_again, answer("a", "priced"))
    accept(store, run, ev.TasksReleased((digest("a"),), (2,)))
    peira.open(store).resolve("discard", digest("priced"))
    assert find_run(store, other).next_seq == before  # once is enough


def test_every_problem_is_said_and_nothing_written(store: Any, run: str) -> None:
    before = list(store.history())
    with pytest.raises(Invalid) as raised:
        peira.open(store).resolve("discard", digest("priced"), digest("doubtful"), "00000000", "x")
    assert [problem.partition(":")[0] for problem in raised.value.problems] == [
        f"call {digest('doubtful')[:12]} has no answer to discard",
        "no call '00000000' in this store",
        "'x' is no key of a call",
    ]
    for arguments in (("discard",), ("resned", digest("doubtful"))):
        with pytest.raises(Invalid):
            peira.open(store).resolve(*arguments)
    assert list(store.history()) == before


def test_a_call_under_way_is_not_in_doubt(tmp_path: Path) -> None:
    path = tmp_path / "s.db"
    store = SqliteStore(path)
    run = plan_run(store)
    accept(store, run, claimed("a"))
    ask(store, run, "a", "sent")
    [call] = peira.open(path).calls()
    assert (call.state, call.status, call.under_way) == ("intended", "under way", True)
    with pytest.raises(StoreInUse):
        peira.open(path).resolve("resend", call.key)
    store.close()
    [call] = peira.open(path).calls()
    assert (call.status, call.under_way) == ("cut off", False)
    assert [one.key for one in peira.open(path).resolve("resend", call.key).calls] == [call.key]
    assert peira.open(path).calls()[0].state == "lost"
