"""Streams as they are declared: every problem at once, timers that miss nothing, triggers that fit."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from peira.errors import Invalid
from peira.spec.streams.files import read_streams
from peira.spec.streams.stream import Stream, chain_problems, stream
from peira.spec.streams.triggers import (
    MOST_MISSED,
    After,
    Cron,
    Every,
    after,
    cron,
    every,
    last_moments,
    looked_up,
    made_up_for,
    read_trigger,
)


def answer(case: Any, model: str) -> str:
    return f"{model}: {case.input}"


def made(**fields: Any) -> Stream:
    said: dict[str, Any] = {"factors": {"model": ["a", "b"]}, "evaluators": ["exact"], **fields}
    found: Stream = stream(answer, **said)
    return found


def problems(**fields: Any) -> list[str]:
    with pytest.raises(Invalid) as caught:
        made(**fields)
    return list(caught.value.problems)


def test_a_stream_is_its_function_and_a_study_without_cases() -> None:
    found = made(session="input.customer", isolation="synchronized", parallel=4)
    assert (found.name, found.parallel, found.function) == ("answer", 4, answer)
    assert found(type("Case", (), {"input": "hi"})(), "a") == "a: hi"
    assert found.study.case_sets == {"": ()}
    assert found.session_of({"customer": 7}) == "7"
    assert found.session_of({"else": 1}) == found.session_of("text") == ""
    with pytest.raises(Invalid, match=r"session: input\.customer is a dict"):
        found.session_of({"customer": {}})


def test_every_problem_is_said_at_once() -> None:
    found = problems(
        parallel=0,
        isolation="synchronised",
        cases=[1],
        sesion="input.x",
        triggers=[{"cron": "61 * * * *"}, {"every": "1h", "cron": "0 0 * * *"}, 5],
        evaluators=["exakt"],
    )
    assert [line.partition(":")[0] for line in found] == [
        "cases",
        "sesion",
        "evaluators[0]",
        "triggers[0].cron",
        "triggers[1]",
        "triggers[2]",
        "parallel",
        "isolation",
    ]
    assert "did you mean 'session'" in found[1]


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"isolation": "synchronized"}, 'isolation: "synchronized" needs a session'),
        ({"session": "input.a and input.b"}, "session: 'input.a and input.b' is not a place in the input"),
        ({"session": "case.a"}, "session: 'case.a' is not a place"),
        ({"triggers": [every("1h"), every("1h")]}, "triggers: there are 2 of the name 'every-3600s'"),
        ({"factors": {"model": ["a"]}, "assign": "random"}, 'assign: "random" needs a factor with at least'),
        ({"repeats": 3}, "repeats: has no meaning in a stream"),
    ],
)
def test_what_does_not_fit_is_refused(fields: dict[str, Any], said: str) -> None:
    [found] = problems(**fields)
    assert found.startswith(said)


DAYS = st.floats(0, 40_000, allow_nan=False).map(lambda day: day * 86_400)


@given(st.floats(0.1, 1e6), st.lists(DAYS, min_size=2, max_size=6))
def test_an_interval_fires_at_the_same_moments_however_often_one_looks(
    interval: float, looks: list[float]
) -> None:
    looks = [look % (50 * interval) for look in looks]
    timer, looks = Every(every=interval), sorted(looks)
    whole = list(timer.due(looks[0], looks[-1]))
    assert whole == [moment for a, b in pairwise(looks) for moment in timer.due(a, b)]
    assert all(looks[0] < moment <= looks[-1] for moment in whole)
    assert timer.upcoming(looks[0]) > looks[0]


@given(st.integers(0, 365 * 24 * 60), st.integers(1, 4000), st.integers(1, 30))
def test_cron_moments_are_the_same_however_often_one_looks(start: int, minutes: int, step: int) -> None:
    timer = Cron(cron="*/7 3-5 * * *", zone="Europe/Berlin")
    begin = datetime(2025, 1, 1, tzinfo=UTC) + timedelta(minutes=start)
    looks = [
        (begin + timedelta(minutes=m)).timestamp() for m in range(0, minutes + step, max(step, minutes // 9))
    ]
    whole = list(timer.due(looks[0], looks[-1]))
    assert whole == [moment for a, b in pairwise(looks) for moment in timer.due(a, b)]


@pytest.mark.parametrize("text", ["30 2 * * *", "15 1,2,3 * * *", "0 3 * * *", "*/20 2 * * *", "0 0 2 * * *"])
@pytest.mark.parametrize("day", ["2026-03-28", "2026-10-24"])  # the clock changes on the next one
def test_cron_fires_once_for_a_moment_when_the_clock_changes(text: str, day: str) -> None:
    timer = cron(text, zone="Europe/Berlin")
    begin = datetime.fromisoformat(day).replace(tzinfo=UTC).timestamp()
    looks = [begin + 433 * n for n in range(3 * 86_400 // 433)]
    whole = list(timer.due(looks[0], looks[-1]))
    assert whole == sorted(set(whole))
    assert whole == [moment for a, b in pairwise(looks) for moment in timer.due(a, b)]
    assert all(timer.upcoming(look) > look for look in looks), "or a host submits it again and again"


def test_cron_follows_the_clock_of_its_zone() -> None:
    timer = cron("0 9 * * 1-5", zone="Europe/Berlin")
    winter = datetime(2026, 3, 27, 12, tzinfo=UTC).timestamp()  # a Friday; the clock changes on Sunday
    found = datetime.fromtimestamp(timer.upcoming(winter), UTC)
    assert found == datetime(2026, 3, 30, 7, tzinfo=UTC)


def test_missed_moments() -> None:
    for missed, n in (("one", 1), ("all", 5), ("skip", 0)):
        timer = every("1m", missed=missed)  # type: ignore[arg-type]
        assert len(made_up_for(timer, 0.0, 300.0)) == n
    assert made_up_for(every("1m"), 0.0, 300.0) == [300.0]


def test_of_very_many_missed_moments_the_oldest_are_left_out() -> None:
    for timer in (every("1m", missed="all"), cron("* * * * *", missed="all")):
        until = 60.0 * (MOST_MISSED + 500)
        made = made_up_for(timer, 0.0, until)
        assert (len(made), made[0], made[-1]) == (MOST_MISSED, 60.0 * 501, until)
    assert made_up_for(cron("0 0 1 1 *"), 0.0, 400 * 86400.0) == [365 * 86400.0]


TIMERS = [every("7m"), every("0.5h"), cron("*/7 3-5 * * *"), cron("30 2 * * *", zone="Europe/Berlin")]


@given(st.sampled_from(TIMERS), st.floats(0, 5e5), st.floats(0, 5e5), st.integers(1, 40))
def test_the_last_moments_are_those_of_all(timer: Any, one: float, other: float, most: int) -> None:
    after, until = sorted((one, other))
    assert last_moments(timer, after, until, most) == list(timer.due(after, until))[-most:]


def test_conditions_of_what_ended() -> None:
    job = {"state": "succeeded", "output": {"urgent": True, "n": 3}, "input": {}, "key": "k"}
    assert after("t").fires(job)
    assert after("t", where="output.urgent and output.n > 2").fires(job)
    assert not after("t", where="output.calm").fires(job)
    assert not after("t", where="output.urgent > 'x'").fires(job)  # cannot be evaluated
    failed = {**job, "state": "failed"}
    assert not after("t").fires(failed)
    assert after("t", where="state == 'failed'").fires(failed)
    with pytest.raises(Invalid, match=r"'answer\.urgent' is not known; an ended job has input"):
        after("t", where="answer.urgent")


def test_a_dotted_name_is_a_place_in_tables() -> None:
    assert looked_up({"a": {"b": [1]}}, "a.b") == [1]
    assert looked_up({"a": {"b": 1}}, "a.b.c") is None


def test_triggers_are_read_from_tables() -> None:
    assert read_trigger({"every": "90s", "input": {"x": 1}}) == every("90s", input={"x": 1})
    assert read_trigger({"cron": "0 9 * * 1-5", "zone": "Europe/Berlin"}) == cron(
        "0 9 * * 1-5", zone="Europe/Berlin"
    )
    assert read_trigger({"after": "a", "where": "output.x"}) == After(after="a", where="output.x")
    with pytest.raises(Invalid, match="not a time zone"):
        cron("0 9 * * *", zone="Europe/Berln")


def named(name: str, *after_: str) -> Stream:
    return made(name=name, triggers=[after(one, name=f"on-{one}") for one in after_])


def test_chains_that_never_end_or_never_begin_are_refused() -> None:
    assert list(chain_problems([named("a"), named("b", "a"), named("c", "a", "b")])) == []
    assert list(chain_problems([named("a", "c"), named("b", "a"), named("c", "b")])) == [
        "streams: each would start the next for ever: c -> a -> b -> c"
    ]
    assert list(chain_problems([named("a", "a")])) == ["streams: each would start the next for ever: a -> a"]
    found = list(chain_problems([named("triage"), named("triage"), named("b", "triag")]))
    assert found == [
        "streams: there are 2 of the name 'triage'",
        "streams.b.triggers.on-triag: there is no stream 'triag'; did you mean 'triage'?",
    ]


TOML = """
[streams.support]
agent = "agents.py:support"
factors = { model = ["a", "b"] }
evaluators = ["exact"]
session = "input.customer"
isolation = "synchronized"

