"""Trials are chosen by what earlier ones found, where those agree on the case and on shared factors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from peira.errors import Invalid
from peira.plan.expansion import expand
from peira.plan.manifest import keep, layout_of, read
from peira.plan.subset import EarlierRun, EarlierTrial
from peira.spec.study import Study

Make = Callable[..., Study]


def chosen(study: Study, past: list[EarlierTrial], where: str, **more: Any) -> list[tuple[Any, str, int]]:
    layout = expand(study, where=where, earlier=EarlierRun("run", past), **more).layout
    return [(p.condition.factors.get("style"), p.case.id, p.repeat) for p in layout.places()]


def past(case: str, match: float | None, failed: bool = False, **condition: Any) -> EarlierTrial:
    return EarlierTrial(condition, case, failed, {} if match is None else {"match": match})


def test_they_agree_on_the_case_and_on_factors_that_both_have(make: Make) -> None:
    found = [past("1", 0, style="a"), past("1", 1, style="b"), past("2", 0, style="b", other=5)]
    assert chosen(make(), found, "score.match == 0") == [("a", "1", 0), ("b", "2", 0)]
    apart = [past("1", 0, other=5), past("2", 1, other=5)]
    assert chosen(make(), apart, "score.match == 0") == [("a", "1", 0), ("b", "1", 0)]


def test_repeats_are_taken_together(make: Make) -> None:
    found = [past("1", 0, style="a"), past("1", 1, style="a"), past("2", 1, style="a")]
    assert chosen(make(), found, "score.match == 0.5") == [("a", "1", 0)]
    assert chosen(make(repeats=2), found, "score.match < 1 and repeat == 1") == [("a", "1", 1)]
    failed = [past("1", None, True, style="a"), past("1", 1, style="a"), past("2", 1, style="a")]
    assert chosen(make(), failed, "earlier.failed > 0") == [("a", "1", 0)]
    assert chosen(make(), failed, "earlier.trials == 2") == [("a", "1", 0)]
    assert len(chosen(make(), failed, "earlier.trials == 0")) == 2


def test_what_was_never_scored_is_not_chosen_by_its_score(make: Make) -> None:
    found = [past("1", 1, style="a"), past("2", None, True, style="a")]
    assert chosen(make(), found, "score.match != 0") == [("a", "1", 0)]
    with pytest.raises(Invalid, match="fits none of the 4 trials"):
        chosen(make(), found, "score.match > 1")


def test_what_the_run_did_not_score_is_said(make: Make) -> None:
    with pytest.raises(Invalid, match=r"no 'score.mach' in this study or that run.*'score.match'"):
        chosen(make(), [past("1", 1)], "score.mach == 0")
    with pytest.raises(Invalid, match=r"no 'score.match' in this study"):
        expand(make(), where="score.match == 0")


def test_the_choice_is_kept_as_it_was(make: Make) -> None:
    """It is read back without the earlier run, whatever has become of that."""
    found = [past("1", 0, style="a"), past("1", 1, style="b"), past("2", 0, style="b")]
    plan = expand(make(), where="score.match == 0", limit=1, earlier=EarlierRun("ab" * 32, found))
    blobs: dict[str, bytes] = {}

    def put(data: bytes) -> str:
        blobs[str(len(blobs))] = data
        return str(len(blobs) - 1)

    manifest = read(keep(plan, put), blobs.__getitem__)
    assert (manifest.earlier, manifest.where) == ("ab" * 32, "score.match == 0")
    assert list(layout_of(manifest, blobs.__getitem__).indexes()) == list(plan.layout.indexes())
