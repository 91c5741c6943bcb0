"""Generated code that tries to pass tests which it does not solve; code that needs more than plain values."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from peira.core.context import SeenCase
from peira.evaluators import code_tests
from peira.evaluators.code_driver import PeerGone, PipeEnd
from peira.evaluators.code_values import ValueDecoder, ValueEncoder
from peira.sandbox.confinement import confinement

# ruff: noqa: E501
pytestmark = pytest.mark.skipif(isinstance(confinement(), str), reason=f"no sandbox here: {confinement()}")

EQUAL = """
class Any(%s):
    def __eq__(self, other): return True
    def __ne__(self, other): return False
    __lt__ = __le__ = __gt__ = __ge__ = __contains__ = __eq__
    def __hash__(self): return 0
    def __bool__(self): return True
    def __sub__(self, other): return 0
    __rsub__ = __add__ = __radd__ = __mul__ = __mod__ = __sub__
    def __abs__(self): return 0
    def __float__(self): return 1.0
    def __instancecheck__(self, other): return True
    __class__ = property(lambda self: int)
"""
SEARCH = """
import gc, sys
def found():
    texts = []
    for one in gc.get_objects():
        try:
            if isinstance(one, dict): texts += [v for v in one.values() if isinstance(v, (str, bytes))]
            if isinstance(one, (tuple, list)): texts += [v for v in one if isinstance(v, (str, bytes))]
        except Exception: pass
    frame = sys._getframe()
    while frame:
        texts += [v for v in frame.f_locals.values() if isinstance(v, (str, bytes))]
        for value in frame.f_code.co_consts: texts += [value] if isinstance(value, (str, bytes)) else []
        frame = frame.f_back
    own = '456789'[::-1]
    return [t for t in texts if own in (t.decode('latin-1') if isinstance(t, bytes) else t) and t != own]
