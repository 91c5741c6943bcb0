"""`peira calls` and `peira resolve`, on stores that runs have made."""

from __future__ import annotations

import json
import shutil
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from peira.core.models import Answer, Reply, Request, Usage
from peira.core.registry import registry
from peira.errors import CallFailed
from peira.stores.sqlite.lock import OwnerLock

BILLS: Counter[str] = Counter()
DOUBTFUL: set[str] = set()
STUDY = """
from peira import ask, exact, study

def fair(output):
    return ask("teller:judge", "is " + output + " fair?").text == "yes"

@study(cases=["ab", "cd"], evaluators=[fair], policy={"in_doubt": "hold"})
def asking(case):
    first = ask("teller:x", case.input)
    return ask("teller:y", first.text + "!").text
"""
PROJECT = """
[models."teller:x"]
price = {input = 100.0, output = 200.0}
"""


class Teller:
    """A model that says texts backwards and counts what it is paid for. Doubtful ones are lost on the way."""

    def __init__(self, model: str) -> None:
        self.name = f"teller:{model}"
        self.identity = {"teller": model}

    def check(self) -> None:
        return None

    async def send(self, request: Request) -> Answer:
        text = str(request.messages[-1]["content"])
        BILLS[text] += 1
        if text in DOUBTFUL:
            raise CallFailed("reset by peer", doubt=True)
        return Answer(200, json.dumps({"said": text[::-1]}).encode(), 0.25, headers={"x-request-id": "r1"})

    def read(self, answer: Answer) -> Reply:
        said = json.loads(answer.body)["said"]
        return Reply(said, model=f"{self.name}-2026", usage=Usage(10, len(said)))

    async def close(self) -> None:
        return None


@pytest.fixture(autouse=True)
def teller(folder: Path) -> Iterator[None]:
    registry.add("model", "teller", Teller)
    (folder / "asking.py").write_text(STUDY)
    (folder / "peira.toml").write_text(PROJECT)
    BILLS.clear()
    DOUBTFUL.clear()
    yield
    BILLS.clear()
    DOUBTFUL.clear()


@pytest.fixture
def ledger(peira):
    """The calls by what was asked, as `peira calls --json` has them."""

    def look(*arguments: str) -> dict:
        calls = peira("calls", *arguments, "--json").document["calls"]
        whole = [peira("calls", call["key"], "--json").document for call in calls]
        return {call["request"]["messages"][-1]["content"]: call for call in whole}

    return look


def snapshot() -> list[str]:
    """All that the store's files hold."""
    return [file.read_bytes().hex() for file in sorted(Path(".peira").rglob("peira.db")) if file.is_file()]


def test_calls_are_listed_with_what_they_cost(peira):
    run = peira("run", "asking.py", "--json").document["run"]
    done = peira("calls")
    assert done.code == 0
    header, *rows, blank, counts, money = done.out.splitlines()
    assert header.split() == ["call", "model", "status", "in", "out", "cost", "sends", "where", "why"]
    assert len(rows) == 6
    assert sum("teller:x (served by teller:x-2026)" in row for row in rows) == 2
    assert sum("answered" in row for row in rows) == 6
    assert sum("$0.0014" in row for row in rows) == 2
    assert sum("unknown" in row for row in rows) == 4
    assert sum("score" in row and "evaluate fair" in row for row in rows) == 2
    assert (blank, counts) == ("", "6 calls: 6 answered")
    assert money == "tokens: 60 in, 34 out; cost: $0.0028, unknown for 4"

    document = peira("calls", run[:8], "--json").document
    assert document["run"] == run
    assert document["totals"] == {
        "calls": 6,
        "answered": 6,
        "in_doubt": 0,
        "intended": 0,
        "lost": 0,
        "void": 0,
        "input": 60,
        "output": 34,
        "cost": pytest.approx(0.0028),
        "unpriced": 4,
    }
    x = [call for call in document["calls"] if call["model"] == "teller:x"]
    assert [call["cost"] for call in x] == [pytest.approx(0.0014)] * 2
    assert {call["cost"] for call in document["calls"] if call not in x} == {None}
    assert {(call["trial"] is None, call["stage"]) for call in document["calls"]} == {
        (False, "generate"),
        (True, "evaluate fair"),
    }


