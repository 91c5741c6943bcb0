"""The same code has the same fingerprint wherever it runs; code that can act differently has another."""

from __future__ import annotations

import functools
import importlib
import json
import linecache
import os
import re
import reprlib
import subprocess
import sys
import textwrap
import threading
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import peira.core.fingerprint
from peira.core.code.constants import constant
from peira.core.fingerprint import Fingerprint, fingerprint

SOURCES = Path(peira.core.fingerprint.__file__).parents[1]

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


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("def answer(case", "# a comment\n    def answer(case"),
        ('style == "plain":', "style == 'plain':  # why"),
        ('        if style == "plain":', '        """Says what it does."""\n        if style == "plain":'),
        ("return clean(case) + helpers", "return (clean(case)\n            )  + helpers"),
        ('style="plain"):', 'style="plain",\n    ):'),
        ("class Scale:", 'class Scale:\n        """A docstring."""'),
        ("UNUSED = 1", "UNUSED = 2"),
        ("        return 1", "        return 2"),
        ("    LIMIT = 3", "    OTHER = 4\n\n\n\n    LIMIT = 3\n    def more(): return OTHER"),
    ],
)
def test_what_does_not_matter_does_not_count(project: Callable[..., Fingerprint], old: str, new: str) -> None:
    assert project((old, new)) == project()


@pytest.mark.parametrize(
    ("old", "new", "part"),
    [
        ("clean(case) + helpers", "clean(case) * helpers", "answer"),
        ('style == "plain"', 'style == "fancy"', "answer"),
        ('style="plain"', 'style="fancy"', "answer(style)"),
        ("LIMIT = 3", "LIMIT = 4", "LIMIT"),
        ("LIMIT = 3", "LIMIT = 3.0", "LIMIT"),
        ("[:LIMIT]", "[LIMIT:]", "clean"),
        ("text.strip()", "text.lstrip()", "strip"),
        ("str(Scale()", "repr(Scale()", "score"),
        ("x * self.factor", "x + self.factor", "Scale"),
        ("factor = 2", "factor = 3", "Scale"),
        ("Be brief.", "Be long.", "PROMPT"),
    ],
)
def test_what_matters_counts_and_is_named(
    project: Callable[..., Fingerprint], old: str, new: str, part: str
) -> None:
    before, after = project(), project((old, new))
    assert before.digest != after.digest
    assert part in {label for label, _ in set(before.parts) ^ set(after.parts)}


def test_it_is_a_frozen_value_of_digests(project: Callable[..., Fingerprint]) -> None:
    found = project()
    assert re.fullmatch("[0-9a-f]{64}", found.digest)
    assert all(re.fullmatch("[0-9a-f]{64}", digest) for _, digest in found.parts)
    assert list(found.parts) == sorted(found.parts)
    assert "Be brief." not in repr(found)
    with pytest.raises(AttributeError):
        found.digest = ""  # type: ignore[misc]


def test_two_functions_of_one_name_both_count_and_are_not_exchangeable(load: Load) -> None:
    main = "import a, b\ndef answer(x):\n    return a.score(x) - b.score(x)\n"
    one, two = "def score(x):\n    return x\n", "def score(x):\n    return -x\n"
    prints = {print_of(load(main, a=first, b=second)).digest for first in (one, two) for second in (one, two)}
    assert len(prints) == 4


def test_recursion_and_mutual_recursion_end(load: Load) -> None:
    text = """
        def odd(n): return n != 0 and answer(n - 1)
        def answer(n): return n == 0 or odd(n - 1) or answer(n - 2)
    """
    first = print_of(load(text))
    assert {label for label, _ in first.parts} == {"odd", "answer"}
    assert first.digest != print_of(load(text.replace("n != 0", "n > 0"))).digest


