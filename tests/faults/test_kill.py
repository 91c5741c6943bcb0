"""kill -9 at every named place and at random moments: nothing acknowledged is lost or done again."""

from __future__ import annotations

import pytest

from peira.core.failpoints import NAMES

ONCE = ("engine.after_plan", "engine.before_finish")
RARE = ("blob.before_rename", "blob.after_rename")
ELSEWHERE = (
    "backup.",
    "retention.",
    "merge.",
    "forget.",
    "control.",
    "shared.",
    "recovery.",
    "engine.before_wait",
)
COUNTS = {
    name: (1,) if name in ONCE else (1, 4) if name in RARE else (1, 3, 17) if "store" in name else (1, 17)
    for name in NAMES
    # What other commands pass (backup, gc, merge, worker, ...), and what waits for people, is tested where
    # those are.
    if not name.startswith(ELSEWHERE)
}
PLACES = [f"{name}:{count}" for name, counts in COUNTS.items() for count in counts]
MOMENTS = range(8)
MORE_MOMENTS = range(8, 208)


@pytest.mark.parametrize("place", PLACES)
def test_killed_at_a_named_place(place, bench, reference) -> None:
    assert bench.kill_at(place) == -9
    bench.check_readable()
    bench.check_nothing_lost()
    bench.recover(reference)


@pytest.mark.parametrize("moment", MOMENTS, indirect=True)
def test_killed_at_a_random_moment(moment, bench, reference) -> None:
    moment.strike(bench, reference)
    bench.check_readable()
    bench.check_nothing_lost()
    bench.recover(reference)


@pytest.mark.torture
@pytest.mark.parametrize("moment", MORE_MOMENTS, indirect=True)
def test_killed_at_many_random_moments(moment, bench, reference) -> None:
    moment.strike(bench, reference)
    bench.check_readable()
    bench.check_nothing_lost()
    bench.recover(reference)


@pytest.mark.parametrize(
    "places",
    [
        ("engine.after_claim:3", "store.after_commit:9", "step.after_record:5", "engine.before_end:4"),
        (
            "store.before_commit:12",
            "blob.after_rename:2",
            "store.after_acknowledge:8",
            "engine.before_finish:1",
        ),
    ],
    ids=["claims and steps", "commits and blobs"],
)
def test_killed_again_and_again(places, bench, reference) -> None:
    bench.interruptions = 50  # innocent trials are hit each time, and must all come through
    for place in places:
        bench.kill_at(place)
        bench.check_nothing_lost()
    bench.recover(reference)


@pytest.mark.parametrize("moment", range(300, 302), indirect=True)
def test_killed_at_random_moments_in_a_row(moment, bench, reference) -> None:
    bench.interruptions = 50
    for _ in range(3):
        moment.strike(bench, reference)
        bench.check_nothing_lost()
    bench.recover(reference)
