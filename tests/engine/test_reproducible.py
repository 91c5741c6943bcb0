"""Same study, same seed: the same outputs at any parallelism, on any runner."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from peira import run
from peira.core.ids import seed_of
from peira.stores.memory import MemoryStore

AGENT = """
import asyncio, random, time
import numpy
from peira import Case, current_trial, study

CASES = [Case(i) for i in range(6)]

@study(cases=CASES, factors={"style": ["a", "b"]}, repeats=2, seed=7)
def own(case, style):
    trial = current_trial()
    first = trial.rng.random()
    time.sleep(trial.rng.random() / 500)  # so that trials overlap and end out of order
    return [first, trial.rng.random(), trial.numpy_rng.normal(size=3).tolist(), trial.seed]

@study(cases=CASES, factors={"style": ["a", "b"]}, repeats=2, seed=7)
async def awaiting(case, style):
    trial = current_trial()
    first = trial.rng.random()
    await asyncio.sleep(trial.rng.random() / 500)
    return [first, trial.rng.random(), trial.numpy_rng.normal(size=3).tolist(), trial.seed]

@study(cases=CASES, factors={"style": ["a", "b"]}, repeats=2, seed=7)
def shared(case, style):
    drawn = numpy.random.normal(size=2).tolist()
    return [random.random(), random.gauss(), random.sample(range(100), 3), drawn]
"""
LAZY = """
from peira import Case, study

@study(cases=[Case(i) for i in range(6)])
def lazy(case):
    import numpy
    words = sorted({"some", "words", "in", "any", "order"}, key=hash)
    return [numpy.random.normal(), words]
"""


@pytest.fixture
def outputs(folder: Path, written):
    written(AGENT)

    def outputs(name: str, runner: str, parallel: int) -> dict[str, object]:
        results = run(f"s.py:{name}", store=MemoryStore(), runner=runner, parallel=parallel, progress=False)
        assert results.ok, results.failures
        assert len(results.trials) == 24
        return {trial.id: trial.output for trial in results.trials}

    return outputs


@pytest.mark.parametrize("name", ["own", "awaiting"])
def test_outputs_are_the_same_at_any_parallelism_on_any_runner(outputs, name) -> None:
    reference = outputs(name, "local", 1)
    assert len({str(output) for output in reference.values()}) == len(reference)
    for runner, parallel in [("local", 2), ("local", 8), ("process", 1), ("process", 4)]:
        assert outputs(name, runner, parallel) == reference, (runner, parallel)


def test_global_randomness_is_reproducible_in_processes(outputs) -> None:
    reference = outputs("shared", "process", 1)
    assert len({str(output) for output in reference.values()}) == len(reference)
    assert outputs("shared", "process", 3) == reference


def test_global_randomness_is_reproducible_from_the_first_trial_of_a_process(written) -> None:
    """Also where numpy is imported by the trial itself, and where the order of a set matters."""
    written(LAZY)
    runs = [run("s.py", store=MemoryStore(), runner="process", parallel=3, progress=False) for _ in range(2)]
    first, second = ([trial.output for trial in results.trials] for results in runs)
    assert first == second


def test_global_randomness_is_left_alone_in_threads(outputs) -> None:
    """Seeding it there would make trials disturb each other, and the user's own program."""
    random.seed(1)
    undisturbed = [random.random() for _ in range(2)]
    random.seed(1)
    first = random.random()
    outputs("own", "local", 4)
    assert [first, random.random()] == undisturbed


def test_another_seed_gives_other_trials(folder: Path, written) -> None:
    before = run(f"{written(AGENT)}:own", store=MemoryStore(), progress=False)
    after = run(
        f"{written(AGENT.replace('seed=7', 'seed=8'), 't.py')}:own", store=MemoryStore(), progress=False
    )
    assert not {t.id for t in before.trials} & {t.id for t in after.trials}
    assert not {t.output[0] for t in before.trials} & {t.output[0] for t in after.trials}


def test_a_retry_draws_the_same_numbers(folder: Path, written) -> None:
    """An attempt that failed leaves no trace in the randomness of the next."""
    file = written("""
from peira import Case, current_trial, study

@study(cases=[Case(i) for i in range(4)], policy={"retries": 2, "backoff": 0})
def flaky(case):
    trial = current_trial()
    drawn = trial.rng.random()
    if trial.attempt < 3:
        raise RuntimeError("not yet")
    return drawn
""")
    results = run(file, store=MemoryStore(), progress=False)
    assert results.ok
    assert [t.output for t in results.trials] == [
        random.Random(seed_of(t.id)).random() for t in results.trials
    ]
