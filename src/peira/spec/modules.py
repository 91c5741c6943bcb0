"""The user's Python files: loading them without running their studies, and naming objects in them.

A file may end in `run(my_study)`. While peira loads it, `run` and the like raise `Loading`, which ends the
loading at that call: everything that the call could have used is defined by then.
"""

from __future__ import annotations

import importlib.util
import linecache
import os
import re
import sys
import threading
import traceback
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any

from peira.core.ids import digest_bytes
from peira.core.registry import nearest
from peira.errors import Invalid, Loading

_REFERENCE = re.compile(r"(?P<file>.+\.py):(?P<name>[^\W\d][\w.]*)")
_loaded: dict[Path, tuple[str, ModuleType]] = {}
_unfinished: dict[Path, ModuleType] = {}
_lock = threading.RLock()
_thread = threading.local()


class Decorated:
    """The base class of what `@study` puts in a function's place."""

    @property
    def function(self) -> Any:
        """The one agent under test; None if there are several."""
        raise NotImplementedError


class Missing:
    """A placeholder for a function that is no longer available; calling it raises Invalid with the reason."""

    def __init__(self, name: str, reason: str) -> None:
        self.__name__ = self.__qualname__ = name
        self.reason = reason

    def __call__(self, *args: object, **kwargs: object) -> Any:
        raise Invalid(f"{self.__name__} cannot be used: {self.reason}")


def refuse_while_loading() -> None:
    """Raise Loading if a file is being loaded; called first by everything that plans or runs studies."""
    if getattr(_thread, "depth", 0):
        raise Loading


@contextmanager
def _guard() -> Iterator[None]:
    """While active, `refuse_while_loading` raises in this thread."""
    _thread.depth = getattr(_thread, "depth", 0) + 1
    try:
        yield
    finally:
        _thread.depth -= 1


def load_file(path: str | Path) -> ModuleType:
    """The module of a Python file, executed once as long as its content does not change.

    If the file is being loaded already (a circular import), its unfinished module is returned. Invalid says
    why it cannot be loaded.
    """
    path = Path(path).resolve()
    source = _source(path)
    content = digest_bytes(source)
    with _lock:
        if path in _unfinished:
            return _unfinished[path]
        known = _loaded.get(path)
        if known is None or known[0] != content:
            known = _loaded[path] = (content, _execute(path, source))
        return known[1]


def _source(path: Path) -> bytes:
    """The bytes of the file."""
    try:
        return path.read_bytes()
    except OSError as error:
        raise Invalid(f"cannot read {path}: {error.strerror or error}") from None


def _execute(path: Path, source: bytes) -> ModuleType:
    """Execute the file as a new module; Invalid if it raises."""
    code = _compile(path, source)
    package, root = _package(path)
    spec = importlib.util.spec_from_file_location(_module_name(package, path), path)
    assert spec is not None  # a path that ends in .py always has a loader
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = _unfinished[path] = module
    linecache.checkcache(str(path))
    try:
        with _guard(), _importing_from(root):
            exec(code, module.__dict__)
    except Loading:
        pass
    except (Exception, SystemExit) as error:
        del sys.modules[spec.name]
        raise Invalid(_faults(path, error)) from error
    finally:
        del _unfinished[path]
    return module


def _compile(path: Path, source: bytes) -> Any:
    """The code of the file; Invalid with the line of a syntax error."""
    # Not compiled by the import system, whose cache can miss a second edit within one second.
    try:
        return compile(source, str(path), "exec", dont_inherit=True)
    except SyntaxError as error:
        raise Invalid(f"{path}:{error.lineno or 1}: {error.msg}") from None
    except ValueError as error:  # null bytes
        raise Invalid(f"{path}:1: {error}") from None


def _package(path: Path) -> tuple[str, Path]:
    """The dotted package that a file is in ("" for none), and the folder from which that is imported."""
    folder, names = path.parent, list[str]()
    while (folder / "__init__.py").exists() and folder.name.isidentifier():
        names.insert(0, folder.name)
        folder = folder.parent
    return ".".join(names), folder


