"""Live experiments on streams, looked at after every job, and goals looked at for ever.

Jobs are simulated one by one through the code that a host runs: the arm is drawn with the shares of that
moment, which may follow the evidence. The rate is how often an interval misses the true mean effect at any of
the looks, a decision names a winner where there is none, or a goal gives a wrong verdict at any time.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
from cells import Cell, Rng

from peira.engine.streams.experiment import ExperimentPlan, LiveExperiment
from peira.engine.streams.jobs import Job
from peira.spec.streams.experiment import Experiment
from peira.stats.sequential.goals import goal_status
from peira.stats.sequential.randomisation import ArmPredictions, RandomisedContrast
from peira.stats.sequential.running_mean import UnboundedRunningMean

JOBS = 500
Means = Callable[[int], Sequence[float]]
"""The means of the arms at each job."""
SITUATIONS: dict[str, Means] = {
    "0.5 and 0.5": lambda job: (0.5, 0.5),
    "0.95 and 0.95": lambda job: (0.95, 0.95),
    "0.6 and 0.5": lambda job: (0.6, 0.5),
    "drift from 0.2 to 0.9": lambda job: (0.2 + 0.7 * job / JOBS,) * 2,
    "effect only at first": lambda job: (0.8, 0.5) if job < 200 else (0.5, 0.5),
}


def plan_of(assign: str, arms: int, stops: bool, **options: Any) -> ExperimentPlan:
    """The experiment of a stream, as its host has it."""
    labels = tuple(map(str, range(arms)))
    return ExperimentPlan(
        "e", assign, labels, "m", Experiment(**options), ("s", ""), "", maximize=True, stops=stops
    )


def live(plan: ExperimentPlan, means: Means, jobs: int, rng: Rng) -> Iterator[tuple[LiveExperiment, float]]:
    """The experiment after each of so many jobs, and the sum of the true effects of the first two arms."""
    experiment = LiveExperiment(plan, plan.begun(None), None)  # type: ignore[arg-type]
    truth, draws = 0.0, rng.random((jobs, 2))
    for n in range(jobs):
        at, shares = means(n), experiment.traffic.shares
        arm = int(np.searchsorted(np.cumsum(shares), draws[n, 0] * (1 - 1e-12)))
        job = Job("s", experiment="e", arm=arm, shares=shares)
        experiment.count(job, float(draws[n, 1] < at[arm]), False)
        experiment.accept(experiment.news())
        truth += at[0] - at[1]
        yield experiment, truth
        if experiment.traffic.winner >= 0:
            return


def missed(assign: str, means: Means, rounds: int, seed: int, jobs: int = JOBS, **options: Any) -> Cell:
    """How often the interval of a comparison misses the mean effect at any look."""
    rng, wrong, widths = np.random.default_rng(seed), 0, []
    for _ in range(rounds):
        path = (
            _random(means, jobs, rng) if assign == "random" else _adaptive(assign, means, jobs, rng, options)
        )
        contrast, sums, variations, truths = path
        far = contrast.low.log_wealth(np.abs(sums - truths), variations) >= math.log(2 / 0.05)
        wrong += bool(far.any())
        widths.append((contrast.now().high - contrast.now().low) / 2)
    name = next(name for name, one in SITUATIONS.items() if one is means)
    note = f"± {np.mean(widths):.3f} in the end"
    how = f"compared, {assign}" + "".join(f", {key} {value}" for key, value in options.items())
    return Cell(how, f"{name}, {jobs} jobs", "anytime", wrong / rounds, 0.05, rounds, note)


def _adaptive(assign: str, means: Means, jobs: int, rng: Rng, options: dict[str, Any]) -> tuple[Any, ...]:
    """The sequence of an experiment whose traffic follows the evidence, at every look."""
    sums, variations, truths = [], [], []
    for experiment, truth in live(plan_of(assign, 2, False, **options), means, jobs, rng):
        [contrast] = experiment.contrasts.values()
        sums.append(contrast.low.sum)
        variations.append(contrast.low.variation)
        truths.append(truth)
    return contrast, np.array(sums), np.array(variations), np.array(truths)


def _random(means: Means, jobs: int, rng: Rng) -> tuple[Any, ...]:
    """The same with equal shares."""
    contrast, predictions = RandomisedContrast((1.0, -1.0), 0.5, (0.0, 1.0)), ArmPredictions(2, (0.0, 1.0))
    sums, variations, truths, truth = [], [], [], 0.0
    for n, (draw, chance) in enumerate(rng.random((jobs, 2))):
        at, arm = means(n), int(draw < 0.5)
        contrast.draw(predictions, arm, 0.5, float(chance < at[arm]))
        predictions.add(arm, float(chance < at[arm]))
        truth += at[0] - at[1]
        sums.append(contrast.low.sum)
        variations.append(contrast.low.variation)
        truths.append(truth)
    return contrast, np.array(sums), np.array(variations), np.array(truths)


def decided(assign: str, shares: Sequence[float], rounds: int, seed: int, jobs: int = JOBS) -> Cell:
    """How often a winner is named that is not better than every other."""
    rng, wrong, right, after = np.random.default_rng(seed), 0, 0, []
    best = [arm for arm, share in enumerate(shares) if share == max(shares)]
    for _ in range(rounds):
        *_, (last, _) = live(plan_of(assign, len(shares), True), lambda job: shares, jobs, rng)
        winner = last.traffic.winner
        right += winner in best and len(best) == 1
        wrong += winner >= 0 and (winner not in best or len(best) > 1)
        after += [last.n] if winner >= 0 else []
    note = f"found in {right / rounds:.2f}" if len(best) == 1 else "none is best"
    note += f", after {np.mean(after):.0f} jobs" if after and len(best) == 1 else ""
    situation = f"{', '.join(map(str, shares))}, {jobs} jobs"
    return Cell(f"when decided, {assign}", situation, "anytime", wrong / rounds, 0.05, rounds, note)


def unbounded(rounds: int, seed: int, jobs: int = 3000) -> Cell:
    """How often the asymptotic sequence misses the mean of skewed values without limits, at any look."""
    rng, wrong = np.random.default_rng(seed), 0
    for _ in range(rounds):
        mean = UnboundedRunningMean()
        values = rng.lognormal(0.0, 0.75, jobs)
        expected = np.concatenate([[1.0], np.cumsum(values)[:-1] / np.arange(1, jobs)])
        for n, (value, guess) in enumerate(zip(values, expected, strict=True), 1):
            mean.add(float(value), float(guess))
            # Looking costs; every look at first, then at each further percent.
            if n < 200 or n % max(1, n // 100) == 0:
                now = mean.now()
                if not now.low <= math.exp(0.75**2 / 2) <= now.high:
                    wrong += 1
                    break
    return Cell(
        "mean without limits", f"lognormal 0.75, {jobs} jobs", "anytime", wrong / rounds, 0.05, rounds
    )


def goal(share: float, over: float | None, rounds: int, seed: int, jobs: int = JOBS) -> Cell:
    """How often a goal of at least 0.8 is given a wrong verdict at any of the looks of its life."""
    rng, wrong, said = np.random.default_rng(seed), 0, 0
    bad, good = ("met", "missed") if share < 0.8 else ("missed", "met")
    for _ in range(rounds):
        values = [(float(n), float(chance < share)) for n, chance in enumerate(rng.random(jobs))]
        verdicts = {
            goal_status(values[:n], ">=", 0.8, begin=0.0, now=float(n), over=over).verdict
            for n in range(25, jobs, 25)
        }
        wrong += bad in verdicts
        said += good in verdicts
    situation = f"mean {share:g}, {jobs} jobs" + ("" if over is None else f", windows of {over:g}")
    note = f"right in {said / rounds:.2f}"
    return Cell("goal: mean >= 0.8", situation, "anytime", wrong / rounds, 0.05, rounds, note)


def experiments(quick: bool) -> Iterator[Cell]:
    """Comparisons, decisions and goals."""
    rounds, jobs = (40, 300) if quick else (100, JOBS)
    for seed, means in enumerate(SITUATIONS.values()):
        yield missed("random", means, rounds, seed, jobs)
        yield missed("thompson", means, rounds, 10 + seed, jobs)
    yield missed("thompson", SITUATIONS["0.6 and 0.5"], rounds, 20, jobs, floor=0.05)
    yield missed("successive rejects", SITUATIONS["0.5 and 0.5"], rounds, 21, jobs)
    for seed, shares in enumerate([(0.5, 0.5), (0.5, 0.5, 0.5), (0.7, 0.5), (0.8, 0.6, 0.5)]):
        for assign in ("random", "thompson"):
            yield decided(assign, shares, rounds, 30 + seed, jobs)
    yield unbounded(rounds, 40, 600 if quick else 2000)
    for seed, (share, over) in enumerate([(0.8, None), (0.799, None), (0.8, 100.0), (0.9, 200.0)]):
        yield goal(share, over, rounds // 4 if quick else rounds, 50 + seed, jobs)
