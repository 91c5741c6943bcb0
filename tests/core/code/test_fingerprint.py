"""The same code has the same fingerprint wherever it runs; code that can act differently has another."""

from __future__ import annotations

import functools
import importlib
import re
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from peira.core.code.fingerprint import Fingerprint, fingerprint

from .conftest import AGENT, HELPERS, TOOLS, Load, print_of


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
    study.__module__ = "peira.app"
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