def test_a_long_chain_of_functions_is_followed_to_its_end(load: Load) -> None:
    chain = "".join(f"def f{n}(): return f{n + 1}()\n" for n in range(1500))
    last = "def f1500(): return {}\ndef answer(): return f0()\n"
    assert print_of(load(chain + last.format(1))).digest != print_of(load(chain + last.format(2))).digest


def test_an_expression_too_deep_to_walk_counts_as_compiled_code(load: Load) -> None:
    found = print_of(load("def answer(x): return " + "+".join(["x"] * 700)))
    assert found.unseen == ("compiled code of answer: no source",)


# Each: an edit, and a program in which it changes what `answer` does.
EDITS = """\
+ 1 -> + 2
import functools
@functools.lru_cache(maxsize=None)
def answer(x): return x + 1
---
=8 -> =9
import functools
@functools.lru_cache(maxsize=8)
def answer(x): return x
---
k=1 -> k=2
import functools
def f(x, k): return x
answer = functools.partial(f, k=1)
---
f, 1 -> f, True
import functools
def f(x, k): return x
answer = functools.partial(f, 1)
---
return x -> return -x
import functools
def f(x): return x
answer = functools.partial(f)
---
return 1 -> return 2
class A:
    def f(self): return 1
answer = A().f
---
A(1) -> A(2)
class A:
    def __init__(self, n): self.n = n
    def f(self): ...
answer = A(1).f
---
n = 1 -> n = 2
class A:
    def __call__(self): return self.n
answer = A()
answer.n = 1
---
n = 1 -> n = 2
class A:
    __slots__ = ('n',)
    def __call__(self): ...
answer = A()
answer.n = 1
---
return 1 -> return 2
class A:
    @staticmethod
    def f(): return 1
answer = A.f
---
n = 1 -> n = 2
class A:
    @classmethod
    def f(cls): return cls.n
    n = 1
answer = A.f
---
n = 1 -> n = 2
class B:
    n = 1
class A(B):
    def f(self): return self.n
answer = A().f
---
A.n = 5 -> A.n = 6
class A:
    n = 1
A.n = 5
def answer(): return A.n
---
return 1 -> return 2
class A: ...
def go(self): return 1
A.f = go
def answer(): return A().f()
---
make(1) -> make(2)
def make(n):
    def f(): return n
    return f
answer = make(1)
---
lambda: 1 -> lambda: 2
def make(g):
    def f(): return g()
    return f
answer = make(lambda: 1)
---
fs[0] -> fs[1]
fs = [lambda x, i=i: x + i for i in range(3)]
answer = fs[0]
---
answer, other -> other, answer
answer, other = (lambda x: x + 1), (lambda x: x + 2)
---
(lambda: lambda: 1)() -> (lambda: lambda: 1)
answer = (lambda: lambda: 1)()
---
return 1 -> return 2
def f(): return 1
TOOLS = {'a': f}
def answer(x): return TOOLS[x]()
---
'a': f -> 'b': f
def f(): return 1
TOOLS = {'a': f}
def answer(x): return TOOLS[x]()
---
'a' -> 'b'
import re
WORD = re.compile('a')
def answer(x): return WORD.match(x)
---
sqrt -> log
from math import sqrt as g
def answer(x): return g(x)
---
json as -> pickle as
import json as m
def answer(x): return m.loads(x)
---
N = 1 -> N = 2
N = 1
def answer(x): return [x + N for x in x]
---
N = 1 -> N = 2
N = 1
def answer():
    def f(): return N
    return f()
---
N = 1 -> N = 2
N = 1
def answer():
    class A:
        n = N
    return A
---
N = 1 -> N = 2
N = 1
def deco(f):
    def g(): return f() + N
    return g
@deco
def answer(): return 0
---
return 0 -> return 1
def deco(f):
    return lambda: f()
@deco
def answer(): return 0
---
x: int -> x: float
def answer(x: int): return x
---
x: int -> x: str
class A:
    x: int
def answer(a: A): return a
---
C(1) -> C(2)
from dataclasses import dataclass
@dataclass(frozen=True)
class C:
    n: int
K = C(1)
def answer(): return K.n
---
K = E.A -> K = E.B
from enum import Enum
class E(Enum):
    A = 1
    B = 2
K = E.A
def answer(): return K
---
P(1) -> P(2)
from typing import NamedTuple
class P(NamedTuple):
    x: int
K = P(1)
def answer(): return K
---
async def -> def
async def answer(x): return x
---
>3 -> >4
def answer(x): return f'{x:>3} a'
"""