def _module_name(package: str, path: Path) -> str:
    """A module name that is unique to the path, inside its package."""
    stem = re.sub(r"\W", "_", path.stem)
    name = f"_peira_{stem}_{digest_bytes(os.fsencode(path))[:12]}"
    return f"{package}.{name}" if package else name


@contextmanager
def _importing_from(folder: Path) -> Iterator[None]:
    """Put the folder first on the path while the file loads, and last afterwards, for later imports."""
    sys.path.insert(0, str(folder))
    try:
        yield
    finally:
        if str(folder) in sys.path:
            sys.path.remove(str(folder))
        if str(folder) not in sys.path:
            sys.path.append(str(folder))


def _faults(path: Path, error: BaseException) -> tuple[str, ...]:
    """The problems that stopped the file: those of a study in it, or the exception with its line."""
    if isinstance(error, Invalid):
        return error.problems
    lines = [f.lineno for f in traceback.extract_tb(error.__traceback__) if f.filename == str(path)]
    what = str(error).strip().split("\n")[0]
    return (f"{path}:{lines[-1] if lines else 1}: {type(error).__name__}{': ' if what else ''}{what}",)


def is_reference(text: str) -> bool:
    """Whether a text has the form file.py:name."""
    return _REFERENCE.fullmatch(text) is not None


def resolve_reference(text: str, base: Path) -> Any:
    """The object that "file.py:name" names; a relative file is under `base`. Invalid if there is none."""
    found = _REFERENCE.fullmatch(text)
    if found is None:
        raise Invalid(f"{text!r} does not have the form file.py:name")
    module = load_file(base / found["file"])
    return attribute(module, found["name"], found["file"])


def attribute(module: ModuleType, name: str, file: str) -> Any:
    """The value of a dotted name in a module; Invalid if there is none."""
    value: Any = module
    for part in name.split("."):
        if not hasattr(value, part):
            known = [n for n, v in vars(value).items() if callable(v) and not n.startswith("_")]
            raise Invalid(f"there is no {name!r} in {file}{nearest(part, known)}")
        value = getattr(value, part)
    return value


def reference(fn: Any, base: Path | None = None) -> str | None:
    """The form "file.py:name" of an object defined at the top of a module; relative to `base` if given.

    None for objects without such a name: functions defined inside others, or in an interactive session.
    """
    module = sys.modules.get(getattr(fn, "__module__", None) or "")
    file = getattr(module, "__file__", None)
    name = _name_in(module, fn) if module is not None else None
    if not file or not name or not str(file).endswith(".py"):
        return None
    path = str(Path(file).resolve())
    return f"{os.path.relpath(path, base.resolve()) if base is not None else path}:{name}"


def _name_in(module: ModuleType, fn: Any) -> str | None:
    """The name of an object in a module: its qualified name, or a variable that holds it."""
    qualname = getattr(fn, "__qualname__", "")
    value: Any = module
    for part in qualname.split("."):
        value = getattr(value, part, None)
    if value is fn or (isinstance(value, Decorated) and value.function is fn):
        return str(qualname)
    return next((name for name, value in vars(module).items() if value is fn), None)


def caller() -> tuple[Path | None, str]:
    """The folder and the module of the code that called into peira."""
    frame: Any = sys._getframe(1)
    while frame and frame.f_globals.get("__name__", "").split(".")[0] in ("peira", "pydantic"):
        frame = frame.f_back
    scope = frame.f_globals if frame else {}
    file = scope.get("__file__")
    return (Path(file).resolve().parent if file else None), str(scope.get("__name__", ""))


class LoadedModules:
    """The imported modules, to be found by their files.

    They are indexed by the base names of their files, because to resolve the path of every one is slow.
    """

    def __init__(self) -> None:
        self._by_base: dict[str, dict[str, ModuleType]] = defaultdict(dict)
        for name, module in list(sys.modules.items()):
            if file := getattr(module, "__file__", None):
                self._by_base[os.path.basename(file)][name] = module

    def of(self, file: str) -> dict[str, ModuleType]:
        """The modules by name that were imported from this file."""
        wanted = Path(file).resolve()
        named = self._by_base.get(wanted.name, {}).items()
        return {name: module for name, module in named if Path(str(module.__file__)).resolve() == wanted}
