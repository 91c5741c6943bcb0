"""What is written: the same each time, whole or not at all, with no text that means more than itself."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from peira.analysis.results import Results
from peira.core.text.latex import SPECIAL
from peira.errors import Invalid, Unknown
from peira.report.builder import build
from peira.report.value import Report
from peira.report.writers.formats import RENDERERS
from peira.report.writers.html import LONGEST, html, visible
from peira.report.writers.latex import escape, latex
from peira.report.writers.markdown import markdown, said
from peira.report.writers.pdf import browser

Make = Callable[..., Any]
ODD = st.text(st.characters(codec="utf-8")) | st.text("\\{}$&#%_^~<>|\"`'[]-*\n\u202e\x00 ab", max_size=30)


def test_the_same_results_are_the_same_file(
    hostile: Results, built: Report, page: bytes, tmp_path: Path
) -> None:
    file = hostile.report(tmp_path / "a.html")
    assert file.read_bytes() == page
    assert [path.name for path in tmp_path.iterdir()] == ["a.html"]
    again = build(hostile)
    assert again == built
    for form in ("md", "tex", "json"):
        assert RENDERERS[form](again) == RENDERERS[form](built)


def test_a_report_replaces_the_one_before_and_nothing_else(hostile: Results, tmp_path: Path) -> None:
    (tmp_path / "a.md").write_text("old")
    hostile.report(tmp_path / "a.md")
    assert (tmp_path / "a.md").read_text().startswith("# hostile &lt;study>")
    (tmp_path / "b.md").mkdir()
    with pytest.raises(Invalid, match="is a folder; name a file in it"):
        hostile.report(tmp_path / "b.md")
    with pytest.raises(Invalid, match="there is no folder"):
        hostile.report(tmp_path / "none" / "a.md")
    with pytest.raises(Unknown, match="no report 'htm'; did you mean 'html'"):
        hostile.report(tmp_path / "a.htm")


def test_no_element_of_a_page_is_anybodys_but_ours(page: bytes) -> None:
    text = page.decode()
    assert text.count("<script>") == 1
    assert "<img" not in text
    assert "<b>wins" not in text
    inside = re.sub(r"<style>.*?</style>|<script>.*?</script>", "", text, flags=re.DOTALL)
    tags = re.findall(r"<[a-zA-Z][^>]*>", inside)
    assert not [tag for tag in tags if re.search(r"\son\w+=", tag)]
    assert "http" not in "".join(tags).replace("http-equiv", "").replace("http://www.w3.org/1999/xlink", "")
    assert not re.search("[\u202a-\u202e\u2066-\u2069\x00-\x08]", text)
    ids = re.findall(r'\bid="([^"]*)"', inside)
    assert len(ids) == len(set(ids))


def test_long_texts_are_cut_and_the_rest_is_told_of(trial: Make, results: Make) -> None:
    page = html(build(results([trial(0, {"match": True}, output="w" * 1_000_000, id="5" * 64)]))).decode()
    assert len(page) < 200_000
    assert "all 1,000,000 characters of the output" in page
    assert f"{1_000_000 - LONGEST:,} more characters are not in this file" in page
    assert "peira show ffffffffffff 555555555555" in page


@given(ODD)
def test_latex_says_every_character_and_obeys_none(text: str) -> None:
    back = {value: key for key, value in SPECIAL.items()}
    known = "|".join(map(re.escape, sorted(back, key=len, reverse=True)))
    escaped = escape(text)
    assert re.sub(known, lambda found: back[found[0]], escaped) == " ".join(visible(text).split())
    assert not re.search(r"[\\{}$&#%_^~]", re.sub(known, "", escaped))


@given(ODD)
def test_markdown_says_every_character_and_obeys_none(text: str) -> None:
    line = said(text)
    assert "\n" not in line
    assert not re.search(r"(?<!\\)(?:\\\\)*[|*_`\[\]~<]", line)
    bare = re.sub(r"\\([\\|*_`\[\]~#>+.\-\d)])", r"\1", line).replace("&lt;", "<").replace("&amp;", "&")
    assert bare == " ".join(visible(text).split())


@given(st.text(st.characters(codec="utf-8")))
def test_what_is_visible_hides_and_reorders_nothing(text: str) -> None:
    shown = visible(text)
    assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200b\u200e\u200f\u202a-\u202e\u2066-\u2069]", shown)
    assert visible(shown) == shown


def test_the_latex_is_whole(built: Report) -> None:
    text = latex(built).decode()
    begun, ended = (re.findall(rf"\\{word}{{(\w+)}}", text) for word in ("begin", "end"))
    assert sorted(begun) == sorted(ended)
    assert text.count("\\end{document}") == 1
    bare = re.sub(r"\\[\\{}]", "", text)
    assert bare.count("{") == bare.count("}")
    assert "\\section{Methods}" in text
    assert "+0." in text


@pytest.mark.skipif(shutil.which("pdflatex") is None, reason="there is no pdflatex to compile with")
def test_the_latex_compiles(built: Report, tmp_path: Path) -> None:
    (tmp_path / "report.tex").write_bytes(latex(built))
    command = ["pdflatex", "-draftmode", "-interaction=nonstopmode", "-halt-on-error", "report.tex"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, check=False)
    assert done.returncode == 0, done.stdout.decode(errors="replace")[-2000:]


def test_markdown_fences_hold(built: Report) -> None:
    text = markdown(built).decode()
    outside, fence = [], ""
    for line in text.splitlines():
        found = re.match(r"`{3,}", line)
        if fence:
            fence = "" if line == fence else fence
        elif found:
            fence = found[0]
        else:
            outside.append(line)
    assert not fence
    assert not any("<script" in line or "<b>" in line or "<img" in line for line in outside)
    assert "**Answer.** H1 (Large &lt;b>wins&lt;/b>) is supported" in text


def test_the_document_has_all_that_is_said(built: Report) -> None:
    document = json.loads(RENDERERS["json"](built))
    assert document["answer"] == built.answer
    assert [one["verdict"] for one in document["findings"]] == ["supported", "rejected"]
    assert document["scores"][0]["name"] == "match"
    assert len(document["trials"]) == len(built.trials) == 192


def test_without_matplotlib_there_are_tables_and_a_word_about_it(
    hostile: Results, built: Report, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    page = html(built).decode()
    assert "Plots need matplotlib: <code>pip install" in page
    assert "<svg" not in page
    assert "H1: model=large - model=small &lt;b&gt;" in page
    with pytest.raises(Invalid, match=r"plots need matplotlib: pip install 'peira\[plot\]'"):
        hostile.plot("forest", tmp_path / "forest.svg")


@pytest.mark.skipif(browser() is None, reason="there is no browser to print with: install chromium")
def test_a_report_can_be_printed(hostile: Results, tmp_path: Path) -> None:
    assert hostile.report(tmp_path / "report.pdf").read_bytes().startswith(b"%PDF-")


def test_without_a_browser_it_says_what_to_install(
    hostile: Results, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(Invalid, match=r"install chromium, or write \.html and print that"):
        hostile.report(tmp_path / "report.pdf")
    assert not list(tmp_path.iterdir())
