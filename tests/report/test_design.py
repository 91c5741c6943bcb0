"""Pictures of designs: every kind of factor, the same file each time, and clear refusals."""

from __future__ import annotations

from pathlib import Path

import pytest

from peira.core.space import Dimension, Point, Space
from peira.design.factorial.fractional import FractionalFactorial
from peira.design.sampling import LatinHypercube
from peira.errors import Invalid
from peira.report.design import draw

MIXED = Space(
    (
        Dimension("model", ("a $5 one", "另一個", "c")),
        Dimension("temperature", low=0, high=2, scale="continuous"),
        Dimension("size", (1, 2, 4), scale="integer"),
    )
)


@pytest.mark.parametrize("ending", ["svg", "png", "pdf"])
def test_the_same_design_is_the_same_file(tmp_path: Path, ending: str) -> None:
    points = list(LatinHypercube(runs=12).points(MIXED, 0))
    one, two = (draw(MIXED, points, tmp_path / f"{n}.{ending}", "a study") for n in (1, 2))
    assert one.read_bytes() == two.read_bytes()
    assert one.stat().st_size > 1000


def test_every_run_and_level_is_in_the_picture(tmp_path: Path) -> None:
    points = list(LatinHypercube(runs=12).points(MIXED, 0))
    drawn = draw(MIXED, points, tmp_path / "design.svg").read_text()
    assert "a $5 one" in drawn
    assert all(f">{nth}<" in drawn for nth in range(1, 13))


def test_many_runs_many_factors_one_factor_and_blocks(tmp_path: Path) -> None:
    many = Space(tuple(Dimension(f"f{n}", ("low", "high")) for n in range(12)))
    draw(many, list(FractionalFactorial(runs=512).points(many, 0)), tmp_path / "many.png")
    alone = Space((Dimension("a", ("x", "y")),))
    points = [Point({"a": "x"}, block="monday", replicates=3), Point({"a": "y"}, block="tuesday")]
    assert "1 [monday] x3" in draw(alone, points, tmp_path / "alone.svg").read_text()


def test_what_cannot_be_drawn_is_refused(tmp_path: Path) -> None:
    point = Point({"model": "c", "temperature": 1.0, "size": 2})
    with pytest.raises(Invalid, match=r"must end in one of \.svg, \.png, \.pdf"):
        draw(MIXED, [point], tmp_path / "design.jpg")
    with pytest.raises(Invalid, match="draws 1 to 2,000 runs, not 0"):
        draw(MIXED, [], tmp_path / "design.svg")
    with pytest.raises(Invalid, match="there is no folder"):
        draw(MIXED, [point], tmp_path / "none" / "design.svg")