[[streams.support.triggers]]
every = "1h"
input = { sweep = true }

[[streams.support.triggers]]
after = "triage"
where = "output.urgent"

[streams.triage]
agent = "agents.py:triage"
"""
CODE = """
from peira.spec.streams.stream import stream

def support(case, model):
    return case.input

@stream(name="sorter")
def triage(case):
    return case.input

again = triage
"""


def test_streams_are_read_from_files(tmp_path: Path) -> None:
    (tmp_path / "agents.py").write_text(CODE)
    (tmp_path / "streams.toml").write_text(TOML)
    support, triage = read_streams(tmp_path / "streams.toml")
    assert (support.name, triage.name) == ("support", "triage")
    assert [type(one) for one in support.triggers] == [Every, After]
    assert [one.name for one in read_streams(tmp_path / "agents.py")] == ["sorter"]


def test_the_problems_of_a_file_name_their_stream(tmp_path: Path) -> None:
    (tmp_path / "agents.py").write_text(CODE)
    (tmp_path / "streams.toml").write_text(
        TOML.replace("synchronized", "sync").replace('after = "triage"', 'after = "triag"')
    )
    with pytest.raises(Invalid) as caught:
        read_streams(tmp_path / "streams.toml")
    assert [line.partition(":")[0] for line in caught.value.problems] == ["streams.support.isolation"]
    (tmp_path / "empty.toml").write_text("")
    with pytest.raises(Invalid, match="it has no table"):
        read_streams(tmp_path / "empty.toml")
