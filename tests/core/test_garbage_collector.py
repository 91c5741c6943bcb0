from __future__ import annotations

import gc

import pytest

from peira.core.garbage_collector import SELDOM, collection_paused


@pytest.fixture(autouse=True)
def as_it_was():
    """Nothing is left out at first; afterwards, as during all tests, what was there before them."""
    threshold = gc.get_threshold()
    gc.set_threshold(700, 10, 10)
    gc.unfreeze()
    yield
    gc.set_threshold(*threshold)
    gc.freeze()


def test_it_searches_seldom_meanwhile_and_is_set_as_it_was_afterwards() -> None:
    gc.set_threshold(701, 11, 12)
    with collection_paused():
        assert gc.get_threshold() == (SELDOM, 11, 12)
        assert gc.get_freeze_count()
        with collection_paused():
            assert gc.get_threshold()[0] == SELDOM
        assert gc.get_threshold()[0] == SELDOM
    assert gc.get_threshold() == (701, 11, 12)
    assert not gc.get_freeze_count()


def test_one_after_another_that_ends_first_does_not_set_it_free() -> None:
    first, second = collection_paused(), collection_paused()
    before = gc.get_threshold()
    first.__enter__()
    second.__enter__()
    first.__exit__(None, None, None)
    assert gc.get_threshold()[0] == SELDOM
    second.__exit__(None, None, None)
    assert gc.get_threshold() == before
    assert not gc.get_freeze_count()


@pytest.mark.parametrize("threshold", [(0, 10, 10), (SELDOM + 1, 10, 10)])
def test_whoever_set_it_to_less_is_heeded(threshold: tuple[int, int, int]) -> None:
    gc.set_threshold(*threshold)
    with collection_paused():
        assert gc.get_threshold() == threshold
        assert not gc.get_freeze_count()


def test_what_others_had_it_leave_out_stays_left_out() -> None:
    gc.freeze()
    left_out = gc.get_freeze_count()
    with collection_paused():
        pass
    assert gc.get_freeze_count() >= left_out - 100
