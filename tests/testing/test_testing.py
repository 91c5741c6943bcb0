"""The package itself: what it offers, and that it costs nothing to those who do not test."""

from __future__ import annotations

import subprocess
import sys

import pytest

import peira.testing
from peira.errors import Abandoned
from peira.testing import ManualClock, MemoryChannel


def test_every_name_it_offers_is_there() -> None:
    assert peira.testing.__all__ == sorted(peira.testing.__all__)
    for name in peira.testing.__all__:
        assert getattr(peira.testing, name) is not None


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="Nothing"):
        _ = peira.testing.Nothing


def test_neither_peira_nor_the_fakes_need_pytest() -> None:
    script = (
        "import sys; sys.modules['pytest'] = sys.modules['hypothesis'] = None\n"
        "import peira; from peira.testing import MemoryStore, ScriptedQueue; MemoryStore()"
    )
    subprocess.run([sys.executable, "-c", script], check=True)


def test_a_clock_moves_when_it_is_told_to() -> None:
    clock = ManualClock(100.0)
    clock.advance(2.5)
    assert (clock.now(), clock.monotonic()) == (102.5, 102.5)


def test_a_closed_channel_takes_nothing() -> None:
    channel = MemoryChannel({"key": b"1"})
    assert channel.recall("key") == b"1"
    folder = channel.workdir()
    channel.close()
    assert not folder.exists()
    with pytest.raises(Abandoned):
        channel.observe("late", {})