@pytest.mark.parametrize("block", EDITS.split("---\n"))
def test_every_kind_of_callable_and_of_reference_counts(load: Load, block: str) -> None:
    edit, text = block.split("\n", 1)
    old, new = edit.split(" -> ")
    assert old in text
    first, again, edited = (print_of(load(t)) for t in (text, text, text.replace(old, new)))
    assert first == again
    assert first.digest != edited.digest
    assert not [line for line in first.unseen if "compiled" in line]


def test_a_local_name_is_not_the_global_of_that_name(load: Load) -> None:
    text = """
        x = case = n = e = m = y = 1
        def answer(case):
            import json as m
            x = 2
            try:
                y = [n for n in case]
            except ValueError as e:
                raise e
            return x, m, y
    """
    assert print_of(load(text)) == print_of(load(text.replace("y = 1", "y = 2")))


# Programs in which `answer` changes something that it reads.
STATEFUL = """\
SEEN = {}
def answer(x):
    SEEN[x] = 1
    return len(SEEN)
---
SEEN = []
def note(x): SEEN.append(x)
def answer(x):
    note(x)
    return len(SEEN)
---
N = 0
def answer(x):
    global N
    N += 1
    return N
---
def answer(x, seen=[]):
    seen.append(x)
    return seen
---
def make():
    seen = []
    def f(x):
        seen.append(x)
        return seen
    return f
answer = make()
---
def make():
    n = 0
    def f(x):
        nonlocal n
        n += 1
        return n
    return f
answer = make()
---
class A:
    n = 0
def answer(x):
    A.n += 1
    return A.n
---
class A:
    def __init__(self): self.n = 0
    def __call__(self, x):
        self.n += 1
        return self.n
answer = A()
---
class A:
    def __init__(self): self.log = []
    def f(self, x): self.log.append(x)
answer = A().f
---
import functools
class A:
    @functools.cached_property
    def n(self): return 1
    def f(self, x): return self.n
answer = A().f
---
import functools
@functools.lru_cache
def answer(x): return x
---
class A: ...
K = A()
K.n = 1
def answer(x):
    K.n += x
    return K.n
"""


@pytest.mark.parametrize("text", STATEFUL.split("---\n"))
def test_state_that_the_code_itself_changes_is_not_code(load: Load, text: str) -> None:
    agent = load(text).answer
    before = fingerprint(agent)
    agent(1)
    agent(2)
    assert fingerprint(agent) == before


def test_state_is_said_to_be_unseen(load: Load) -> None:
    assert print_of(load("SEEN = {}\ndef answer(x): SEEN[x] = 1")).unseen == ("state SEEN",)


def test_a_constant_changed_between_two_looks_counts(load: Load) -> None:
    module = load("LIMIT = 1\ndef answer(): return LIMIT")
    before = print_of(module)
    module.LIMIT = 2  # type: ignore[attr-defined]
    assert print_of(module).digest != before.digest


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


PEIRA_DECORATED = """
    import peira_like
    from peira_like import study

    def mine(f): return f

    @study(cases=[1, 2], factors={"a": lambda: 3})
    def answer(x): return x
"""
PEIRA_LIKE = """
    import functools
    def study(**options):
        return lambda f: f
    study.__module__ = "peira.api"
"""