def test_calls_are_chosen(peira):
    run = peira("run", "asking.py", "--json").document["run"]
    peira("run", "asking.py", "--fresh")

    def listed(*arguments: str) -> list[str]:
        return [call["model"] for call in peira("calls", *arguments, "--json").document["calls"]]

    assert len(listed()) == 10  # the outputs are the same, and so are their scores
    assert len(listed(run)) == 6
    assert listed(run, "--model", "teller:x") == ["teller:x"] * 2
    assert listed("--state", "in-doubt") == []
    assert peira("calls", "--state", "in_doubt").out == "no calls\n"
    trial = next(call["trial"] for call in peira("calls", run, "--json").document["calls"] if call["trial"])
    assert sorted(listed("--trial", trial[:10])) == ["teller:x", "teller:y"]
    some = peira("calls", "--limit", "5")
    assert some.out.splitlines()[-2] == "10 calls: 10 answered"
    assert some.problems == ["there are more: 5 of 10 are listed (--limit)"]


def test_one_call_is_shown_whole(peira, ledger):
    peira("run", "asking.py")
    call = ledger()["ab"]
    assert call["request"] == {"messages": [{"role": "user", "content": "ab"}]}
    assert call["answer"]["body"] == {"said": "ba"}
    assert (call["answer"]["status"], call["answer"]["headers"]) == (200, {"x-request-id": "r1"})
    assert [event["kind"] for event in call["events"]] == ["call.intended", "call.answered", "call.read"]
    done = peira("calls", call["key"][:10])
    assert f"call    {call['key']}" in done.out
    assert "cost    $0.0014" in done.out
    assert '"content": "ab"' in done.out
    assert '"said": "ba"' in done.out
    assert "call.intended" in done.out


def test_what_is_not_there(peira):
    peira("run", "asking.py")
    key = peira("calls", "--json").document["calls"][0]["key"]
    near = key[:8] + ("0" if key[8] != "0" else "1")
    done = peira("calls", near)
    assert (done.code, done.problems) == (
        2,
        [f"peira: no run or call '{near}' in this store; did you mean '{key[:9]}'?"],
    )
    assert peira("calls", "xyz").problems == [
        "peira: 'xyz' is no key of a call: use four or more of its digits (see `peira calls`)"
    ]
    wrong = peira("calls", "--state", "answred", "--trial", "x", "--limit", "0")
    assert wrong.code == 2
    assert wrong.problems == [
        "peira: state: 'answred' is not known; did you mean 'answered'?",
        "peira: task: 'x' is no id: use four or more digits of one",
        "peira: limit: must be at least 1, not 0",
    ]
    assert peira("calls", key, "--model", "teller:x").code == 2
    assert peira("calls", "--store", "nowhere.db").problems == ["peira: there is no store at nowhere.db"]


def test_a_call_in_doubt_is_sent_again_once_it_is_settled(peira, ledger):
    DOUBTFUL.add("ba!")
    assert peira("run", "asking.py").code == 1
    assert peira("run", "asking.py").code == 1
    assert BILLS["ba!"] == 1
    listed = peira("resolve")
    [call] = peira("resolve", "--json").document["in_doubt"]
    assert (call["state"], call["cost"], call["why"]) == ("in_doubt", None, "reset by peer")
    assert "in doubt: 1 call, sent and perhaps billed" in listed.out
    assert f"peira resolve {call['key'][:12]} --resend" in listed.out

    DOUBTFUL.clear()
    done = peira("resolve", call["key"][:12], "--resend", "--by", "ada", "--json")
    assert done.code == 0
    assert [one["key"] for one in done.document["settled"]] == [call["key"]]
    [further] = done.document["next"]
    assert ledger()["ba!"]["state"] == "lost"
    assert "settled by ada" in peira("calls", call["key"]).out
    assert peira("resolve").out == "no call is in doubt\n"
    paid = BILLS.copy()
    assert peira(*further.split()[1:]).code == 0
    assert BILLS - paid == {"ba!": 1, "is !ab fair?": 1}
    again = ledger()["ba!"]
    assert (again["state"], again["sends"], again["resends"]) == ("answered", 2, 1)
    kinds = ["call.intended", "call.lost", "call.settled", "call.intended", "call.answered", "call.read"]
    assert [event["kind"] for event in again["events"]] == kinds
    assert peira("verify").out.endswith("sound\n")


