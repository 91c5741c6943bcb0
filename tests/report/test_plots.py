"""Plots: the right points, the same picture each time, words for those who cannot see them."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from peira.analysis.results import Results
from peira.errors import Invalid, Unknown
from peira.report import PLOTS as PROMISED
from peira.report.builder import build
from peira.report.plots import PLOTS, plots_of, save_all
from peira.report.plots.canvas import Plot, drawn, inline
from peira.report.plots.curves import front
from peira.report.plots.effects import places
from peira.report.plots.files import NEEDS
from peira.report.sections.curves import _quantiles
from peira.report.value import PlotPoint, Priced, Report
from peira.stats.sequential.confidence_sequence import sequence

Make = Callable[..., Any]


def test_every_plot_is_drawn_and_is_the_same_file_each_time(built: Report, tmp_path: Path) -> None:
    assert sorted([*plots_of(built), "distribution"]) == sorted(
        PROMISED
    )  # of right and wrong, a mean says all
    one, two = (save_all(built, tmp_path / n) for n in "ab")
    assert len(one) == 2 * (len(PLOTS) - 1)
    for first, second in zip(one, two, strict=True):
        assert first.read_bytes() == second.read_bytes()
        if first.suffix == ".svg":
            root = ElementTree.parse(first).getroot()
            assert not [tag for tag in root.iter() if tag.tag.endswith("script")]


def test_every_plot_has_words_and_a_place_of_its_own_in_the_page(built: Report) -> None:
    for name, plot in plots_of(built).items():
        text = inline(plot, name)
        root = ElementTree.fromstring(text)
        assert root[0].text == plot.alt
        assert len(plot.alt) > 40
        assert all(found.get("id", f"{name}-").startswith(f"{name}-") for found in root.iter())
        assert "<style" not in text
        assert "font-family" not in text


def test_a_plot_by_its_name(hostile: Results, tmp_path: Path, trial: Make, results: Make) -> None:
    assert hostile.plot("forest", tmp_path / "f.svg").read_bytes().startswith(b"<?xml")
    assert hostile.plot("convergence", tmp_path / "c.png", score="took").read_bytes().startswith(b"\x89PNG")
    few = results([trial(n, {"match": n % 2 == 0}) for n in range(5)])
    with pytest.raises(Invalid, match="nothing to draw; calibration needs a score with the parts confidence"):
        few.plot("calibration", tmp_path / "x.svg")
    with pytest.raises(Invalid, match=r"must end in one of \.svg, \.png"):
        few.plot("forest", tmp_path / "x.jpg")
    with pytest.raises(Unknown, match="did you mean 'forest'"):
        few.plot("forrest", tmp_path / "x.svg")


@pytest.mark.parametrize("n", [1, 4, 7, 15])
def test_half_normal_places_are_those_of_the_distribution(n: int) -> None:
    wanted = stats.halfnorm.ppf([(i + 0.5) / n for i in range(n)])
    assert places(n) == pytest.approx(wanted, abs=1e-12)


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5)), min_size=1, max_size=8), st.booleans())
def test_nothing_on_the_front_is_beaten_and_all_else_is(pairs: list[tuple[int, int]], lower: bool) -> None:
    entries = tuple(
        Priced(str(n), PlotPoint("", q, None, None), PlotPoint("", c, None, None), None)
        for n, (q, c) in enumerate(pairs)
    )
    kept = {one.label for one in front(entries, lower)}
    assert kept
    for one, other in product(entries, entries):
        gain = (other.quality.mean or 0) - (one.quality.mean or 0)
        better, cheaper = (-gain if lower else gain), (one.price.mean or 0) - (other.price.mean or 0)
        if better >= 0 and cheaper >= 0 and (better > 0 or cheaper > 0):
            assert one.label not in kept
    beaten = [one for one in entries if one.label not in kept]
    assert len(kept) + len(beaten) == len(entries)


def test_the_band_holds_at_every_moment(trial: Make, results: Make) -> None:
    trials = [trial(n, {"match": (n * 7) % 10 < 6}) for n in range(200)]
    found = build(results(trials)).convergence
    assert found is not None
    assert found.always
    assert found.steps[-1].n == 200
    whole = sequence([float((n * 7) % 10 < 6) for n in range(200)])
    assert (found.steps[-1].low, found.steps[-1].high) == pytest.approx((whole.low, whole.high))
    for before, after in zip(found.steps, found.steps[1:], strict=False):
        assert before.low is not None
        assert after.low is not None
        assert after.low >= before.low


def test_confidence_is_held_against_what_was_right(trial: Make, results: Make) -> None:
    told = [{"confidence": 0.95, "correct": n < 60} for n in range(80)]
    told += [{"confidence": 0.15, "correct": n < 20} for n in range(100)]
    bins = build(results([trial(n, {"calibration": one}) for n, one in enumerate(told)])).calibration
    assert [(one.n, round(one.confidence, 3), one.correct.mean) for one in bins] == [
        (100, 0.15, 0.2),
        (80, 0.95, 0.75),
    ]


def test_the_heat_map_puts_the_hardest_cases_first(trial: Make, results: Make) -> None:
    trials = [trial(n, {"match": (n % 4) / 4 + (m == "b") / 8}, model=m) for n in range(8) for m in "ab"]
    heat = build(results(trials)).heat
    assert heat is not None
    assert heat.conditions == ("a", "b")
    means = [sum(value or 0 for value in row) for row in heat.values]
    assert means == sorted(means)


def test_a_plot_grows_until_there_is_room_for_it() -> None:
    """matplotlib warned, and with PYTHONWARNINGS=error the report of 33 conditions failed."""

    def draw(figure: Any) -> None:
        axes = figure.subplots()
        for n in range(60):
            axes.plot([0, 1], [n, n], label=f"condition {n}")
        figure.legend(loc="outside lower center", ncols=1)

    for kind in ("svg", "png"):
        assert drawn(Plot("crowded", "Crowded", "alt", 2.0, draw), kind)


def test_distributions_by_condition(trial: Make, results: Make, tmp_path: Path) -> None:
    made = results(
        [
            trial(n, {"grade": n / 10}, model=model, took=1.0 + n, metrics={"calls": 1.0, "cost": 0.01 * n})
            for n, model in product(range(11), ["a", "b"])
        ]
        + [
            trial(n, {"grade": (n + r) % 2}, repeat=r, model="c", took=2.0, metrics={"calls": 1.0})
            for n in range(4)
            for r in (0, 1, 2)
        ]
    )
    report = build(made, trials=0)
    grade, cost, took = report.distributions
    assert [one.measure for one in report.distributions] == ["grade", "cost", "took"]
    assert (grade.of, cost.of) == ("cases", "trials")
    assert [(one.label, one.n) for one in grade.conditions] == [("a", 11), ("b", 11), ("c", 4)]
    assert grade.conditions[0].quantiles == pytest.approx([n / 10 for n in range(11)])
    assert grade.conditions[2].quantiles == pytest.approx([1 / 3, 1 / 3, 2 / 3, 2 / 3])
    assert [one.label for one in cost.conditions] == ["a", "b"]  # that of c is not known
    assert took.conditions[2].quantiles == (2.0,) * 12
    for name in ("distribution", "costs", "seconds"):
        plot = plots_of(report)[name]
        assert "a: 0" in plot.alt or "a: 1" in plot.alt
        assert made.plot(name, tmp_path / f"{name}.svg").stat().st_size > 1000


@given(st.lists(st.floats(-1e6, 1e6), min_size=3, max_size=400))
def test_many_values_are_thinned_and_keep_their_ends(values: list[float]) -> None:
    kept = _quantiles(values)
    assert (kept[0], kept[-1]) == (min(values), max(values))
    assert list(kept) == sorted(kept)
    assert len(kept) == min(len(values), 101)


def test_what_has_two_values_has_no_distribution(trial: Make, results: Make, tmp_path: Path) -> None:
    made = results([trial(n, {"match": n % 2 == 0}, took=None) for n in range(9)])
    assert build(made, trials=0).distributions == ()
    with pytest.raises(Invalid, match="distribution needs a score with at least three different values"):
        made.plot("distribution", tmp_path / "d.svg")


def test_every_plot_says_what_it_needs() -> None:
    assert sorted(NEEDS) == sorted(PLOTS) == sorted(PROMISED)