def test_the_decorator_of_peira_does_not_count_and_others_do(load: Load) -> None:
    decorated = print_of(load(PEIRA_DECORATED, peira_like=PEIRA_LIKE))
    for decorator in ("", "@study(cases=[])", "@peira_like.study(cases=[7])"):
        text = re.sub(r"@study\(.*\)", decorator, PEIRA_DECORATED)
        assert print_of(load(text, peira_like=PEIRA_LIKE)) == decorated
    other = PEIRA_DECORATED.replace("@study", "@mine\n    @study")
    assert print_of(load(other, peira_like=PEIRA_LIKE)).digest != decorated.digest


def test_modules_imported_inside_functions_count_whole_and_are_not_run(load: Load) -> None:
    main = "def answer(x):\n    from pkg import part\n    import csv\n    return part.f(x)"
    part = "from . import deep\nraise SystemExit('imported')\ndef f(x): return deep.g(x)"
    deep = "def g(x): return x"
    sys_path = sys.path[:]

    def found(deep: str) -> Fingerprint:
        module = load(main, pkg____init__="", pkg__part=part, pkg__deep=deep)
        assert module.__file__
        sys.path.insert(0, str(Path(module.__file__).parent))
        importlib.invalidate_caches()
        try:
            return print_of(module)
        finally:
            sys.path[:] = sys_path

    assert found(deep) == found(deep + "  # comment")
    assert found(deep).digest != found(deep.replace("return x", "return -x")).digest


def test_a_module_used_as_an_object_counts_whole(load: Load) -> None:
    main = "import helpers\ndef answer(name): return getattr(helpers, name)()"
    first = print_of(load(main, helpers="def f(): return 1"))
    assert first.digest != print_of(load(main, helpers="def f(): return 2")).digest


def test_a_version_stands_in_for_all_code_but_not_for_configuration(load: Load) -> None:
    one = load("def answer(x, k=1): return x").answer
    two = load("def other(x, k=2): return -x").other
    assert fingerprint(one, version="1") == fingerprint(two, version="1")
    assert fingerprint(one, version="1").digest != fingerprint(one, version="2").digest
    assert fingerprint(one, version="1").digest != fingerprint(one).digest
    partials = [functools.partial(one, k=k) for k in (1, 2)]
    assert fingerprint(partials[0], version="1") != fingerprint(partials[1], version="1")


def test_threads_agree(project: Callable[..., Fingerprint], load: Load) -> None:
    agent = load(AGENT, helpers=HELPERS, tools=TOOLS).answer
    found: list[Fingerprint] = []
    threads = [threading.Thread(target=lambda: found.append(fingerprint(agent))) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 8
    assert len(set(found)) == 1


plain = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text() | st.binary(),
    lambda inner: st.lists(inner) | st.tuples(inner, inner) | st.dictionaries(st.text(), inner),
    max_leaves=8,
)


def same(a: object, b: object) -> bool:
    """Equal in value, type, order and sign of zero, all the way down: what repr shows of plain values."""
    return repr(a) == repr(b)


@given(plain, plain)
def test_constants_share_a_digest_only_when_they_are_the_same(a: object, b: object) -> None:
    assert (constant(a) == constant(b)) == same(a, b)


@pytest.mark.parametrize(
    "pair", [(1, True), (1, 1.0), (1, "1"), ("a", b"a"), ([1], (1,)), (0.0, -0.0), ({1}, frozenset({1}))]
)
def test_constants_of_different_types_are_different(pair: tuple[object, object]) -> None:
    assert constant(pair[0]) != constant(pair[1])


@given(st.sets(st.text() | st.integers()))
def test_the_order_of_a_set_does_not_count(values: set[object]) -> None:
    backwards: set[object] = set()
    for value in sorted(values, key=repr, reverse=True):
        backwards.add(value)
    assert constant(values) == constant(backwards)


def test_a_container_inside_itself_ends(load: Load) -> None:
    assert print_of(load("A = [1]\nA.append(A)\ndef answer(): return A")).digest


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
from peira.core.fingerprint import fingerprint
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