def test_all_that_is_in_doubt_of_a_model(peira):
    DOUBTFUL.update(["ab", "dc!"])
    peira("run", "asking.py")
    assert len(peira("resolve", "--json").document["in_doubt"]) == 2
    assert len(peira("resolve", "--model", "teller:y", "--json").document["in_doubt"]) == 1
    done = peira("resolve", "--resend", "--all", "--model", "teller:y")
    assert (done.code, "1 call may be sent again by the next run" in done.out) == (0, True)
    assert [call["model"] for call in peira("resolve", "--json").document["in_doubt"]] == ["teller:x"]
    assert len(peira("resolve", "--resend", "--all", "--json").document["settled"]) == 1
    nothing = peira("resolve", "--resend", "--all")
    assert (nothing.code, nothing.out) == (0, "no call is in doubt: there is nothing to send again\n")


def test_a_discarded_answer_is_asked_anew_and_no_other(peira, ledger):
    first = peira("run", "asking.py", "--json").document
    assert first["status"] == "completed"
    assert peira("run", "asking.py").code == 0  # an earlier run that was complete hides nothing
    bad = ledger()["ba!"]
    done = peira("resolve", bad["key"][:10], "--discard")
    assert done.code == 0
    assert "answer void; the next run asks anew" in done.out
    assert f"peira run {first['run'][:12]}" in done.out
    assert (ledger()["ba!"]["status"], ledger()["ba!"]["answer"]["body"]) == ("discarded", {"said": "!ab"})
    paid = BILLS.copy()
    counts = peira("run", "asking.py", "--json").document["counts"]
    assert (counts["succeeded"], counts["reused"]) == (1, 1)
    assert BILLS - paid == {"ba!": 1}
    assert ledger()["ba!"]["state"] == "answered"
    assert peira("run", "asking.py", "--json").document["counts"]["reused"] == 2
    assert BILLS - paid == {"ba!": 1}
    assert peira("verify").out.endswith("sound\n")


def test_all_that_replayed_a_discarded_answer_are_done_again_in_every_study(peira, ledger, folder):
    """Once it was edited, once under another name: the first call is the same in all three."""
    peira("run", "asking.py")
    edited = STUDY.replace('first.text + "!"', 'first.text + "?"')
    (folder / "asking.py").write_text(edited)
    peira("run", "asking.py")
    (folder / "other.py").write_text(edited.replace("asking", "other").replace('+ "?"', '+ "."'))
    last = peira("run", "other.py", "--json").document["run"]
    assert (BILLS["ab"], BILLS["ba!"], BILLS["ba?"], BILLS["ba."]) == (1, 1, 1, 1)
    bad = ledger()["ab"]["key"]
    done = peira("resolve", bad, "--discard", "--json").document
    assert sorted(task["kind"] for task in done["again"]) == ["generate"] * 3
    assert any(last[:12] in line for line in done["next"])
    assert len(done["next"]) == 3
    paid = BILLS.copy()
    for name in ("other.py", "asking.py"):
        counts = peira("run", name, "--json").document["counts"]
        assert (counts["succeeded"], counts["reused"]) == (1, 1)
    (folder / "asking.py").write_text(STUDY)
    counts = peira("run", "asking.py", "--json").document["counts"]
    assert (counts["succeeded"], counts["reused"]) == (1, 1)
    assert BILLS - paid == {"ab": 1}  # anew once, and then replayed
    assert peira("verify").out.endswith("sound\n")
    said = peira("resolve", bad, "--discard").out
    assert "replays all others; 3 trials that used it are to be done again (settled by " in said


def test_a_judge_whose_answer_was_discarded_judges_again(peira, ledger):
    peira("run", "asking.py")
    bad = ledger()["is !cd fair?"]
    assert bad["trial"] is None
    peira("resolve", bad["key"], "--discard")
    paid = BILLS.copy()
    assert peira("run", "asking.py", "--json").document["counts"]["reused"] == 2
    assert BILLS - paid == {"is !cd fair?": 1}
    assert peira("verify").code == 0


