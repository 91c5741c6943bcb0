"""Reports in a real browser: they show what they should, ask nobody for anything, and run nothing else."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from peira.analysis.results import Results


class Page:
    """A page, and all that it said or asked for while it was looked at."""

    def __init__(self, chromium: Any, file: Path, width: int = 1280, scheme: str = "light") -> None:
        self.page = chromium.new_page(viewport={"width": width, "height": 800}, color_scheme=scheme)
        self.said: list[str] = []
        self.asked: list[str] = []
        self.page.on("console", lambda message: self.said.append(message.text))
        self.page.on("pageerror", lambda error: self.said.append(str(error)))
        self.page.on("request", lambda request: self.asked.append(request.url))
        self.page.goto(file.as_uri())

    def see(self, script: str) -> Any:
        return self.page.evaluate(script)


@pytest.fixture(scope="module")
def written(page: bytes, tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("report") / "report.html"
    file.write_bytes(page)
    return file


OPEN_ALL = "document.querySelectorAll('details').forEach(found => { found.open = true })"


@pytest.mark.parametrize(("width", "scheme"), [(1280, "light"), (390, "dark")])
def test_it_is_quiet_inert_and_fits(chromium: Any, written: Path, width: int, scheme: str) -> None:
    seen = Page(chromium, written, width, scheme)
    seen.see(OPEN_ALL)
    seen.page.mouse.move(width / 2, 400)
    assert seen.see("window.pwned") is None
    assert seen.said == []
    assert seen.asked == [written.as_uri()]
    assert seen.see("document.documentElement.scrollWidth") <= width
    outside = "[...document.querySelectorAll('section, header, pre, summary')].filter(found => "
    outside += "found.getBoundingClientRect().right > innerWidth + 1).length"
    assert seen.see(outside) == 0
    seen.page.close()


TEXT_SIZES = """() => [...document.querySelectorAll('.plot text')].filter(
    text => text.getBoundingClientRect().width > 0).map(text => {
        const scale = text.getScreenCTM();
        const size = parseFloat(getComputedStyle(text).fontSize) * Math.hypot(scale.a, scale.b);
        return [text.closest('.plot').id, size];
    })"""
READABLE = 9
"""Pixels of the smallest text that can be read on a phone."""


@pytest.mark.parametrize("width", [1280, 390])
def test_the_text_of_every_plot_can_be_read(chromium: Any, written: Path, width: int) -> None:
    seen = Page(chromium, written, width)
    seen.see(OPEN_ALL)
    sizes = seen.see(TEXT_SIZES)
    assert {plot for plot, _ in sizes} == set(
        seen.see("[...document.querySelectorAll('.plot')].map(one => one.id)")
    )
    assert {plot: size for plot, size in sizes if size < READABLE} == {}
    seen.page.close()


def test_what_models_said_is_there_as_text(chromium: Any, written: Path) -> None:
    seen = Page(chromium, written)
    assert seen.page.title() == "hostile <study> · report"
    texts = seen.see("[...document.querySelectorAll('.trial pre')].map(found => found.textContent)")
    assert "<script>window.pwned=1</script>" in texts
    assert any(text.startswith("\u27e6U+202E\u27e7right to left") for text in texts)
    assert seen.see("document.scripts.length") == 1
    assert seen.see("document.querySelectorAll('.trial').length") == 192
    seen.page.close()


def test_the_first_screen_has_question_answer_plot_and_table(chromium: Any, written: Path) -> None:
    seen = Page(chromium, written)
    top = "(name) => document.querySelector(name).getBoundingClientRect().top"
    for name in ("h1", ".answer", ".badges", ".facts", "#plot-forest svg", "#result table"):
        assert seen.page.evaluate(top, name) < 800
    assert seen.page.inner_text(".answer").startswith("H1 (Large <b>wins</b>) is supported")
    badges = seen.page.locator(".badges .badge").all_inner_texts()
    assert badges[:3] == ["tested as declared", "H1 supported", "H2 rejected"]
    for size in ("small", "wide"):  # each plot is there for small screens, too
        assert seen.see(f"document.querySelectorAll('.plot .{size} svg > title').length") == 10
    seen.page.close()


def test_trials_are_found_by_words_condition_and_result(chromium: Any, written: Path) -> None:
    seen = Page(chromium, written)
    page, count = seen.page, "document.querySelectorAll('.trial:not([hidden])').length"
    assert page.inner_text("#count") == "192 of 192"
    page.select_option("#verdict", "failed")
    assert (seen.see(count), page.inner_text("#count")) == (2, "2 of 192")
    page.select_option("#verdict", "")
    page.fill("#search", "onerror c1")
    assert 0 < seen.see(count) < 192
    page.fill("#search", "")
    page.locator("#conditions summary").first.click()
    page.locator(".jump").first.click()
    assert seen.see(count) == 24
    chosen = page.input_value("#condition")
    assert chosen == "model=small <b>, style=plain, mood=0"
    page.locator(".trial:not([hidden]) > summary").first.click()
    assert page.locator(".trial[open] h4").first.inner_text() == "INPUT"
    assert seen.said == []
    page.close()


def test_wrong_answers_are_found_and_not_green(chromium: Any, written: Path) -> None:
    seen = Page(chromium, written)
    seen.page.select_option("#verdict", "wrong")
    shown = "[...document.querySelectorAll('.trial:not([hidden]) .state')].map(one => one.textContent)"
    assert set(seen.see(shown)) == {"✗ wrong"}
    colour = "getComputedStyle(document.querySelector('.trial:not([hidden]) .state')).color"
    good = "getComputedStyle(document.querySelector('.state.correct')).color"
    assert seen.see(colour) != seen.see(good)
    asked = "document.querySelector('.trial:not([hidden]) .asked').textContent"
    assert seen.see(asked) == "<script>window.pwned=1</script>"
    seen.page.close()


def test_nothing_is_cut_off_on_a_narrow_screen(chromium: Any, written: Path) -> None:
    seen = Page(chromium, written, 390)
    seen.see(OPEN_ALL)
    cut = "[...document.querySelectorAll('td, svg, .wide')].filter(one => one.checkVisibility() && "
    cut += "(one.getBoundingClientRect().right > innerWidth + 1 || one.scrollWidth > one.clientWidth + 1 && "
    cut += "getComputedStyle(one).overflowX === 'auto')).length"
    assert seen.see(cut) == 0
    seen.page.close()


def test_it_is_dark_in_the_dark_and_plots_follow(chromium: Any, written: Path) -> None:
    colours = []
    for scheme in ("light", "dark"):
        seen = Page(chromium, written, scheme=scheme)
        colours.append(
            seen.see(
                "[getComputedStyle(document.querySelector('header')).backgroundColor,"
                "getComputedStyle(document.querySelector('#plot-forest .wide svg text')).fill]"
            )
        )
        seen.page.close()
    (light, ink), (dark, chalk) = colours
    assert light == "rgb(255, 255, 255)"
    assert sum(map(int, dark[4:-1].split(","))) < 150
    assert sum(map(int, ink[4:-1].split(","))) < 200 < sum(map(int, chalk[4:-1].split(",")))


def test_a_published_study_reads_in_a_minute(chromium: Any, gsm8k: Results, tmp_path: Path) -> None:
    seen = Page(chromium, gsm8k.report(tmp_path / "gsm8k.html", trials=40))
    answer = seen.page.inner_text(".answer").replace("\u00a0", " ")
    for number in ("+0.151 [0.131, 0.171]", "+0.194 [0.174, 0.215]", "+0.042 [0.005, 0.079]"):
        assert number in answer
    assert "40 of 5,276 trials are shown here" in seen.page.inner_text("#trials")
    assert seen.said == []
    seen.page.close()
