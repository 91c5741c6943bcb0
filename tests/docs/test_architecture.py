"""What docs/architecture.md names is in the code, and the code's threads and locks are on the page."""

from __future__ import annotations

import ast
import importlib
import re
import tomllib
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest

import peira

ROOT = Path(__file__).parents[2]
SOURCE = Path(peira.__file__).parent
PAGE = ROOT / "docs" / "architecture.md"
MODULES = sorted(SOURCE.rglob("*.py"))

FENCE = re.compile(r"^```text\n(.*?)^```$", re.MULTILINE | re.DOTALL)
SPAN = re.compile(r"`([^`\n]+)`")
IN_DIAGRAM = re.compile(r"\bpeira-\w+|\b_?[A-Z]\w*[a-z]\w*\.\w+|\b(?:[A-Z][a-z]+){2,}\b")
NUMBER = re.compile(r"^\| `(\w+\.\w+)` \| ([\d.]+)(?: s)? \|", re.MULTILINE)
LOCK = re.compile(r"^.*\b_\w+.*threading\.(?:R?Lock|Condition)\(", re.MULTILINE)


def names_in(body: list[ast.stmt]) -> set[str]:
    """What is defined in a module or a class: classes, functions, variables."""
    found = set()
    for node in body:
        if isinstance(node, (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)):
            found.add(node.name)
        elif isinstance(node, (ast.Assign, ast.AnnAssign)):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            found |= {one.id for target in targets for one in ast.walk(target) if isinstance(one, ast.Name)}
    return found


def attributes_of(cls: ast.ClassDef) -> set[str]:
    """Methods, fields, and what its methods assign to `self`."""
    assigned = {
        node.attr
        for node in ast.walk(cls)
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store)
    }
    return names_in(cls.body) | assigned


@dataclass(frozen=True)
class Code:
    """What the modules of the package define."""

    modules: dict[Path, set[str]]
    members: dict[str, set[str]]
    """What stands behind a dot, by what stands before it: a class, or a module by its last name."""
    threads: set[str]


@cache
def code() -> Code:
    """Read when a test asks, and without keeping syntax trees, which are a million objects."""
    modules: dict[Path, set[str]] = {}
    members: dict[str, set[str]] = defaultdict(set)
    threads: set[str] = set()
    for path in MODULES:
        text = path.read_text()
        tree = ast.parse(text)
        modules[path] = names_in(tree.body)
        members[path.parent.name if path.name == "__init__.py" else path.stem] |= modules[path]
        for node in tree.body:
            if isinstance(node, ast.ClassDef):
                members[node.name] |= attributes_of(node)
        threads.update(re.findall(r'name="(peira-\w+)"', text))
    return Code(modules, members, threads)


PACKAGES = {path.name for path in SOURCE.rglob("*") if path.is_dir()}


def known(name: str) -> bool:
    """Whether the repository has this path, thread, module or name."""
    if "/" in name:
        return (SOURCE / name).exists() or (ROOT / name).exists()
    if name.startswith("peira-"):
        return name in code().threads
    if name.startswith("peira."):
        return SOURCE.parent.joinpath(*name.split(".")).with_suffix(".py").exists()
    first, _, second = name.partition(".")
    if second:
        return second in code().members.get(first, ())
    return first in PACKAGES or any(first in defined for defined in code().modules.values())


def cited(text: str) -> Iterator[str]:
    """The code that a page names: in its text what is marked as such, in its diagrams what looks like it."""
    for diagram in FENCE.findall(text):
        yield from IN_DIAGRAM.findall(diagram)
    yield from SPAN.findall(FENCE.sub("", text))


def test_every_name_on_the_page_is_in_the_code() -> None:
    names = set(cited(PAGE.read_text()))
    assert len(names) > 150
    assert sorted(name for name in names if not known(name)) == []


@pytest.mark.parametrize(
    "text",
    [
        "see `Execution.absent`",
        "see `AbsentClass`",
        "see `engine/` and `engine/no_such_module`",
        "the thread `peira-absent`",
        "starts `peira.runners.absent`",
        "```text\nExecution.take -> Execution.absent\n```",
        "```text\nAbsentEvent\n```",
        "```text\npeira-absent\n```",
    ],
)
def test_a_name_that_is_not_there_is_noticed(text: str) -> None:
    assert [name for name in cited(text) if not known(name)] != []


def test_packages_stand_in_the_order_of_the_import_law() -> None:
    figure = FENCE.findall(PAGE.read_text())[0]
    lines = [re.split(r" {4,}", line)[0] for line in figure.splitlines()]
    drawn = [set(layer.split()) for line in lines for layer in line.split(">")]
    [law] = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    there = {path.stem for path in SOURCE.iterdir()}
    layers = [there.intersection(re.findall(r"\w+", layer)) for layer in law["layers"]]
    assert drawn == [layer for layer in layers if layer]


def test_every_number_is_the_one_in_the_code() -> None:
    rows = NUMBER.findall(PAGE.read_text())
    assert len(rows) >= 15
    for name, value in rows:
        module, _, constant = name.partition(".")
        [path] = [p for p, defined in code().modules.items() if p.stem == module and constant in defined]
        where = ".".join(path.relative_to(SOURCE.parent).with_suffix("").parts)
        assert getattr(importlib.import_module(where), constant) == float(value), name


def test_every_thread_is_on_the_page() -> None:
    assert code().threads - set(cited(PAGE.read_text())) == set()


def test_every_lock_of_the_engine_and_of_runners_is_on_the_page() -> None:
    shown = {name.rpartition(".")[2] for name in cited(PAGE.read_text())}
    locks = [
        re.findall(r"\b_\w+", found.group())
        for folder in ("engine", "runners")
        for path in sorted((SOURCE / folder).rglob("*.py"))
        for found in LOCK.finditer(path.read_text())
    ]
    assert len(locks) >= 14
    assert [names for names in locks if not shown.intersection(names)] == []
