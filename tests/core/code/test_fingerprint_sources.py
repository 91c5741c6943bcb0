"""Where there is no source, or another than what runs, compiled code stands for it, and it is said."""

from __future__ import annotations

import linecache
import reprlib
from pathlib import Path
from typing import Any

from peira.core.code.fingerprint import Fingerprint, fingerprint

from .conftest import Load, print_of


def test_a_file_edited_after_its_import_is_not_the_source_of_what_runs(load: Load) -> None:
    text = "def answer(): return 1"
    expected = print_of(load(text))
    module = load(text)
    assert module.__file__
    Path(module.__file__).write_text("def answer(): return 2 + 3")
    linecache.checkcache(module.__file__)
    found = print_of(module)
    assert found.unseen == ("compiled code of answer: no source",)
    assert found.digest != expected.digest
    assert found.digest != print_of(load("def answer(): return 2 + 3")).digest


def test_code_seen_before_its_file_was_edited_keeps_its_fingerprint(load: Load) -> None:
    module = load("def answer(): return 1\ndef late(): return 5")
    before = print_of(module)
    assert module.__file__
    Path(module.__file__).write_text("import os\n\ndef answer(): return 2\n")
    assert print_of(module) == before
    assert print_of(module, "late").unseen == ()


def test_code_without_source_counts_as_compiled() -> None:
    def made(text: str) -> Fingerprint:
        names: dict[str, Any] = {"__name__": "nowhere"}
        exec(text, names)
        return fingerprint(names["answer"])

    text = "N = 1\ndef helper(): return N\ndef answer(x): return x in {'a', 'b', 'c'} and helper()"
    assert made(text) == made("\n\n" + text)
    assert "compiled code of answer: no source" in made(text).unseen
    for old, new in [("N = 1", "N = 2"), ("return N", "return -N"), ("'c'", "'d'")]:
        assert made(text).digest != made(text.replace(old, new)).digest


def test_a_class_without_source_counts_as_compiled() -> None:
    def made(text: str) -> Fingerprint:
        names: dict[str, Any] = {"__name__": "nowhere"}
        exec(text, names)
        return fingerprint(names["A"]().f)

    text = "class A:\n    n = 1\n    def f(self): return self.n"
    assert made(text) == made(text)
    assert made(text).digest != made(text.replace("n = 1", "n = 2")).digest
    assert made(text).digest != made(text.replace("self.n", "-self.n")).digest


def test_what_cannot_be_seen_is_named_by_type_and_never_shown(load: Load) -> None:
    text = """
        import threading
        import hypothesis
        from hypothesis import strategies as st

        KEY = "hunter2"
        LOCK = threading.Lock()
        def answer(x):
            return LOCK, hypothesis.given, st.none(), KEY, undefined
    """
    found = print_of(load(text))
    assert found.unseen == ("LOCK: lock", "name undefined", "package hypothesis")
    assert "hunter2" not in repr(found)


def test_a_function_of_no_source_at_all_is_said_to_be_builtin() -> None:
    assert fingerprint(len).unseen == ("builtin len",)
    assert fingerprint(len).digest != fingerprint(abs).digest


def test_closed_over_values_of_foreign_functions_count() -> None:
    prints = [fingerprint(reprlib.recursive_repr(text)).digest for text in ("a", "a", "b")]
    assert prints[0] == prints[1] != prints[2]
