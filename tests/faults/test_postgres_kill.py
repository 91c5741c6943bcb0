"""kill -9 of the owner of a Postgres store, and crashes of the server under a run that goes on.

The undisturbed run is one on SQLite: the same trials, scores and table must come of it.
"""

from __future__ import annotations

import os
import random
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from peira.core.contracts import OpenStore
from peira.core.log.events import CallIntended
from peira.stores.postgres.spool import answers_in
from peira.stores.verify import verify

from .conftest import Bench

PLACES = {
    "store.before_fold": 1,
    "store.before_commit": 17,
    "store.after_commit": 3,
    "store.after_acknowledge": 9,
    "engine.after_plan": 1,
    "engine.after_claim": 5,
    "engine.before_end": 7,
    "engine.before_finish": 1,
    "step.before_record": 3,
    "step.after_record": 4,
}
"""The failpoints that the study passes, and which time it is killed there."""


@dataclass
class PostgresBench(Bench):
    """A bench whose store is in a database."""

    address: str = ""

    @property
    def store(self) -> str:
        return self.address

    def reader(self) -> OpenStore:
        store = pytest.importorskip("peira.stores.postgres.store")
        return store.PostgresStore(self.address, readonly=True)

    def exists(self) -> bool:
        scheme = pytest.importorskip("peira.stores.postgres.scheme")
        return scheme.PostgresScheme().exists(self.address)


@pytest.fixture
def bench(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, warm: Any, postgres_url: str) -> PostgresBench:
    bench = PostgresBench(tmp_path / "bench", warm.start, address=postgres_url)
    monkeypatch.setenv("OUTSIDE", str(bench.folder))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    return bench


@pytest.mark.parametrize("place", PLACES)
def test_killed_at_a_named_place(place, bench, reference) -> None:
    assert bench.kill_at(f"{place}:{PLACES[place]}") == -9
    bench.check_readable()
    bench.check_nothing_lost()
    bench.recover(reference)


@pytest.mark.parametrize("moment", range(4), indirect=True)
def test_killed_at_a_random_moment(moment, bench, reference) -> None:
    moment.strike(bench, reference)
    bench.check_readable()
    bench.check_nothing_lost()
    bench.recover(reference)


@pytest.mark.torture
@pytest.mark.parametrize("moment", range(4, 104), indirect=True)
def test_killed_at_many_random_moments(moment, bench, reference) -> None:
    moment.strike(bench, reference)
    bench.check_nothing_lost()
    bench.recover(reference)


@pytest.mark.parametrize("seed", [1, 2])
def test_a_run_goes_on_when_its_server_crashes(
    seed, database, tmp_path, monkeypatch, warm, reference
) -> None:
    chance = random.Random(f"crash {seed}")
    bench = PostgresBench(tmp_path / "bench", warm.start, address=database.url)
    monkeypatch.setenv("OUTSIDE", str(bench.folder))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    process = bench.start()
    crashes = 0
    for aim in sorted(chance.sample(range(1, reference.acknowledged - 20), 3)):
        while process.poll() is None and len(bench.lines("acknowledged")) < aim:
            time.sleep(0.001)
        if process.poll() is None:
            database.stop("immediate")
            database.start()
            crashes += 1
    assert bench.finish(process) == 0
    assert crashes
    bench.check_nothing_lost()
    bench.check_sound()
    executed = [trial for _, trial in bench.executed("trials")]
    assert len(executed) == len(set(executed)) == len(reference.outputs)


CALLS = """
import os, sys
from peira import ask, run, study

MODEL = "openai:" + os.environ["MODEL"]


def asks(case):
    one = ask(MODEL, f"{case.input} one")
    return ask(MODEL, f"{one} two")


asked = study(agent=asks, name="asks", cases=[f"case {i}" for i in range(60)], policy={"interruptions": 100})

if __name__ == "__main__":
    run(asked, store=sys.argv[1], parallel=8, progress=False)
"""


