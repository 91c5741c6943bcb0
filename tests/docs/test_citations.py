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
