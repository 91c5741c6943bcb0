"""The rules on names and addresses that a reader relies on (see CONTRIBUTING.md)."""

from __future__ import annotations

import ast
import re
from collections import Counter, defaultdict
from functools import cache
from itertools import chain
from pathlib import Path

import peira

ROOT = Path(peira.__file__).parent
TESTS = Path(__file__).parent
OUTSIDE = [
    path for name in ("benchmarks", "docs", "examples") for path in (TESTS.parent / name).rglob("*.py")
]
"""Programs of the repository that are neither the package nor its tests."""
MODULES = sorted(ROOT.rglob("*.py"))
MOST_FILES = 20
MOST_LINES = 700
LONGEST = {
    "analysis/results.py",  # the methods of one class that users call
    "core/contracts.py",  # the interfaces between the packages, on one page
    "core/log/events.py",  # all events
    "stores/sqlite/store.py",
}
"""Modules that are one concept with more lines than `MOST_LINES`."""
SMALL = 100
"""A helper of fewer lines that one module imports is in that module, or private beside it."""
METAPHORS = {
    "acting",
    "asked",
    "betting",
    "buying",
    "comparing",
    "conduct",
    "desk",
    "door",
    "ending",
    "even",
    "judged",
    "judging",
    "laid",
    "laid_out",
    "matched",
    "otherwise",
    "plain",
    "quill",
    "remembering",
    "rooms",
    "seen",
    "settling",
    "shelf",
    "slips",
    "taken",
    "telling",
    "told",
}
IMPORT = re.compile(
    r"^\s*(?:from (peira[\w.]*) import (?:\(([^)]*)\)|(.*))|import (peira[\w.]*))", re.MULTILINE
)
LISTED = ("cli.commands", "report.exports", "report.writers", "web.pages")
"""Packages of commands, formats and pages: what users name, each in a module that a list names."""
PARTICIPLES = re.compile(r".*(ed|ing)")
NOUNS = {
    *("aliasing", "closing", "embedding", "encoding", "feed", "listing", "monitoring", "racing", "ranking"),
    *("rendering", "resampling", "rescoring", "sampling", "screening", "sharing", "spending", "stopping"),
    *("testing", "waiting"),
    *("bounded", "paired", "prediction_powered", "unpaired"),  # kinds of intervals and of tests
    "scripted",  # the name of a provider
}
"""Names that end like participles and are nouns, or terms of statistics."""


@cache
def syntax(path: Path) -> ast.Module:
    return ast.parse(path.read_text())


def address(path: Path) -> str:
    """The dotted name of a module."""
    return ".".join(("peira", *path.relative_to(ROOT).with_suffix("").parts)).removesuffix(".__init__")


@cache
def importers() -> dict[str, set[str]]:
    """For each module the modules that import it."""
    names = {address(path): path for path in MODULES}
    found: dict[str, set[str]] = defaultdict(set)
    for name, path in names.items():
        for module, several, one, whole in IMPORT.findall(path.read_text()):
            parts = re.findall(r"\w+", several or one)
            for imported in {module, whole, *(f"{module}.{part}" for part in parts)} & set(names) - {name}:
                found[imported].add(name)
    return found


def folder(module: str) -> str:
    return module.rpartition(".")[0]


def public_classes(path: Path) -> list[str]:
    return [n.name for n in syntax(path).body if isinstance(n, ast.ClassDef) and not n.name.startswith("_")]


def test_a_class_name_has_one_meaning() -> None:
    where = defaultdict(list)
    for path in MODULES:
        for name in public_classes(path):
            where[name].append(str(path.relative_to(ROOT)))
    assert {name: paths for name, paths in where.items() if len(paths) > 1} == {}


def test_no_folder_is_crowded() -> None:
    counts = Counter(path.parent for path in chain(MODULES, OUTSIDE, TESTS.rglob("*.py")))
    assert len(OUTSIDE) > 40
    assert {str(folder): n for folder, n in counts.items() if n > MOST_FILES} == {}


def test_modules_are_named_by_nouns() -> None:
    names = {path.stem if path.name != "__init__.py" else path.parent.name for path in MODULES}
    assert names & METAPHORS == set()
    assert {name for name in names if PARTICIPLES.fullmatch(name)} - NOUNS == set()
    assert NOUNS - names == set()


def test_every_module_says_what_it_is() -> None:
    bare = [path for path in MODULES if not ast.get_docstring(syntax(path))]
    assert [str(path.relative_to(ROOT)) for path in bare] == []


def test_a_module_is_one_concept() -> None:
    lines = {str(path.relative_to(ROOT)): len(path.read_text().splitlines()) for path in MODULES}
    assert {name for name, n in lines.items() if n > MOST_LINES} - LONGEST == set()


def test_a_small_helper_of_one_module_is_private() -> None:
    small = [path for path in MODULES if len(path.read_text().splitlines()) < SMALL]
    users = {address(path): importers()[address(path)] for path in small if path.name != "__init__.py"}
    helpers = {name for name, by in users.items() if len(by) == 1 and {*map(folder, by)} == {folder(name)}}
    listed = {name for name in helpers if name.startswith(tuple(f"peira.{package}." for package in LISTED))}
    assert {name for name in helpers - listed if not name.rpartition(".")[2].startswith("_")} == set()


def test_private_modules_are_used_beside_them_only() -> None:
    private = {address(path) for path in MODULES if re.match(r"_[a-z]", path.stem)}
    assert len(private) > 5
    users = {name: importers()[name] for name in private}
    assert {name: by for name, by in users.items() if {*map(folder, by)} != {folder(name)}} == {}


def test_tests_are_where_their_subjects_are() -> None:
    packages = {path.name for path in ROOT.iterdir() if path.is_dir()}
    folders = {path.parent.relative_to(TESTS) for path in TESTS.rglob("test_*.py")}
    mirrored = {path for path in folders if path.parts and path.parts[0] in packages - {"work"}}
    assert len(mirrored) > 30
    assert {str(path) for path in mirrored if not (ROOT / path).is_dir()} == set()
