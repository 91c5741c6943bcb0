"""A process that scores outputs, batch by batch. It opens no store, and ends when its pipe is closed.

An evaluator that raises here has no score in the answer: the run executes it once more in the usual way,
which records the failure, retries, and lets it ask models.
"""

from __future__ import annotations

import os
import pickle
import queue
import sys
import threading
import time
from collections.abc import Sequence
from multiprocessing.connection import Connection
from typing import Any

from peira.core.codec import decode
from peira.core.context import SeenCase
from peira.core.contracts import Evaluator
from peira.core.ids import canonical, normalise
from peira.core.models import output_of
from peira.core.transforms import from_json
from peira.engine.rescoring.messages import (
    READY,
    ScoredItem,
    ScoringItem,
    ScoringSetup,
    decode_items,
    decode_setup,
    encode,
)
from peira.evaluators.scores import score_value
from peira.plan.expansion import evaluator_digest
from peira.sandbox.child_module import print_by_line


def main() -> None:
    """Load the evaluators, say so, and score until the pipe is closed."""
    pipe = Connection(int(sys.argv[1]))
    setup = decode_setup(pipe.recv_bytes())
    sys.path[:] = setup.path
    print_by_line()
    evaluators = _loaded(setup)
    batches: queue.SimpleQueue[bytes] = queue.SimpleQueue()
    threading.Thread(target=_listen, args=(pipe, batches), daemon=True).start()
    pipe.send_bytes(READY)
    while True:
        items = decode_items(batches.get())
        pipe.send_bytes(encode([_scored(item, evaluators) for item in items]))


def _loaded(setup: ScoringSetup) -> list[Evaluator]:
    """The evaluators; ends the process if they cannot be had here, or have other code."""
    try:
        evaluators = [pickle.loads(one) for one in setup.evaluators]
        known = list(map(evaluator_digest, evaluators)) == setup.digests
    except Exception:  # whatever importing a user's module raises: the run executes them itself
        known = False
    if not known:
        raise SystemExit(1)
    return evaluators


def _listen(pipe: Connection, batches: queue.SimpleQueue[bytes]) -> None:
    """Queue batches; end the process, whatever it does, when its owner is gone."""
    try:
        while True:
            batches.put(pipe.recv_bytes())
    except (EOFError, OSError):
        os._exit(0)


def _scored(item: ScoringItem, evaluators: Sequence[Evaluator]) -> ScoredItem:
    """The score of an output."""
    start = time.perf_counter()
    try:
        evaluator = evaluators[item.evaluator]
        facts = {name: _fact(name, item) for name in evaluator.takes}
        score = normalise(output_of(score_value(evaluator.judge(facts))), "output")
        return ScoredItem(canonical(score), time.perf_counter() - start)
    except Exception:  # whatever a user's function raises; the run sees it when it executes it again
        return ScoredItem(None)


def _fact(name: str, item: ScoringItem) -> Any:
    """What an evaluator takes, by the name of its parameter."""
    if name == "output":
        value = decode(item.output)
        return from_json(value) if item.answer else value
    if name == "expected":
        return item.expected
    assert item.case is not None
    return SeenCase(*item.case)


if __name__ == "__main__":
    main()
