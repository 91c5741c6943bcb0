"""CPU time and peak memory of the analyses, on many trials with four scores each.

`python benchmarks/analysis.py` prints a Markdown table; `--trials` sets the number of trials (100,000).
"""

from __future__ import annotations

import argparse
import resource
import time
from collections.abc import Callable, Iterator

import numpy as np

from peira.analysis.results import Results
from peira.core.log.events import State
from peira.results.trials import Score, TrialResult
from peira.stats.intervals.resampling import bootstrap_mean

REPEATS = 4
CONDITIONS = [{"model": model, "style": style} for model in "abcde" for style in ("plain", "kind")]


def trials(cases: int) -> Iterator[TrialResult]:
    """Simulated trials: two yes/no scores and two numbers, five models by two styles, four repeats."""
    rng = np.random.default_rng(1)
    for place, condition in enumerate(CONDITIONS):
        for case in range(cases):
            for repeat in range(REPEATS):
                a, b, c, d = map(float, rng.random(4))
                values = {"right": a < 0.6 + 0.02 * place, "brief": d < 0.9, "close": b, "kind": c}
                yield TrialResult(
                    id=f"{place} {case} {repeat}",
                    agent="agent",
                    case_id=str(case),
                    slice=str(case % 7),
                    state=State.succeeded,
                    condition=condition,
                    repeat=repeat,
                    took=a,
                    metrics={"calls": 1.0, "cost": b},
                    scores={name: Score(name, State.succeeded, value) for name, value in values.items()},
                )


def analyses(results: Results) -> dict[str, Callable[[], object]]:
    """The analyses to measure, by label."""
    return {
        "table, by 10 conditions": lambda: results.table("model", "style"),
        "effects, a yes/no score": lambda: results.effects(score="right"),
        "effects, a number": lambda: results.effects(score="close"),
        "compare, 10 pairs": lambda: results.compare("model", score="right"),
        "compare, bootstrap": lambda: results.compare(
            "model", score="right", baseline="a", interval="bootstrap"
        ),
        "leaderboard": lambda: results.leaderboard(score="right"),
        "anova": lambda: results.anova(score="close"),
        "slices": lambda: results.slices(score="right"),
        "quantiles": lambda: results.quantiles("took", "model"),
        "ratio": lambda: results.ratio("cost", "right", "model"),
        "mixed, linear": lambda: results.mixed(score="close"),
        "mixed, logistic": lambda: results.mixed(score="right", kind="logistic"),
        "mixed, marginal": lambda: results.mixed(score="right", kind="marginal"),
    }


def cluster_bootstrap() -> object:
    """A bootstrap interval of a mean over 10,000 clusters of three values."""
    values = np.random.default_rng(0).lognormal(size=30_000)
    return bootstrap_mean(values, np.repeat(np.arange(10_000), 3).tolist())


def measured(name: str, work: Callable[[], object]) -> str:
    """Run `work` once; its CPU time and the peak memory of the process, as a row of the table."""
    began = time.process_time()
    work()
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return f"| {name} | {time.process_time() - began:.2f} | {peak:.0f} |"


def main() -> None:
    parser = argparse.ArgumentParser(description="Measure what the analyses take.")
    parser.add_argument("--trials", type=int, default=100_000, help="how many (100,000)")
    kept = list(trials(max(2, parser.parse_args().trials // (len(CONDITIONS) * REPEATS))))
    results = Results(lambda: iter(kept), run_id="f" * 64, study="s", status="completed", counts={})
    print(f"{len(kept):,} trials x 4 scores\n\n| what | CPU s | peak MB |\n|---|---|---|")
    print(measured("cluster bootstrap, 10,000 of 10,000 cases", cluster_bootstrap), flush=True)
    for name, work in analyses(results).items():
        print(measured(name, work), flush=True)


if __name__ == "__main__":
    main()