"""
ATTEMPTS = {
    "an object that equals everything": EQUAL % "object" + "def f(x): return Any()",
    "an integer that equals everything": EQUAL.replace("__class__ = property(lambda self: int)", "") % "int"
    + "def f(x): return Any(3)",
    "a class in place of the function": EQUAL % "object"
    + "class f(Any):\n    def __init__(self, x): pass\n    def __new__(cls, x): return object.__new__(cls)",
    "builtins.exec does nothing": "import builtins\nbuiltins.exec = lambda *a, **k: None\ndef f(x): return 0",
    "builtins.exec in every frame": "import sys\nframe = sys._getframe()\nwhile frame:\n"
    "    frame.f_globals['exec'] = lambda *a: None\n    frame = frame.f_back\ndef f(x): return 0",
    "builtins.compile": "import builtins\nbuiltins.compile = lambda *a, **k: (lambda: 0).__code__\ndef f(x): return 0",
    "builtins.AssertionError": "import builtins\nbuiltins.AssertionError = StopIteration\ndef f(x): return 0",
    "the result is written by the code": "import os\ndef f(x):\n    for n in range(256):\n"
    "        try: os.write(n, b'none')\n        except OSError: pass\n    os._exit(0)",
    "a reply is written by the code": "import os\ndef f(x):\n    for n in range(256):\n"
    "        try: os.write(n, b'0000000c!t4;Ti1;t0;t0;')\n        except OSError: pass\n    return 0",
    "the word is searched for": "import gc, os, sys\ndef f(x):\n    words = [w for one in gc.get_objects() "
    "if isinstance(one, dict) for w in list(one.values()) if isinstance(w, bytes) and len(w) == 32]\n"
    "    for w in words:\n        for n in range(256):\n            try: os.write(n, w + b'none')\n"
    "            except OSError: pass\n    os._exit(0)",
    "what is expected is searched for": SEARCH + "def f(x): return int('456789'[::-1]) if found() else 0",
    "the pipe of the tests is read": "import os\ndef f(x):\n    for n in range(256):\n        try:\n"
    "            os.set_blocking(n, False)\n            if b'987654' in os.read(n, 1 << 20): return 987654\n"
    "        except OSError: pass\n    return 0",
    "the process above is read": "import os\ndef f(x):\n    for name in ('mem', 'cmdline', 'environ', 'fd/0'):\n"
    "        try:\n            if b'987654' in open(f'/proc/{os.getppid()}/{name}', 'rb').read(): return 987654\n"
    "        except (OSError, OverflowError): pass\n    return 0",
    "the process above is traced": "import ctypes, os\nlibc = ctypes.CDLL(None, use_errno=True)\ndef f(x):\n"
    "    return 987654 if libc.ptrace(16, os.getppid(), 0, 0) == 0 else 0",
    "the process above is stopped for good": "import os, signal\ndef f(x):\n    os.kill(os.getppid(), signal.SIGKILL)\n"
    "    return 987654",
    "the exit is caught": "import os\ndef f(x):\n    os._exit(0)",
    "built-in names are replaced": "def abs(x): return 0\ndef set(x): return 0\ndef sorted(x): return 0\n"
    "def len(x): return 0\ndef f(x): return 0",
    "modules are replaced": "import sys, types\nclass math:\n    isclose = staticmethod(lambda *a, **k: True)\n"
    "    fabs = staticmethod(lambda x: 0)\nsys.modules['math'] = math\ndef f(x): return 0",
    "the checks are replaced": "def check(f): pass\ndef f(x): return 0",
    "hooks are left behind": "import sys, atexit, threading\nsys.settrace(lambda *a: None)\n"
    "sys.excepthook = lambda *a: None\nsys.setprofile(lambda *a: None)\natexit.register(print)\n"
    "sys.modules['unittest'] = None\ndef f(x): return 0",
    "an exception that is anything": "class E(Exception):\n    def __eq__(self, other): return True\n"
    "def f(x): raise E()",
    "a number that is not one": "class N(float):\n    def __eq__(self, other): return True\n"
    "    __le__ = __lt__ = __eq__\n    def __sub__(self, other): return 0.0\n    __rsub__ = __sub__\n"
    "def f(x): return N(3)",
    "a subclass of list": "class L(list):\n    def __eq__(self, other): return True\n"
    "    def __contains__(self, other): return True\n    def __len__(self): return 3\ndef f(x): return L()",
    "a callback is asked for its globals": "def f(x, key=None):\n    try: return key.__globals__['EXPECTED']\n"
    "    except Exception: return 0",
    "the frames of a callback": "def f(x, key=None):\n    try: return key.__code__.co_consts[1]\n"
    "    except Exception: return 0",
}
CHECKS = {
    "equality": "assert f(3) == 987654",
    "inequality": "assert not f(3) != 987654",
    "the other way round": "assert 987654 == f(3)",
    "order": "assert 987653 < f(3) < 987655",
    "nearness": "assert abs(f(3) - 987654) < 1e-6",
    "nearness by math": "assert math.isclose(f(3), 987654)",
    "membership": "assert f(3) in (987654, 987655)",
    "membership of the answer": "assert 987654 in f(3)",
    "sets": "assert set(f(3)) == set((987654, 2))",
    "sorted": "assert sorted(f(3)) == sorted([987654, 2])",
    "a callback": "EXPECTED = 987654\nassert f(3, key=lambda x: 987654) == EXPECTED",
    "check": {"tests": "def check(candidate):\n    assert candidate(3) == 987654", "entry_point": "f"},
}


def judged(code: str, tests: Any, **options: Any) -> str:
    case = SeenCase("?", "1")
    found = code_tests(fenced=False, **options).judge({"output": code, "expected": tests, "case": case})
    return str(found["error"])


def test_there_are_enough_attempts() -> None:
    assert len(ATTEMPTS) >= 20


@pytest.mark.parametrize("attempt", ATTEMPTS)
def test_code_cannot_forge_its_verdict(attempt: str) -> None:
    for check in ("equality", "the other way round", "nearness", "a callback", "check"):
        assert judged(ATTEMPTS[attempt], CHECKS[check], seconds=5) != "none", check


@pytest.mark.torture
@pytest.mark.parametrize("check", CHECKS)
@pytest.mark.parametrize("attempt", ATTEMPTS)
def test_code_cannot_forge_its_verdict_whatever_the_check(attempt: str, check: str) -> None:
    assert judged(ATTEMPTS[attempt], CHECKS[check], seconds=5) != "none"


@pytest.mark.parametrize("check", sorted(set(CHECKS) - {"membership of the answer", "sets", "sorted"}))
def test_the_checks_can_be_passed(check: str) -> None:
    assert judged("def f(x, key=None): return key(x) if key else 987654", CHECKS[check]) == "none"


def test_a_helper_of_the_prompt_is_not_taken_from_the_candidate() -> None:
    asked = {
        "prompt": "import math\ndef poly(xs, x):\n    return sum(c * x**i for i, c in enumerate(xs))\n\n"
        "def root(xs):\n    '''A root.'''\n",
        "entry_point": "root",
        "tests": "def check(candidate):\n    xs = [-6, 2]\n    assert math.fabs(poly(xs, candidate(xs))) < 1e-4",
    }
    assert judged("    return 3.0", asked) == "none"
    assert judged("    return 5.0", asked) == "assertion"
    assert judged("    return 5.0\ndef poly(xs, x): return 0\nclass math: fabs = abs", asked) == "assertion"


CROSSING = {
    "containers": (
        "def f(x): return x",
        "for x in ([1, (2, [3])], {1: {2}}, (), set(), frozenset({1}), b'a', bytearray(b'b'), 2j, 1 << 20000,"
        " 'a\\ud800', range(3), None, ..., 1.5, -0.0, float('inf'), slice(1, 2), {(1, 2): [None, True]}):\n"
        "    assert f(x) == x and type(f(x)) is type(x), x",
    ),
    "not a number": ("def f(): return float('nan')", "x = f()\nassert x != x"),
    "types differ": ("def f(): return (1, 2)", "assert f() == (1, 2) and f() != [1, 2]"),
    "a true value is no number": ("def f(): return True", "assert f() is True"),
    "library values": (
        "from collections import *\nfrom decimal import Decimal\nfrom fractions import Fraction\nimport datetime\n"
        "def f(): return [Counter('aab'), OrderedDict(a=1), defaultdict(list, a=[1]), deque([1], 3), "
        "Decimal('1.50'), Fraction(1, 3), datetime.date(2024, 2, 29), datetime.timedelta(1)]",
        "a, b, c, d, e, g, h, i = f()\nassert a.most_common(1) == [('a', 2)] and d.maxlen == 3 and c == {'a': [1]}\n"
        "assert e == decimal.Decimal('1.5') and g == fractions.Fraction(2, 6) and h.day == 29\n"
        "assert i == datetime.timedelta(hours=24)",
    ),
    "arguments are changed": (
        "def f(x, y):\n    x.sort()\n    x.append(x[0])\n    y['k'].add(5)\n    return x",
        "x, y = [3, 1], {'k': {4}}\nz = y['k']\nr = f(x, y)\nassert x == [1, 3, 1] and z == {4, 5} and r is x",
    ),
    "a list that contains itself": (
        "def f(x):\n    x.append(x)\n    return x",
        "x = []\ny = f(x)\nassert y is x and x[0] is x and len(x) == 1",
    ),
    "generators": (
        "def f(n):\n    for i in range(n): yield i",
        "assert list(f(3)) == [0, 1, 2] and sum(f(4)) == 6\ng = f(1)\nassert next(g) == 0\n"
        "try: next(g)\nexcept StopIteration: pass\nelse: assert False\nassert next(iter(f(5))) == 0",
    ),
    "exceptions": (
        "class Own(ValueError):\n    def __init__(self, code): self.code = code\n    def __str__(self): return 'own'\n"
        "def f(x):\n    if x == 1: raise Own(7)\n    return {}[x]",
        "try: f(1)\nexcept Own as e: assert e.code == 7 and str(e) == 'own' and isinstance(e, ValueError)\n"
        "else: assert False\ntry: f(2)\nexcept KeyError as e: assert e.args == (2,)\nelse: assert False",
    ),
    "functions as arguments": (
        "def f(g, xs): return [g(x) for x in xs]\ndef h(xs, key): return sorted(xs, key=key)",
        "seen = []\nassert f(lambda x: seen.append(x) or x + 1, [1, 2]) == [2, 3] and seen == [1, 2]\n"
        "assert h(['bb', 'a'], len) == ['a', 'bb'] and f(str, [1]) == ['1']",
    ),
    "functions as results": ("def f(n): return lambda x: x + n", "assert f(2)(3) == 5 and callable(f(1))"),
    "exceptions through a callback": (
        "def f(g):\n    try: return g()\n    except KeyError: return 'caught'",
        "def g(): raise KeyError(1)\nassert f(g) == 'caught'",
    ),
    "classes": (
        "class Stack:\n    size = 0\n    def __init__(self, *xs): self.xs = list(xs)\n"
        "    def push(self, x): self.xs.append(x)\n    def pop(self): return self.xs.pop()\n"
        "    def __len__(self): return len(self.xs)\n    def __iter__(self): return iter(self.xs)\n"
        "    def __eq__(self, other): return self.xs == other.xs\n    def __getitem__(self, i): return self.xs[i]\n"
        "    def __add__(self, other): return Stack(*self.xs, *other.xs)\n"
        "    def __repr__(self): return f'Stack{self.xs}'\n"
        "    def __enter__(self): return self\n    def __exit__(self, *a): self.xs = []",
        "s = Stack(1)\ns.push(2)\nassert len(s) == 2 and s.xs == [1, 2] and list(s) == [1, 2] and 2 in s\n"
        "assert s == Stack(1, 2) and s != Stack(1) and isinstance(s, Stack) and not isinstance(1, Stack)\n"
        "assert (s + Stack(3)).xs == [1, 2, 3] and repr(s) == 'Stack[1, 2]' and s[0] == 1 and s.pop() == 2\n"
        "s.size = 5\nassert s.size == 5 and Stack.size == 0 and hasattr(s, 'pop') and not hasattr(s, 'peek')\n"
        "with s as t: assert t is s\nassert not s",
    ),
    "objects as arguments": (
        "class Pair:\n    def __init__(self, a, b): self.a, self.b = a, b\n"
        "def f(pairs): return sum(p.a * p.b for p in pairs)",
        "assert f([Pair(1, 2), Pair(3, 4)]) == 14",
    ),
    "objects of the tests": (
        "def f(p):\n    p.n += 1\n    return p.twice()",
        "class P:\n    n = 3\n    def twice(self): return 2 * self.n\np = P()\nassert f(p) == 8 and p.n == 4",
    ),
    "named tuples and enumerations": (
        "from collections import namedtuple\nfrom enum import Enum\nP = namedtuple('P', 'x y')\n"
        "class C(Enum):\n    A = 1\n    B = 2\ndef f(): return P(1, 2)\ndef g(): return C.A",
        "assert f() == (1, 2) and f().x == 1 and f()._fields == ('x', 'y') and f() == P(1, 2)\n"
        "assert g() is C.A and g() == C.A and g() != C.B and g().value == 1 and {g(): 1}[C.A] == 1",
    ),
    "subclasses of containers": (
        "class L(list):\n    def total(self): return sum(self)\ndef f(): return L([1, 2])",
        "assert f() == [1, 2] and f().total() == 3 and list(f()) == [1, 2] and f() != [2]",
    ),
    "coroutines": (
        "import asyncio\nasync def f(x):\n    await asyncio.sleep(0)\n    return 2 * x",
        "import asyncio\nassert asyncio.run(f(2)) == 4\nasync def both(): return await asyncio.gather(f(1), f(2))\n"
        "assert asyncio.run(both()) == [2, 4]",
    ),
    "what is printed and read": (
        "def f():\n    print(int(input()) * 2)\n    return 1",
        "import io, sys, contextlib\nsys.stdin = io.StringIO('4\\n5\\nrest')\nout = io.StringIO()\n"
        "with contextlib.redirect_stdout(out):\n    assert f() == 1\n    f()\n"
        "assert out.getvalue() == '8\\n10\\n' and sys.stdin.read() == 'rest'",
    ),
    "a patched input": (
        "def f(): return input('?') + '!'",
        "from unittest.mock import patch\nwith patch('builtins.input', side_effect=['a', 'b']) as i:\n"
        "    assert f() == 'a!' and f() == 'b!'\n    i.assert_called_with('?')",
    ),
    "unittest": (
        "def f(x): return x + 1",
        "import unittest\nclass T(unittest.TestCase):\n    two = f(1)\n"
        "    def test(self):\n        self.assertEqual(f(1), self.two)\n"
        "        with self.assertRaises(TypeError): f('')\n"
        "r = unittest.TestResult()\nunittest.defaultTestLoader.loadTestsFromTestCase(T).run(r)\n"
        "assert r.wasSuccessful() and r.testsRun == 1, r",
    ),
    "a function with a built-in name": (
        "def sum(a, b):\n    return a * 10 + b",
        ["assert sum(1, 2) == 12", "assert sum(3, 4) == 34"],
    ),
    "variables and the module": (
        "n = 0\ndef f():\n    global n\n    n += 1",
        "import candidate\nfrom candidate import f as g\nf()\ng()\nassert n == 2 and candidate.n == 2\n"
        "try: candidate.missing\nexcept AttributeError: pass\nelse: assert False",
    ),
    "files": ("def f(): open('x', 'w').write('a')", "f()\nassert open('x').read() == 'a'"),
    "deep nesting": (
        "def f(n):\n    x = []\n    for _ in range(n): x = [x]\n    return x",
        "x, n = f(1200), 0\nwhile len(x): x, n = x[0], n + 1\nassert n == 1200",
    ),
    "recursion": ("def f(n): return f(n + 1)", "try: f(0)\nexcept RecursionError: pass\nelse: assert False"),
    "threads": (
        "from concurrent.futures import ThreadPoolExecutor\ndef f(g, xs):\n"
        "    with ThreadPoolExecutor(4) as pool: return list(pool.map(g, xs))",
        "assert f(lambda x: 2 * x, range(20)) == list(range(0, 40, 2))",
    ),
    "large values": ("held = list(range(3_000_000))", "assert held[5] == 5 and len(held) == 3_000_000"),
}


@pytest.mark.parametrize("what", CROSSING)
def test_values_cross_between_the_processes(what: str) -> None:
    code, tests = CROSSING[what]
    assert judged(code, tests) == "none"


def test_names_of_nobody_are_errors() -> None:
    assert judged("def f(): pass", "try: g()\nexcept NameError: pass\nelse: assert False") == "none"
    assert judged("def f(): pass", "g()") == "exception"


def test_a_candidate_that_dies_in_a_test_has_failed_whatever_the_test_catches() -> None:
    tests = "try: f()\nexcept: pass"
    for code in (
        "import os\ndef f(): os._exit(0)",
        "import os\ndef f(): os.closerange(0, 256)\n",
        "import os\ndef f():\n    for n in range(3, 256):\n        try: os.write(n, b'x' * 100)\n"
        "        except OSError: pass",
    ):
        assert judged(code, tests) == "exit"


PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text() | st.binary(),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.tuples(inner, inner)
        | st.dictionaries(st.text() | st.integers(), inner, max_size=3)
    ),
    max_leaves=20,
)


def crossed(value: Any) -> Any:
    data = ValueEncoder(PipeEnd(-1, -1, guarded=False)).encoded(value)
    return ValueDecoder(PipeEnd(-1, -1, guarded=True), data).value()


@given(PLAIN)
def test_any_value_comes_back_equal_and_of_its_type(value: Any) -> None:
    assert repr(crossed(value)) == repr(value)


@example(b"H0;")
@given(st.binary(max_size=40) | st.text("lsetdyifHhUEABVY@;0123456789abcdef", max_size=40).map(str.encode))
def test_what_is_no_value_is_refused(data: bytes) -> None:
    side = PipeEnd(-1, -1, guarded=True)
    with suppress(PeerGone):
        side.decoded(ValueDecoder(side, data))
