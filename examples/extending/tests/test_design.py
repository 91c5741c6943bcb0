"""`corners` is a design. There is no suite for designs: a test says which points are expected."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from peira_extras.design import Corners

from peira.core.ids import Json
from peira.core.space import Dimension, Space
from peira.errors import Invalid

SPACE = (
    Dimension("style", ("plain", "brief", "long")),
    Dimension("heat", scale="continuous", low=0.0, high=1.0),
)


def points(space: Space) -> list[dict[str, Json]]:
    return [point.factors for point in Corners().points(space, seed=1)]


def test_it_has_the_extremes_of_every_factor() -> None:
    assert points(Space(SPACE)) == [
        {"style": style, "heat": heat} for style in ("plain", "long") for heat in (0.0, 1.0)
    ]


def test_it_has_no_point_that_is_not_admissible() -> None:
    def admits(point: Mapping[str, Json]) -> bool:
        return point["style"] == "plain" or point["heat"] == 0.0

    space = Space(SPACE, admits)
    assert len(points(space)) == Corners().size(space) == 3


def test_a_factor_with_one_level_has_one_corner() -> None:
    assert points(Space((Dimension("style", ("plain",)),))) == [{"style": "plain"}]


def test_the_seed_changes_nothing() -> None:
    space = Space(SPACE)
    assert list(Corners().points(space, seed=1)) == list(Corners().points(space, seed=2))


def test_wrong_options_are_refused() -> None:
    with pytest.raises(Invalid, match="replicates: must be at least 1, not 0"):
        Corners(replicates=0)
