from __future__ import annotations

import asyncio
import gc
import threading
import weakref
from concurrent.futures import Future, ThreadPoolExecutor

import pytest

from peira.core.mailbox import Mailbox, future_result
from peira.errors import Exhausted


class Counting(asyncio.SelectorEventLoop):
    """Counts how often another thread woke it."""

    woken = 0

    def call_soon_threadsafe(self, *given, **more):
        self.woken += 1
        return super().call_soon_threadsafe(*given, **more)


def test_messages_of_each_thread_arrive_once_and_in_order() -> None:
    async def receive() -> list[tuple[int, int]]:
        came: list[tuple[int, int]] = []
        everything = asyncio.Event()

        def deliver(message: tuple[int, int]) -> None:
            came.append(message)
            if len(came) == 8 * 500:
                everything.set()

        box = Mailbox(asyncio.get_running_loop(), deliver)

        def post(thread: int) -> None:
            for n in range(500):
                box.post((thread, n))

        threads = [threading.Thread(target=post, args=(i,)) for i in range(8)]
        for thread in threads:
            thread.start()
        await asyncio.wait_for(everything.wait(), 20)
        for thread in threads:
            thread.join()
        return came

    came = asyncio.run(receive())
    assert all([n for t, n in came if t == thread] == list(range(500)) for thread in range(8))


def test_many_messages_wake_the_loop_once() -> None:
    loop = Counting()
    came: list[int] = []
    box = Mailbox(loop, came.append)
    for n in range(100):
        box.post(n)
    assert loop.woken == 1
    loop.run_until_complete(asyncio.sleep(0))
    box.post(100)
    assert loop.woken == 2
    loop.run_until_complete(asyncio.sleep(0))
    loop.close()
    assert came == list(range(101))


def test_nothing_can_be_posted_to_a_loop_that_is_closed() -> None:
    loop = asyncio.new_event_loop()
    box = Mailbox(loop, print)
    loop.close()
    with pytest.raises(RuntimeError, match="closed"):
        box.post("late")


def test_results_and_exceptions_of_other_threads_arrive() -> None:
    async def wait() -> list[object]:
        with ThreadPoolExecutor(4) as pool:
            good = [pool.submit(lambda n=n: n * n) for n in range(50)]
            bad = pool.submit(int, "x")
            values = await asyncio.gather(*map(future_result, good))
            with pytest.raises(ValueError, match="invalid literal"):
                await future_result(bad)
            signal: Future[None] = Future()
            signal.set_exception(Exhausted("no more"))
            with pytest.raises(Exhausted):
                await future_result(signal)
        return list(values)

    assert asyncio.run(wait()) == [n * n for n in range(50)]


def test_who_stops_waiting_cancels_nothing() -> None:
    async def give_up() -> None:
        slow: Future[str] = Future()
        waiting = asyncio.ensure_future(future_result(slow))
        await asyncio.sleep(0)
        waiting.cancel()
        await asyncio.wait([waiting])
        assert waiting.cancelled()
        assert not slow.cancelled()
        slow.set_result("late")
        await asyncio.sleep(0.01)
        assert await future_result(slow) == "late"

    asyncio.run(give_up())


def test_what_comes_after_the_loop_was_closed_disturbs_nobody(caplog: pytest.LogCaptureFixture) -> None:
    slow: Future[str] = Future()

    async def leave() -> None:
        waiting = asyncio.ensure_future(future_result(slow))
        await asyncio.sleep(0)
        waiting.cancel()

    asyncio.run(leave())
    slow.set_result("late")
    assert caplog.text == ""


def test_a_loop_is_not_kept_by_those_who_waited_on_it() -> None:
    def used() -> weakref.ref[asyncio.AbstractEventLoop]:
        loop = asyncio.new_event_loop()
        done: Future[int] = Future()
        done.set_result(1)
        assert loop.run_until_complete(future_result(done)) == 1
        loop.close()
        return weakref.ref(loop)

    loops = [used() for _ in range(3)]
    gc.collect()
    assert [loop() for loop in loops] == [None] * 3


def test_a_loop_that_posts_wakes_the_other_once_it_has_posted_all() -> None:
    loop = Counting()
    came: list[int] = []
    box = Mailbox(loop, came.append)

    async def post(n: int) -> None:
        box.post(n)
        assert loop.woken == 0

    async def many() -> None:
        await asyncio.gather(*map(post, range(20)))
        await asyncio.sleep(0)

    asyncio.run(many())
    assert loop.woken == 1
    loop.run_until_complete(asyncio.sleep(0))
    assert came == list(range(20))
    loop.close()


def test_a_loop_that_is_blocked_after_posting_keeps_nobody_else_from_waking() -> None:
    loop, came = asyncio.new_event_loop(), list[str]()
    box = Mailbox(loop, came.append)

    def other_posts() -> None:
        box.post("other")
        loop.run_until_complete(asyncio.sleep(0))

    async def post_and_block() -> None:
        box.post("blocked")
        other = threading.Thread(target=other_posts)
        other.start()
        other.join(timeout=10)

    asyncio.run(post_and_block())
    assert came == ["blocked", "other"]
    loop.close()
