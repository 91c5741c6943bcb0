"""Nothing in the repository cites a file that is not in it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import peira

ROOT = Path(__file__).parents[2]
PACKAGES = sorted(path.name for path in Path(peira.__file__).parent.iterdir() if path.is_dir())
CITING = [
    *ROOT.glob("*.md"),
    ROOT / "Makefile",
    ROOT / "pyproject.toml",
    *(ROOT / ".ci").iterdir(),
    *(
        path
        for folder in ("benchmarks", "docs", "src", "tests")
        for path in (ROOT / folder).rglob("*")
        if path.suffix in (".py", ".md")
    ),
]
LINK = re.compile(r"\]\(([^)#\s]+)(?:#[^)\s]*)?\)")
IN_REPOSITORY = re.compile(r"(?<![\w/.*{-])((?:\.ci|benchmarks|docs|src|tests)/[\w/.-]*\w)(?![\w*{}]|/\*)")
IN_PACKAGE = re.compile(rf"(?<![\w/.-])((?:peira/)?(?:{'|'.join(PACKAGES)})/[\w/]+\.py)\b")
ANCHOR = re.compile(r"\]\(([^)#\s]*)#([^)\s]+)\)")
HEADING = re.compile(r"^#+ (.*)$", re.MULTILINE)
DEFINED = re.compile(r"`(\w+)` \(`(src/[\w/]+\.py)`\)")
PAGE = re.compile(r"(?<![\w/.-])([A-Z]{3,}\.md)\b")


OF_USERS = ("docs/work.md", "src/peira/spec/work/plan.py", "tests/work/")
"""Where work plans stand: they name files of their users' repositories."""


def cited(path: Path) -> Iterator[tuple[str, Path]]:
    """What a file cites, and where it should be."""
    text = path.read_text()
    of_users = path.is_relative_to(ROOT) and path.relative_to(ROOT).as_posix().startswith(OF_USERS)
    for found in PAGE.findall(text) + ([] if of_users else IN_REPOSITORY.findall(text)):
        yield found, ROOT / found
    for found in IN_PACKAGE.findall(text):
        yield found, ROOT / "src" / "peira" / found.removeprefix("peira/")
    if path.suffix == ".md":
        for found in LINK.findall(text):
            if "://" not in found:
                yield found, path.parent / found


def anchors(page: Path) -> set[str]:
    """What links to the headings of a page end with."""
    headings = HEADING.findall(page.read_text())
    return {re.sub(r"[^\w\- ]", "", heading.strip().lower()).replace(" ", "-") for heading in headings}


def lost_anchors(path: Path) -> list[str]:
    """Links of a page to headings that are not there."""
    links = [(place, name) for place, name in ANCHOR.findall(path.read_text()) if "://" not in place]
    return [
        f"{path.name}: {place}#{name}"
        for place, name in links
        if name not in anchors(path.parent / place if place else path)
    ]


def missing(paths: list[Path]) -> list[str]:
    return sorted(
        f"{path.relative_to(ROOT)}: {found}"
        for path in paths
        if path.exists()
        for found, place in cited(path)
        if not place.exists()
    )


def test_every_file_that_is_cited_is_there() -> None:
    assert len(CITING) > 500
    assert missing([path for path in CITING if path != Path(__file__)]) == []


def test_every_heading_that_is_linked_is_there() -> None:
    pages = [path for path in CITING if path.suffix == ".md"]
    assert sum(len(ANCHOR.findall(path.read_text())) for path in pages) > 15
    assert [link for path in pages for link in lost_anchors(path)] == []


def test_a_heading_that_is_not_there_is_noticed(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("# A page\n## Several `workers`\n[one](#several-workers), [another](page.md#workers)\n")
    assert lost_anchors(page) == ["page.md: page.md#workers"]


def test_what_a_page_finds_in_a_module_is_defined_there() -> None:
    found = [(path, *pair) for path in CITING for pair in DEFINED.findall(path.read_text())]
    assert len(found) >= 5
    lost = [
        f"{path.name}: {name} in {module}"
        for path, name, module in found
        if not re.search(rf"^(?:def |class )?{name}\b", (ROOT / module).read_text(), re.MULTILINE)
    ]
    assert lost == []


@pytest.mark.parametrize(
    "text",
    [
        "see ABSENT.md, part B",
        "as `docs/absent.md` says",
        "kept by `tests/core/test_absent.py`.",
        "the loop of engine/absent.py",
        "[a page](absent.md#part)",
    ],
)
def test_a_file_that_is_not_there_is_noticed(tmp_path: Path, text: str) -> None:
    page = tmp_path / "page.md"
    page.write_text(text)
    [(_, place)] = cited(page)
    assert not place.exists()
