"""The process in which math-verify computes for `math_equal`. Run with the number of an open pipe."""

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
from peira.evaluators.libraries import load

MOST_MEMORY = 4 << 30
NUMERIC = re.compile(r"[\d\s.,+\-*/%]*")
MARKED = re.compile(r"\$|\\boxed|\\\(|\\\[")
COMMAND = re.compile(r"\\text\{[^{}]*+\}|\\[A-Za-z]++")
WORD = re.compile(r"[A-Za-z]{3}")


def main(pipe: Connection) -> None:
    """Answer [gold, said, seconds] by true or false, until the other side is gone.

    Whoever asks ends this process when it takes too long. Should they be gone by then, the alarm, which
    nothing here handles, ends it soon after: amid 10^(10^10) it would never look at the pipe again.
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
    # Its own alarms are off: who asks keeps the time, and can tell too late from wrong.
    read = [library.parse(marked(text), parsing_timeout=None) for text in (gold, said)]
    return bool(library.verify(*read, timeout_seconds=None))


def marked(text: str) -> str:
    """A text that is an expression and nothing else, marked as LaTeX; any other as it is."""
    if NUMERIC.fullmatch(text) or MARKED.search(text) or WORD.search(COMMAND.sub("", text)):
        return text
    return f"${text}$"


if __name__ == "__main__":
    main(Connection(int(sys.argv[1])))
