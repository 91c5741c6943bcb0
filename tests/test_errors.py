"""Every exception class of peira stands on one page, and in the tree that its docstring draws."""

from __future__ import annotations

import ast
import builtins
import re
from pathlib import Path

import pytest

from peira import errors

SOURCE = Path(errors.__file__).parent
PAGE = {
    name: kind
    for name, kind in vars(errors).items()
    if isinstance(kind, type) and issubclass(kind, BaseException) and kind.__module__ == errors.__name__
}
BUILT_IN = {
    name
    for name, kind in vars(builtins).items()
    if isinstance(kind, type) and issubclass(kind, BaseException)
}
DRAWN = re.compile(r"^    ((?:│   |    )*)([├└]── )?(\w+)(?: \((\w+)\))?(?:\s|$)", re.MULTILINE)


def raisable(kind: ast.ClassDef) -> bool:
    """Whether a class derives from an exception, by the names of its bases."""
    bases = [ast.unparse(base).split(".")[-1] for base in kind.bases]
    return any(
        base in PAGE or base in BUILT_IN or base.endswith(("Error", "Exception", "Warning")) for base in bases
    )


SANDBOXED = {SOURCE / "evaluators" / name for name in ("code_driver.py", "code_values.py")}
"""Files that are executed by a sandbox's Python, which sees nothing else of peira."""


def test_no_exception_class_is_defined_elsewhere() -> None:
    stray = [
        f"{path.relative_to(SOURCE)}: {node.name}"
        for path in sorted(SOURCE.rglob("*.py"))
        if path != Path(errors.__file__) and path not in SANDBOXED
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.ClassDef) and raisable(node)
    ]
    assert stray == []


def drawn() -> dict[str, tuple[str | None, str | None]]:
    """Each class of the trees in the docstring: its parent, and the other base that is said of it."""
    above: list[str] = []
    found: dict[str, tuple[str | None, str | None]] = {}
    for indent, branch, name, other in DRAWN.findall(errors.__doc__ or ""):
        depth = len(indent) // 4 + bool(branch)
        found[name] = (above[depth - 1] if depth else None, other or None)
        above[depth:] = [name]
    return found


@pytest.mark.parametrize("name", [name for name, kind in PAGE.items() if issubclass(kind, Exception)])
def test_the_tree_says_from_what_each_derives(name: str) -> None:
    parent, other = drawn()[name]
    bases = {base.__name__ for base in PAGE[name].__bases__}
    assert bases == ({parent, other} - {None} or {"Exception"})


def test_the_tree_draws_nothing_else_and_the_signals_are_named() -> None:
    assert set(drawn()) == {name for name, kind in PAGE.items() if issubclass(kind, Exception)}
    for name in set(PAGE) - set(drawn()):
        assert f"`{name}`" in (errors.__doc__ or "")
