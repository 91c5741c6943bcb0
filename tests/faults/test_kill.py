"""kill -9 at every named place and at random moments: nothing acknowledged is lost or done again."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import peira
from peira.core.failpoints import NAMES

HERE = Path(__file__)

ONCE = ("engine.after_plan", "engine.before_finish")
RARE = ("blob.before_rename", "blob.after_rename")
ELSEWHERE = (
    "backup.",
    "batch.",
    "blob.before_put",
    "blob.after_put",
    "control.",
    "engine.before_wait",
    "forget.",
    "ledger.",
    "merge.",
    "recovery.",
    "retention.",
    "shared.",
    "tool.",
)
"""What this study does not pass: other commands, calls, people, workers, buckets. Tested where those are."""
COUNTS = {
    name: (1,) if name in ONCE else (1, 4) if name in RARE else (1, 3, 17) if "store" in name else (1, 17)
    for name in NAMES
    if not name.startswith(ELSEWHERE)
}
PLACES = [f"{name}:{count}" for name, counts in COUNTS.items() for count in counts]
MOMENTS = range(8)
MORE_MOMENTS = range(8, 208)


def test_no_place_is_left_out() -> None:
    """Every failpoint of the code is listed, and some test kills a process there."""
    sources = Path(peira.__file__).parent.rglob("*.py")
    found = {name for file in sources for name in re.findall(r'\breach\("([^"]+)"\)', file.read_text())}
    assert found == set(NAMES)
    tests = "".join(file.read_text() for file in Path(__file__).parents[1].rglob("*.py") if file != HERE)
    assert [name for name in NAMES if name not in COUNTS and f'"{name}' not in tests] == []


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