def test_every_problem_is_said_and_nothing_written(peira, ledger):
    DOUBTFUL.add("ab")
    peira("run", "asking.py")
    calls = ledger()
    doubtful, answered = calls["ab"]["key"][:12], calls["cd"]["key"][:12]
    strange = "f" * 12 if not doubtful.startswith("f") else "0" * 12
    before = snapshot()
    done = peira("resolve", doubtful, answered, strange, "nonsense", "--resend")
    assert done.code == 2
    assert done.problems == [
        f"peira: call {answered} is answered: only a call in doubt is sent again "
        "(a bad answer can be discarded)",
        f"peira: no call '{strange}' in this store",
        "peira: 'nonsense' is no key of a call: use four or more of its digits (see `peira calls`)",
    ]
    assert peira("resolve", doubtful, answered, "--discard").problems == [
        f"peira: call {doubtful} has no answer to discard: it is in doubt, and can be sent again"
    ]
    assert snapshot() == before
    peira("resolve", doubtful, "--resend")
    assert "is free to be sent again already" in peira("resolve", doubtful, "--resend").err
    peira("resolve", answered, "--discard")
    assert "is discarded already" in peira("resolve", answered, "--discard").err
    assert "is discarded already" in peira("resolve", answered, "--resend").err


@pytest.mark.parametrize(
    ("arguments", "problems"),
    [
        (["abcd"], ["CALL: say what to do with them, --resend or --discard"]),
        (["--resend"], ["--resend: name the calls, or say --all"]),
        (["--discard"], ["--discard: name the calls"]),
        (["--discard", "--all"], ["--all: answers are discarded by the keys of their calls"]),
        (["--all"], ["--all: say what to do with them, --resend"]),
        (
            ["abcd", "--all", "--resend", "--discard", "--model", "m"],
            [
                "--resend, --discard: choose one of them",
                "--all: answers are discarded by the keys of their calls",
                "--all: leave out the calls, or leave out --all",
                "--model: leave it out, the calls are named",
            ],
        ),
    ],
)
def test_what_does_not_go_together(peira, arguments, problems):
    done = peira("resolve", *arguments)
    assert (done.code, done.problems) == (2, [f"peira: {problem}" for problem in problems])


def test_a_store_in_use_is_not_written(peira, ledger):
    DOUBTFUL.add("ab")
    peira("run", "asking.py")
    key = ledger()["ab"]["key"]
    lock = OwnerLock(Path(".peira/peira.db.lock"))
    done = peira("resolve", key, "--resend")
    looked = peira("calls", key[:12])
    lock.free()
    assert (done.code, len(done.problems)) == (4, 1)
    assert "is in use" in done.err
    assert looked.code == 0
    assert ledger()["ab"]["state"] == "in_doubt"


CUT_OFF = """
from peira import ask, study

@study(cases=["ab"], policy={"in_doubt": "hold"})
def cut(case):
    return ask("scripted:", case.input).text
"""


def test_a_call_whose_process_was_killed_is_in_doubt(folder, peira, ended, monkeypatch):
    (folder / "peira.toml").unlink()  # no other process knows the teller
    (folder / "cut.py").write_text(CUT_OFF)
    with monkeypatch.context() as there:
        there.setenv("PEIRA_FAILPOINT", "ledger.after_intent")
        assert ended("run", "cut.py", "--quiet").code == -9
    [call] = peira("resolve", "--json").document["in_doubt"]
    assert (call["state"], call["status"]) == ("intended", "cut off")
    assert peira("calls").out.splitlines()[-2] == "1 call: 1 sent without an answer yet"
    shutil.copytree(".peira", "before")
    assert peira("run", "cut.py").code == 1
    assert [one["key"] for one in peira("resolve", "--json").document["in_doubt"]] == [call["key"]]
    assert peira("resolve", call["key"], "--resend").code == 0
    assert peira("run", "cut.py").code == 0
    assert peira("verify").out.endswith("sound\n")
    # Just as well at once, with what the dead process left still lying there.
    assert peira("resolve", "--resend", "--all", "--store", "before/peira.db").code == 0
    assert peira("run", "cut.py", "--store", "before/peira.db").code == 0
    assert peira("verify", "--store", "before/peira.db").out.endswith("sound\n")
