"""What a run counted, as people read it."""

from __future__ import annotations

from peira.core.events import State
from peira.engine.kinds import BATCH, EVALUATE, GENERATE, TRANSFORM
from peira.engine.progress import KEPT, LEFT, REUSED, SPARED


def plain_counts(counts: dict[str, int]) -> dict[str, int]:
    """Counts as people read them: of trials by how they ended, of answers, of scores, and of batches."""
    others = (f"{TRANSFORM}.", f"{EVALUATE}.", f"{BATCH}.")
    plain = {key.removeprefix(f"{GENERATE}."): n for key, n in counts.items() if not key.startswith(others)}
    for kind, many in ((TRANSFORM, "answers"), (EVALUATE, "scores"), (BATCH, "batches")):
        ends = {key.removeprefix(f"{kind}."): n for key, n in counts.items() if key.startswith(f"{kind}.")}
        if ends:
            plain[many] = sum(ends.values())
            plain |= {f"{many} {state}": n for state, n in ends.items() if state != "succeeded"}
    return dict(sorted(plain.items(), key=lambda item: _rank(item[0])))


def _rank(name: str) -> tuple[int, int]:
    """Where a count is listed, whatever ended first: trials, then answers and scores, states in order."""
    kinds, ends = ("answers", "scores", "batches"), ("planned", *State, REUSED, KEPT, LEFT, SPARED)
    kind, _, end = name.partition(" ")
    if kind not in kinds:
        return 0, ends.index(name) if name in ends else len(ends)
    return 1 + kinds.index(kind), ends.index(end) + 1 if end in ends else 0
