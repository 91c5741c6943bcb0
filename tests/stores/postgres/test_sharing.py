"""Members of a shared store: leases, reaping with epochs, ranges of positions, duties."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from itertools import count

import msgspec
import psycopg
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from peira.core.contracts import Op
from peira.core.ids import digest
from peira.core.log import events as ev
from peira.core.log.events import State, Status
from peira.core.log.state import replayed
from peira.engine.recovery import release_gone
from peira.errors import Fenced
from peira.stores.postgres.address import Address
from peira.stores.postgres.connection import connect
from peira.stores.postgres.store import PostgresStore
from peira.stores.sharing import LeasedRange
from peira.stores.verify import verify

RUN = digest("run")


@pytest.fixture
def opened(postgres_url: str) -> Iterator[list[PostgresStore]]:
    """Three members, and a run of 100 trials that they share."""
    with ExitStack() as stack:
        stores = []
        for _ in range(3):
            store = PostgresStore(postgres_url, shared=True)
            stack.callback(store.close)
            stores.append(store)
        first = stores[0]
        first.sharing.share(RUN, 100, b"{}")
        planned = ev.RunPlanned("", "study", 100)
        first.commit([Op(RUN, (planned,)), Op(RUN, (ev.RunStarted("1", 1),))]).result()
        yield stores


def claim(store: PostgresStore, *names: str, epoch: int = 1) -> None:
    ids = tuple(map(digest, names))
    event = ev.TasksClaimed("generate", "generate", str(store.incarnation), ids, (epoch,) * len(ids))
    assert store.commit([Op(RUN, (event,))]).result() == [None]


def task(store: PostgresStore, name: str):
    return store.find("task", [digest(name)])[digest(name)]


def let_die(*stores: PostgresStore) -> None:
    """Let the leases of these members run out now."""
    where = Address.parse(stores[0].address)
    with connect(where) as db:
        for store in stores:
            db.execute("UPDATE member SET until = 0, lease = 0 WHERE n = %s", (store.incarnation,))


def wait_for_a_lock(holder: psycopg.Connection) -> None:
    """Wait until another session waits for what this one holds."""
    waiting = "SELECT count(*) FROM pg_locks WHERE NOT granted "
    waiting += "AND pg_backend_pid() = ANY(pg_blocking_pids(pid))"
    until = time.monotonic() + 30
    while not holder.execute(waiting).fetchone()[0]:
        assert time.monotonic() < until
        time.sleep(0.01)


def test_ranges_are_disjoint_and_cover_the_plan(opened):
    def take(store: PostgresStore) -> list[LeasedRange]:
        found = []
        while (leased := store.sharing.take(RUN, 8, 3)) is not None:
            found.append(leased)
        return found

    for store in opened:
        store.sharing.beat(RUN)
    with ThreadPoolExecutor(3) as pool:
        ranges = [leased for taken in pool.map(take, opened) for leased in taken]
    positions = [at for one in ranges for at in range(one.first, one.first + one.size)]
    assert sorted(positions) == list(range(100))
    by_position = sorted(ranges, key=lambda one: one.first)
    assert by_position[0].size == 8
    assert by_position[-1].size == 1, "the last ones are small, so that all members have something to do"


def test_a_range_is_open_until_it_is_done(opened):
    sharing = opened[0].sharing
    ranges = [sharing.take(RUN, 50, 1), sharing.take(RUN, 50, 1)]
    while ranges[-1] is not None:
        ranges.append(sharing.take(RUN, 50, 1))
    del ranges[-1]
    for leased in ranges[:-1]:
        sharing.done(RUN, leased, {"generate.succeeded": leased.size})
    beat = sharing.beat(RUN)
    assert (beat.left, beat.open, beat.taken) == (0, 1, 1)
    sharing.free(RUN, ranges[-1], {})
    beat = sharing.beat(RUN)
    assert (beat.left, beat.open, beat.taken) == (0, 1, 0)
    assert sharing.take(RUN, 1, 1) == ranges[-1]
    sharing.done(RUN, ranges[-1], {"generate.succeeded": ranges[-1].size})
    beat = sharing.beat(RUN)
    assert (beat.left, beat.open, beat.taken) == (0, 0, 0)
    assert sharing.counts(RUN) == ({}, {"generate.succeeded": 100})


def test_a_range_whose_answer_was_lost_is_found_again(opened):
    sharing = opened[0].sharing
    known, lost = (sharing.take(RUN, 8, 1) for _ in range(2))
    opened[1].sharing.take(RUN, 8, 1)
    assert sharing.lost_range(RUN, [known.first]) == lost
    assert sharing.lost_range(RUN, [known.first, lost.first]) is None


def test_who_lets_its_lease_run_out_is_dead_and_may_write_no_more(opened):
    alive, late, _ = opened
    late.sharing.beat(RUN)
    claim(late, "a")
    let_die(late)
    assert alive.sharing.beat(RUN).gone == (late.incarnation,)
    with pytest.raises(Fenced, match="lease"):
        late.sharing.beat(RUN)
    with pytest.raises(Fenced, match="lease"):
        late.sharing.take(RUN, 1, 1)
    end = ev.TaskFinished(digest("a"), 1, State.succeeded)
    [refusal] = late.commit([Op(RUN, (end,))]).result()
    assert isinstance(refusal, Fenced)
    assert task(alive, "a").state is State.running


def test_an_answer_that_was_paid_for_is_recorded_also_by_the_dead(opened):
    alive, late, _ = opened
    claim(late, "a")
    asked = ev.CallIntended(
        digest("a"),
        1,
        digest("call"),
        "m",
        late.put(b"{}"),
        "generate",
        owner=str(late.incarnation),
        until=9e9,
    )
    assert late.commit([Op(RUN, (asked,))]).result() == [None]
    let_die(late)
    release_gone(alive, alive.sharing.beat(RUN).gone)
    assert alive.sharing.may_write(str(late.incarnation)), "it may only have been stopped for a while"
    answer = ev.CallAnswered(digest("a"), digest("call"), msgspec.Raw(b"{}"))
    released = ev.TasksReleased((digest("a"),), (1,))
    outcomes = late.commit([Op(RUN, (released,)), Op(RUN, (answer,)), Op(RUN, (released,))]).result()
    assert [type(outcome) for outcome in outcomes] == [Fenced, type(None), Fenced]
    assert alive.find("call", [digest("call")])[digest("call")].state == "answered"
    second = ev.CallAnswered(digest("a"), digest("call"), msgspec.Raw(b"{}"))
    assert late.commit([Op(RUN, (second,))]).result() != [None]
    assert list(verify(alive)) == []


def test_nothing_is_expected_of_who_is_known_to_have_ended(opened):
    alive, late, _ = opened
    number = str(late.incarnation)
    assert alive.sharing.may_write(number)
    alive.sharing.ended([late.incarnation])
    assert not alive.sharing.may_write(number)
    assert late.incarnation in alive.sharing.beat(RUN).gone, (
        "what it had is to be released, before its lease is over"
    )
    [refusal] = late.commit([Op(RUN, (ev.TasksWoken((digest("x"),)),))]).result()
    assert isinstance(refusal, Fenced)


def test_who_renews_its_lease_stays_alive_and_who_does_not_is_dead(opened, postgres_url):
    alive, lease = opened[0], 1.0
    beating, silent = (PostgresStore(postgres_url, shared=True, lease=lease) for _ in range(2))
    until = time.monotonic() + 2 * lease
    while time.monotonic() < until:
        beating.sharing.beat(RUN)
        time.sleep(0.05)
    assert silent.incarnation in alive.sharing.beat(RUN).gone
    beating.sharing.beat(RUN)
    beating.close()
    silent.close()


def test_the_tasks_and_ranges_of_the_dead_are_free_again(opened):
    alive, late, _ = opened
    leased = late.sharing.take(RUN, 4, 1)
    claim(late, "a", "b")
    claim(alive, "c")
    let_die(late)
    beat = alive.sharing.beat(RUN)
    assert release_gone(alive, beat.gone) == 2
    assert alive.sharing.beat(RUN).gone == ()
    assert [task(alive, name).state for name in "abc"] == [State.queued, State.queued, State.running]
    assert [task(alive, name).interruptions for name in "abc"] == [1, 1, 0]
    again = alive.sharing.take(RUN, 4, 1)
    assert again == LeasedRange(leased.first, leased.size, lost=1)
    assert list(verify(alive)) == []


def test_two_reapers_never_interrupt_a_living_attempt(opened):
    """The second one read the task before the first interrupted it, and a third member claimed it again."""
    first, late, _ = opened
    claim(late, "a")
    let_die(late)
    first.sharing.beat(RUN)
    release_gone(first, (late.incarnation,))
    claim(first, "a", epoch=2)
    stale = ev.TasksInterrupted((digest("a"),), (1,))
    [refusal] = first.commit([Op(RUN, (stale,))]).result()
    assert isinstance(refusal, Fenced)
    assert (task(first, "a").state, task(first, "a").epoch) == (State.running, 2)


def test_a_reaper_that_has_looked_too_early_interrupts_nobody(opened, postgres_server, postgres_url):
    """Before its commit another one has released the task and begun it again (S1)."""
    slow, late, quick = opened
    claim(late, "a")
    let_die(late)
    gone = slow.sharing.beat(RUN).gone
    with psycopg.connect(postgres_server) as other, ThreadPoolExecutor(1) as pool:
        other.execute(f"SET search_path = {Address.parse(postgres_url).schema}")
        other.execute("SELECT 1 FROM member WHERE n = %s FOR UPDATE", (slow.incarnation,))
        waiting = pool.submit(lambda: release_gone(slow, gone))
        wait_for_a_lock(other)
        assert release_gone(quick, gone) == 1
        claim(quick, "a", epoch=2)
        other.commit()
        assert waiting.result() == 0
    assert (task(quick, "a").state, task(quick, "a").epoch) == (State.running, 2)


def test_many_reapers_at_once_interrupt_each_task_once(opened, postgres_url):
    alive, late, _ = opened
    names = [f"t{n}" for n in range(40)]
    claim(late, *names)
    let_die(late)
    gone = alive.sharing.beat(RUN).gone
    others = [PostgresStore(postgres_url, shared=True) for _ in range(2)]
    barrier = threading.Barrier(3)

    def reap(store: PostgresStore) -> None:
        barrier.wait()
        release_gone(store, gone)

    with ThreadPoolExecutor(3) as pool:
        list(pool.map(reap, [alive, *others]))
    for store in others:
        store.close()
    rows = alive.find("task", [digest(name) for name in names]).values()
    assert {(row.state, row.interruptions) for row in rows} == {(State.queued, 1)}
    assert list(verify(alive)) == []


def test_who_left_counts_as_gone_without_a_lost_range(opened):
    alive, leaving, _ = opened
    leased = leaving.sharing.take(RUN, 4, 1)
    leaving.close()
    gone = alive.sharing.beat(RUN).gone
    assert leaving.incarnation in gone
    release_gone(alive, gone)
    assert alive.sharing.take(RUN, 4, 1) == leased


def test_a_duty_is_one_members_at_a_time(opened):
    first, second, third = (store.sharing for store in opened)
    assert first.hold("commands", 60)
    assert first.hold("commands", 0.2)
    assert not second.hold("commands", 60)
    time.sleep(0.25)
    assert second.hold("commands", 60), "it was not kept"
    assert not third.hold("commands", 60)
    assert third.hold("looks", 60), "each duty by itself"
    let_die(opened[1])
    first.beat(RUN)
    assert first.hold("commands", 60), "its member is dead"


def test_the_first_reason_to_stop_stays(opened):
    sharing = opened[0].sharing
    sharing.stop(RUN, b"first")
    opened[1].sharing.stop(RUN, b"second")
    assert opened[2].sharing.beat(RUN).stop == b"first"


def test_failures_of_others_and_the_status_are_heard(opened):
    first, second, _ = opened
    first.sharing.beat(RUN, failures=3)
    beat = second.sharing.beat(RUN, failures=2)
    assert (beat.failures, beat.status, beat.members) == (3, Status.running, 2)
    first.commit([Op(RUN, (ev.RunPaused("ann"),))]).result()
    changed = second.sharing.beat(RUN)
    assert changed.status is Status.paused
    assert changed.version != beat.version


def test_a_commit_that_waited_for_a_lock_sees_what_is_there_then(opened, postgres_server, postgres_url):
    """Another process ends the run meanwhile: a second end is refused."""
    schema = postgres_url.rpartition("schema=")[2]
    finished = ev.RunFinished(Status.completed, {"planned": 100, "generate.left": 100})
    with psycopg.connect(postgres_server) as other, ThreadPoolExecutor(1) as pool:
        other.execute(f"SET search_path = {schema}")
        other.execute("SELECT 1 FROM head FOR UPDATE")
        waiting = pool.submit(lambda: opened[0].commit([Op(RUN, (finished,))]).result())
        wait_for_a_lock(other)
        other.execute("UPDATE run SET status = 'cancelled'")
        other.execute("UPDATE head SET version = version + 1")
        other.commit()
        [refusal] = waiting.result()
    assert isinstance(refusal, Fenced)


def test_shares_of_a_pool_never_exceed_it_however_they_are_taken(opened):
    """Many take at the same time, and one dies with its share: the sum holds (S3)."""
    taken: list[float] = []

    def buy(store: PostgresStore) -> None:
        share = used = 0.0
        while True:
            drawn = store.sharing.draw(RUN, "budget.money", 200.0, 20.0, 0.7)
            if not drawn.given:
                break
            share += drawn.given
            while used + 0.7 <= share:
                used += 0.7
                taken.append(0.7)

    for store in opened:
        store.sharing.beat(RUN)
    with ThreadPoolExecutor(3) as pool:
        list(pool.map(buy, opened))
    assert 20 + sum(taken) <= 200
    assert 20 + sum(taken) > 200 - 3 * 0.7 * 4


def test_two_who_take_the_last_of_a_pool_do_not_both_get_it(opened):
    def draw(store: PostgresStore, scope: str) -> float:
        return sum(store.sharing.draw(RUN, scope, 12.0, 0.0, 1.0).given for _ in range(12))

    with ThreadPoolExecutor(3) as pool:
        for n in range(15):
            taken = sum(pool.map(draw, opened, [f"budget.calls {n}"] * 3))
            assert taken == 12.0


def test_a_pool_is_read_only_once_its_row_is_held(opened, postgres_server, postgres_url):
    """Another member takes the last of it meanwhile: nothing is given from what was there before (S3)."""
    first, second, _ = opened
    assert first.sharing.draw(RUN, "budget.calls", 12.0, 0.0, 4.0).given == 4.0
    with psycopg.connect(postgres_server) as other, ThreadPoolExecutor(1) as pool:
        other.execute(f"SET search_path = {Address.parse(postgres_url).schema}")
        other.execute("SELECT 1 FROM pool FOR UPDATE")
        waiting = pool.submit(lambda: second.sharing.draw(RUN, "budget.calls", 12.0, 0.0, 1.0))
        wait_for_a_lock(other)
        other.execute("UPDATE pool SET granted = 12")
        other.commit()
        drawn = waiting.result()
    assert (drawn.given, drawn.left) == (0.0, 0.0)


def test_what_others_want_is_given_back_and_what_the_dead_had_returns(opened):
    first, second, third = opened
    for store in opened:
        store.sharing.beat(RUN)
    scope = "budget.calls"
    shares = [store.sharing.draw(RUN, scope, 12.0, 0.0, 4.0).given for store in opened]
    assert shares == [4.0, 4.0, 4.0]
    nothing = first.sharing.draw(RUN, scope, 12.0, 0.0, 2.0)
    assert (nothing.given, nothing.left, nothing.hope) == (0.0, 0.0, True)
    assert second.sharing.settle(RUN, scope, 4.0, 3.0, 1.0) == 3.0, "it is wanted, and one of four is spare"
    third.sharing.settle(RUN, scope, 4.0, 4.0, 4.0)
    assert not first.sharing.draw(RUN, scope, 12.0, 0.0, 2.0).given
    let_die(second)
    gone = first.sharing.beat(RUN).gone
    [share] = [one for one in first.sharing.shares(gone) if one.member == second.incarnation]
    assert share.granted == 3.0
    first.sharing.give_back(share, 1.0)
    first.sharing.give_back(share, 0.0)  # once only
    first.sharing.released(gone)
    assert first.sharing.draw(RUN, scope, 12.0, 0.0, 3.0).given == 3.0
    last = first.sharing.draw(RUN, scope, 12.0, 0.0, 1.0)
    assert (last.given, last.hope) == (0.0, False), "all is spent, and nobody can give any back"


def test_times_to_send_are_each_given_once_and_spaced(opened):
    """Whoever takes them, and however many at once: the rate holds in any second (S4)."""
    times: list[float] = []

    def take(store: PostgresStore) -> None:
        for n in (1, 3, 2, 5, 1, 4):
            began = time.monotonic()
            first = began + store.sharing.take_turns("m", 0.01, n)
            times.extend(first + k * 0.01 for k in range(n))

    with ThreadPoolExecutor(3) as pool:
        list(pool.map(take, opened))
    times.sort()
    assert len(times) == 48
    assert times[-1] - times[0] >= 47 * 0.01 - 0.05


def test_slots_are_never_more_than_there_are(opened):
    first, second, _ = (store.sharing for store in opened)
    assert first.hold_slots("m", 8, 0, 20) == 8
    assert second.hold_slots("m", 8, 0, 20) == 0
    assert first.hold_slots("m", 8, 6, 20) == 6, "a fair part, but no fewer than are in use"
    assert second.hold_slots("m", 8, 0, 20) == 2
    assert first.hold_slots("m", 8, 3, 20) == 4
    assert second.hold_slots("m", 8, 2, 20) == 4
    assert first.hold_slots("m", 8, 0, 0) == 0
    assert second.hold_slots("m", 8, 4, 20) == 8
    let_die(opened[1])
    first.beat(RUN)
    assert first.hold_slots("m", 8, 0, 20) == 8, "slots end with the lease"


def test_a_pause_is_heard_by_all(opened):
    opened[1].sharing.close_model("m", 20.0)
    opened[2].sharing.close_model("m", 5.0)
    closed, _ = opened[0].sharing.model_state("m")
    assert 15 < closed <= 20
    opened[1].sharing.use_tokens("m", 3.0)
    assert 4 < opened[2].sharing.use_tokens("m", 2.0) <= 5


_examples = count()
_kind = st.sampled_from(["claim", "finish", "release", "interrupt"])
_action = st.tuples(_kind, st.integers(0, 2), st.integers(1, 3))


def _event(kind: str, task: str, epoch: int, owner: str) -> ev.AnyEvent:
    if kind == "claim":
        return ev.TasksClaimed("generate", "generate", owner, (task,), (epoch,))
    if kind == "finish":
        return ev.TaskFinished(task, epoch, State.failed)
    made = ev.TasksReleased if kind == "release" else ev.TasksInterrupted
    return made((task,), (epoch,))


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(_action, min_size=1, max_size=12), st.lists(_action, min_size=1, max_size=12))
def test_two_writers_make_one_history(opened, first, second):
    """Numbers are dense, each accepted op is recorded once, no other is, and a replay gives the rows (S6)."""
    example = next(_examples)
    run, tasks = digest(f"history {example}"), [digest(f"{example} {n}") for n in range(3)]
    opening = [Op(run, (ev.RunPlanned("", "study", 3),)), Op(run, (ev.RunStarted("1", 1),))]
    assert opened[0].commit(opening).result() == [None, None]

    def write(store: PostgresStore, actions) -> int:
        owner = str(store.incarnation)
        ops = [Op(run, (_event(kind, tasks[n], epoch, owner),)) for kind, n, epoch in actions]
        commits = [store.commit([op]) for op in ops]
        return sum(commit.result() == [None] for commit in commits)

    for store in opened:
        store.sharing.beat(RUN)
    with ThreadPoolExecutor(2) as pool:
        accepted = sum(pool.map(write, opened[:2], (first, second)))
    records = opened[2].events(run)
    assert [record.seq for record in records] == list(range(1, accepted + 3))
    assert replayed(opened[2].about(tasks), tasks) == opened[2].find("task", tasks)
