"""Projects of a few modules, written and imported, and the fingerprints of what they hold."""

from __future__ import annotations

import importlib
import sys
import textwrap
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path
from types import ModuleType

import pytest

from peira.core.code.fingerprint import Fingerprint, fingerprint

Load = Callable[..., ModuleType]


@pytest.fixture
def load(tmp_path: Path) -> Iterator[Load]:
    """Writes modules to a new folder each time and imports the one called `main`."""
    folders = count()
    before = set(sys.modules)

    def forget() -> None:
        for name in set(sys.modules) - before:
            if str(tmp_path) in str(getattr(sys.modules[name], "__file__", "")):
                del sys.modules[name]

    def load(main: str, **others: str) -> ModuleType:
        folder = tmp_path / f"project{next(folders)}"
        for name, text in {"main": main, **others}.items():
            path = folder / (name.replace("__", "/") + ".py")
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(textwrap.dedent(text))
        forget()
        sys.path.insert(0, str(folder))
        importlib.invalidate_caches()
        try:
            return importlib.import_module("main")
        finally:
            sys.path.remove(str(folder))

    yield load
    forget()


def print_of(module: ModuleType, name: str = "answer") -> Fingerprint:
    return fingerprint(getattr(module, name))


AGENT = """
    import helpers
    from tools import shorten

    LIMIT = 3

    def clean(text):
        return shorten(text)[:LIMIT]

    def answer(case, style="plain"):
        if style == "plain":
            return clean(case) + helpers.score(case)
        return helpers.PROMPT
"""
HELPERS = """
    PROMPT = "Be brief."
    UNUSED = 1

    class Scale:
        factor = 2
        def apply(self, x):
            return x * self.factor

    def score(case):
        return str(Scale().apply(len(case)))

    def unused():
        return 1
"""
TOOLS = """
    def strip(text):
        return text.strip()

    def shorten(text):
        return strip(text)
"""


@pytest.fixture
def project(load: Load) -> Callable[..., Fingerprint]:
    """The fingerprint of the agent above, with texts replaced in whichever module holds them."""

    def build(*edits: tuple[str, str]) -> Fingerprint:
        texts = {"main": AGENT, "helpers": HELPERS, "tools": TOOLS}
        for old, new in edits:
            assert any(old in text for text in texts.values()), old
            texts = {name: text.replace(old, new) for name, text in texts.items()}
        return print_of(load(**texts))

    return build
