"""The helper process of `math_equal`, in which math-verify runs; its argument is a pipe's descriptor."""

from __future__ import annotations

import logging
import math
import re
import resource
import signal
import sys
from multiprocessing.connection import Connection

import msgspec

from peira.core.ids import Json
from peira.evaluators.comparison import load

MOST_MEMORY = 4 << 30
NUMERIC = re.compile(r"[\d\s.,+\-*/%]*")
MARKED = re.compile(r"\$|\\boxed|\\\(|\\\[")
COMMAND = re.compile(r"\\text\{[^{}]*+\}|\\[A-Za-z]++")
WORD = re.compile(r"[A-Za-z]{3}")


def main(pipe: Connection) -> None:
    """Answer requests [gold, said, seconds] with true or false, until the pipe is closed.

    The parent process kills this one when it takes too long. If the parent is gone, the unhandled alarm ends
    it soon after: in the middle of 10^(10^10) it would never read the pipe again.
    """
    resource.setrlimit(resource.RLIMIT_AS, (MOST_MEMORY, MOST_MEMORY))
    logging.disable()
    library = load("math_verify")
    pipe.send_bytes(b"null")
    while True:
        try:
            gold, said, seconds = msgspec.json.decode(pipe.recv_bytes())
        except EOFError:
            return
        signal.alarm(math.ceil(seconds) + 1)
        verdict = _verdict(library, gold, said)
        signal.alarm(0)
        pipe.send_bytes(msgspec.json.encode(verdict))


def _verdict(library: Json, gold: str, said: str) -> bool:
    """Whether math-verify finds the two texts equal."""
    # Its own alarms are off: who asks keeps the time, and can tell too late from wrong.
    read = [library.parse(marked(text), parsing_timeout=None) for text in (gold, said)]
    return bool(library.verify(*read, timeout_seconds=None))


def marked(text: str) -> str:
    """A text that is only an expression, marked as LaTeX; any other unchanged."""
    if NUMERIC.fullmatch(text) or MARKED.search(text) or WORD.search(COMMAND.sub("", text)):
        return text
    return f"${text}$"


if __name__ == "__main__":
    main(Connection(int(sys.argv[1])))
