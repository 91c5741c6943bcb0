"""A fingerprint is the same in every process, folder and supported Python."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import peira.core.code.fingerprint

from .conftest import HELPERS, Load, print_of

SOURCES = Path(peira.core.code.fingerprint.__file__).parents[2]


EVERYWHERE = """
    from __future__ import annotations
    import dataclasses, functools, pathlib, re, time
    from collections import OrderedDict
    import helpers

    LIMIT, NAMES, WORD = 3, {"b", "a", 1, None}, re.compile("x+", re.I)
    TABLE = OrderedDict(a=1.5, b=b"x")

    @dataclasses.dataclass(frozen=True)
    class Config:
        '''Doc.'''
        n: int = 1
        @property
        def twice(self): return self.n * 2

    CONFIG = Config(4)

    def deco(f):
        @functools.wraps(f)
        def wrapper(*a, **k):
            return f(*a, **k)
        return wrapper

    @deco
    def clean(text, *, width: int = LIMIT) -> str:
        "doc"
        match text:
            case [first, *rest] if rest: return first
            case {"k": v, **others}: return v
        return f"{text!r:>{width}} {text=} {text:}" "tail" f"{width:02d}{{}}" rf"\\d{text}"

    @functools.lru_cache
    def answer(case, styles=("a", 1, 1.0, True, None), key=lambda x: -x):
        with open(case) as f, open(case) as g:
            total = sum(key(x) for x in f if (y := x))
        try:
            return [clean(c) for c in case], helpers.score(total), CONFIG.twice, NAMES, TABLE, WORD
        except* ValueError:
            total = pathlib.Path(case), time.time(), {**TABLE}, case[1:2, ...], 10**3, 1_000j, u"u"
"""
SHOW = """
import importlib, json, sys, types
sources, folder = sys.argv[1:]
for name, path in (("peira", sources), ("peira.core", sources + "/core")):
    sys.modules[name] = types.ModuleType(name)
    sys.modules[name].__path__ = [path]
sys.path.insert(0, folder)
from peira.core.code.fingerprint import fingerprint
main = importlib.import_module("main")
found = fingerprint(main.answer)
print(json.dumps([found.digest, found.parts, found.unseen]))
"""


def show(python: str, folder: Path, **environment: str) -> Any:
    command = [python, "-c", SHOW, str(SOURCES), str(folder)]
    result = subprocess.run(
        command, capture_output=True, text=True, env={**os.environ, **environment}, check=False
    )
    assert result.returncode == 0, result.stderr
    return json.loads(result.stdout)


def test_hash_seed_process_and_folder_do_not_count(load: Load) -> None:
    modules = [load(EVERYWHERE, helpers=HELPERS) for _ in range(2)]
    folders = [Path(module.__file__ or "").parent for module in modules]
    shown = [show(sys.executable, folder, PYTHONHASHSEED=seed) for folder in folders for seed in ("1", "2")]
    here = print_of(modules[1])
    assert [here.digest, [list(part) for part in here.parts], list(here.unseen)] == shown[0]
    assert shown.count(shown[0]) == len(shown)


@pytest.mark.parametrize("version", ["3.11", "3.12", "3.13"])
def test_every_supported_python_gives_the_same_fingerprint(load: Load, version: str) -> None:
    found = sorted((Path.home() / ".pyenv" / "versions").glob(f"{version}.*/bin/python"))
    if not found:
        pytest.skip(f"no Python {version} under ~/.pyenv/versions")
    module = load(EVERYWHERE, helpers=HELPERS)
    here = print_of(module)
    there = show(str(found[-1]), Path(module.__file__ or "").parent)
    assert there == [here.digest, [list(part) for part in here.parts], list(here.unseen)]
