"""Every kind of callable, and of reference to one, is in the fingerprint of what uses it."""

from __future__ import annotations

import pytest

from .conftest import Load, print_of

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
