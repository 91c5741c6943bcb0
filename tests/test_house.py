"""The rules on names and addresses that a reader relies on (see CONTRIBUTING.md)."""

from __future__ import annotations

import ast
from collections import Counter, defaultdict
from pathlib import Path

import peira

ROOT = Path(peira.__file__).parent
MODULES = sorted(ROOT.rglob("*.py"))
MOST_FILES = 24
METAPHORS = {
    "acting",
    "asked",
    "betting",
    "buying",
    "comparing",
    "conduct",
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


def public_classes(path: Path) -> list[str]:
    tree = ast.parse(path.read_text())
    return [n.name for n in tree.body if isinstance(n, ast.ClassDef) and not n.name.startswith("_")]


def test_a_class_name_has_one_meaning() -> None:
    where = defaultdict(list)
    for path in MODULES:
        for name in public_classes(path):
            where[name].append(str(path.relative_to(ROOT)))
    assert {name: paths for name, paths in where.items() if len(paths) > 1} == {}


def test_no_folder_is_crowded() -> None:
    counts = Counter(path.parent.relative_to(ROOT) for path in MODULES)
    assert {str(folder): n for folder, n in counts.items() if n > MOST_FILES} == {}


def test_modules_are_named_by_nouns() -> None:
    assert [str(path.relative_to(ROOT)) for path in MODULES if path.stem in METAPHORS] == []


def test_every_module_says_what_it_is() -> None:
    bare = [path for path in MODULES if not ast.get_docstring(ast.parse(path.read_text()))]
    assert [str(path.relative_to(ROOT)) for path in bare] == []
