"""CPU that `import peira` and `peira --help` cost above a bare interpreter."""

from __future__ import annotations

import resource

from figures import Section, times
from workers import PYTHON, Bench, Failed, finish

STARTS = 5
BARE = "bare interpreter"
COMMANDS = {
    BARE: [str(PYTHON), "-c", "pass"],
    "import peira": [str(PYTHON), "-c", "import peira"],
    "peira --help": [str(PYTHON.with_name("peira")), "--help"],
}


def startup(_: Bench) -> Section:
    """Fresh processes in turns; the best of each, because all noise adds."""
    spent: dict[str, list[float]] = {}
    failed: dict[str, str] = {}
    for _turn in range(STARTS):
        for label in [label for label in COMMANDS if label not in failed]:
            try:
                cpu = _cpu_of(label)
            except (Failed, FileNotFoundError) as failure:
                failed[label] = str(failure)
            else:
                spent.setdefault(label, []).append(cpu)
    best = {label: min(spent[label]) for label in COMMANDS if label in spent}
    return Section(
        f"start-up: CPU seconds of a fresh process, best of {STARTS} in turns",
        ("", "CPU s", "above bare", "/ bare"),
        [
            (label, f"{cpu:.3f}", f"{cpu - best[BARE]:.3f}", times(cpu / best[BARE]))
            for label, cpu in best.items()
        ],
        {"cpu_seconds": spent},
        [],
        list(failed.values()),
    )


def _cpu_of(label: str) -> float:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    finish(label, COMMANDS[label])
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