@pytest.fixture
def asking(tmp_path, monkeypatch, endpoint, warm):
    """Starts a run of 120 calls on a store; the endpoint counts the bills."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MODEL", endpoint.model)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    endpoint.always({"delay": 0.02})
    (tmp_path / "asks.py").write_text(CALLS)

    def start(address: str, failpoint: str = "") -> Any:
        env = {**os.environ, "PEIRA_FAILPOINT": failpoint}
        pipes = {"stdout": subprocess.DEVNULL, "stderr": subprocess.PIPE}
        return warm.start([sys.executable, "asks.py", address], cwd=tmp_path, env=env, **pipes)

    return start


def resends(address: str) -> int:
    """The sends of calls beyond the first that the store announced."""
    store = pytest.importorskip("peira.stores.postgres.store").PostgresStore(address, readonly=True)
    try:
        assert verify(store) == []
        return sum(isinstance(r.event, CallIntended) and r.event.send > 1 for r in store.history())
    finally:
        store.close()


def test_a_restart_of_the_database_costs_no_call(database, asking, endpoint) -> None:
    """Answers that come while it is down wait in memory, and are recorded when it is back."""
    process = asking(database.url)
    for bills in (15, 45, 80):
        while process.poll() is None and endpoint.bills() < bills:
            time.sleep(0.005)
        database.stop("immediate")
        time.sleep(0.1)
        database.start()
    _, said = process.communicate(timeout=50)
    assert process.returncode == 0, said.decode()
    assert resends(database.url) == 0
    assert endpoint.bills() == 120


def wait_for_bills(endpoint: Any, process: Any, bills: int) -> None:
    while process.poll() is None and endpoint.bills() < bills:
        time.sleep(0.005)


def spooled(tmp_path: Path) -> list[Path]:
    """The files of answers that wait for the server on this machine."""
    return list((tmp_path / "cache").rglob("*.answers"))


def count_spooled(tmp_path: Path) -> int:
    """How many answers wait in these files."""
    return sum(1 for file in spooled(tmp_path) for _ in answers_in(file.read_bytes()))


def test_a_database_that_stays_away_ends_the_run_in_one_line(database, asking, endpoint, tmp_path) -> None:
    """The answers that came meanwhile were paid for: the next run records them, and sends nothing again.

    A send may have been announced and not made, if the server wrote the intent and did not live to say so.
    """
    process = asking(f"{database.url}&reconnect=4")
    wait_for_bills(endpoint, process, 40)
    endpoint.always({"delay": 2.0})
    wait_for_bills(endpoint, process, endpoint.bills() + 2)  # these are answered while it is away
    database.stop("immediate")
    _, said = process.communicate(timeout=50)
    assert process.returncode == 1
    last = said.decode().splitlines()[-1]
    assert "the store cannot be written" in last
    assert "is the server running" in last
    assert len(spooled(tmp_path)) == 1
    endpoint.always({"delay": 0.02})
    database.start()
    again = asking(database.url)
    _, said = again.communicate(timeout=50)
    assert again.returncode == 0, said.decode()
    assert spooled(tmp_path) == []
    assert resends(database.url) <= 8
    assert endpoint.bills() == endpoint.sends() == 120


def test_killed_while_the_database_is_away_costs_no_call(database, asking, endpoint, tmp_path) -> None:
    """What is on its way when the server goes is answered later, and is in the spool when it is killed.

    As above, a send may have been announced and not made.
    """
    process = asking(database.url)
    wait_for_bills(endpoint, process, 40)
    endpoint.always({"delay": 5.0})
    before = endpoint.bills()
    wait_for_bills(endpoint, process, before + 2)
    database.stop("immediate")
    while count_spooled(tmp_path) < endpoint.bills() - before:
        assert process.poll() is None
        time.sleep(0.05)
    process.kill()
    process.communicate()
    endpoint.always({"delay": 0.02})
    database.start()
    again = asking(database.url)
    _, said = again.communicate(timeout=50)
    assert again.returncode == 0, said.decode()
    assert resends(database.url) <= 8
    assert endpoint.bills() == endpoint.sends() == 120


def test_connections_that_are_cut_inside_commits_lose_and_double_nothing(
    asking, endpoint, postgres_url, proxy
) -> None:
    """Every 23rd answer of the server is lost with its connection, whatever it was about."""
    proxy.cut(60, every=23)  # not before the store is open
    process = asking(proxy.address(postgres_url))
    _, said = process.communicate(timeout=50)
    assert process.returncode == 0, said.decode()
    assert proxy.cuts >= 5
    assert resends(postgres_url) == 0
    assert endpoint.bills() == 120


@pytest.mark.parametrize(
    "place",
    [
        "ledger.after_intent:30",
        "ledger.before_answer:40",
        "ledger.after_answer:50",
        "store.before_commit:30",
        "store.after_commit:40",
    ],
)
def test_a_killed_owner_pays_at_most_what_was_announced(place, postgres_url, asking, endpoint) -> None:
    process = asking(postgres_url, place)
    process.communicate(timeout=50)
    assert process.returncode == -9
    again = asking(postgres_url)
    _, said = again.communicate(timeout=50)
    assert again.returncode == 0, said.decode()
    assert 120 <= endpoint.bills() <= 120 + resends(postgres_url)
