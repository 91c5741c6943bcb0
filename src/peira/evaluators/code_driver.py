"""What runs in the sandbox for `code_tests`: the candidate, then its tests, in one module.

This file's text is given to the sandbox's Python, which sees nothing else of peira. It reads from standard
input a word, the length of the candidate and the two of them, and writes the word and what came of it. A
candidate that ends the process has not said the word, and has not passed.
"""

from __future__ import annotations

import os
import sys
from types import CodeType


def main() -> None:
    first, _, rest = sys.stdin.buffer.read().partition(b"\n")
    word, length = first.split()
    answers = os.dup(1)
    nowhere = os.open(os.devnull, os.O_RDWR)
    os.dup2(nowhere, 1)
    os.dup2(nowhere, 2)
    said = word + result(rest[: int(length)], rest[int(length) :])
    os.write(answers, said)
    os._exit(0)  # whatever threads the candidate left behind


def result(candidate: bytes, tests: bytes) -> bytes:
    module = type(sys)("candidate")
    sys.modules["candidate"] = module
    checks = compiled(tests)
    if checks is None:
        return b"tests"
    code = compiled(candidate)
    if code is None:
        return b"syntax"
    try:
        exec(code, module.__dict__)
        exec(checks, module.__dict__)
    except AssertionError:
        return b"assertion"
    except MemoryError:
        return b"memory"
    except SystemExit:
        return b"exit"
    except BaseException:  # whatever it raises, it has not passed
        return b"exception"
    return b"none"


def compiled(source: bytes) -> CodeType | None:
    try:
        return compile(source, "source", "exec", dont_inherit=True)
    except (SyntaxError, ValueError, RecursionError, MemoryError, OverflowError):
        return None


if __name__ == "__main__":
    main()
