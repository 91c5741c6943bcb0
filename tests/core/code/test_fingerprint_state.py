"""What code changes while it runs is state, and not in its fingerprint; constants are."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from peira.core.code.constants import constant
from peira.core.code.fingerprint import fingerprint

from .conftest import Load, print_of

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
