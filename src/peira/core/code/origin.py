"""Who owns the code of a file or module: the user, Python, peira, or an installed package."""

from __future__ import annotations

import sys
import sysconfig
from functools import lru_cache
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path

OWN = "own"
PYTHON = "python"
PEIRA = "peira"

_INSTALLED = frozenset(("site-packages", "dist-packages"))
_PEIRA_FOLDER = Path(__file__).resolve().parents[2]
_PYTHON_FOLDERS = tuple({Path(sysconfig.get_path(name)).resolve() for name in ("stdlib", "platstdlib")})


def origin(module: str, filename: str | None = None) -> str:
    """OWN, PYTHON, PEIRA or "package NAME", decided by the file, or by the module if there is no file."""
    if filename and filename.startswith("<frozen "):
        return PYTHON
    if not filename or filename.startswith("<"):
        filename = module_file(module)
    return _origin_of_file(filename) if filename else _origin_of_name(module.partition(".")[0])


def module_file(module: str) -> str | None:
    """The file of a module, if it is imported and has one."""
    return getattr(sys.modules.get(module), "__file__", None)


def own_file(value: object) -> str | None:
    """The user's source file that defines an object; None if it is not the user's."""
    code = getattr(value, "__code__", None)
    file = (
        code.co_filename
        if code
        else getattr(value, "file", None) or module_file(getattr(value, "__module__", ""))
    )
    if not isinstance(file, str) or file.startswith("<"):
        return None
    return file if _origin_of_file(file) == OWN else None


def find_module(name: str) -> str | None:
    """The file that importing a module would execute, found without executing anything."""
    loaded = module_file(name)
    if loaded:
        return loaded
    spec: ModuleSpec | None = None
    parts = name.split(".")
    for depth in range(1, len(parts) + 1):
        locations = spec.submodule_search_locations if spec else None
        if depth > 1 and not locations:
            return None
        spec = PathFinder.find_spec(".".join(parts[:depth]), locations)
    return spec.origin if spec else None


def _origin_of_name(top: str) -> str:
    """The owner of a module without a file, by its top-level package."""
    if top in sys.stdlib_module_names:
        return PYTHON
    return PEIRA if top == "peira" else OWN


@lru_cache(maxsize=4096)
def _origin_of_file(filename: str) -> str:
    """The owner of a file, by the folder it is in."""
    path = Path(filename).resolve()
    for place, part in enumerate(path.parts[:-1]):
        if part in _INSTALLED:
            return f"package {path.parts[place + 1].partition('.')[0]}"
    if path.is_relative_to(_PEIRA_FOLDER):
        return PEIRA
    return PYTHON if any(map(path.is_relative_to, _PYTHON_FOLDERS)) else OWN
