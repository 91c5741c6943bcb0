"""Cost and time: spending in this run, cost of the trials, and the estimate before the run."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from peira.analysis.cost import Bill, in_doubt
from peira.analysis.results import Results
from peira.core.log.events import Spent, State
from peira.core.text.words import counted, lasting
from peira.plan.estimate.value import against, dollars
from peira.report.labels import duration_text
from peira.report.value import Spending
from peira.results.trials import TrialResult

HEADER = ("model", "calls", "tokens in", "tokens out", "spent in this run")


def spending(results: Results, trials: Sequence[TrialResult], cost: Bill) -> Spending:
    """The cost and time of the run."""
    rows = tuple(_row(one) for one in results.spent_by_model)
    return Spending(tuple(_lines(results, trials, cost)), HEADER if rows else (), rows)


def _row(one: Spent) -> tuple[str, ...]:
    """The spending on one model."""
    unknown = f" and {one.unpriced:,} of unknown price" if one.unpriced else ""
    price = "unknown" if one.unpriced and one.unpriced >= one.answers else f"{dollars(one.money)}{unknown}"
    doubt = f" and {in_doubt(one.doubtful, one.doubtful_money)}" if one.doubtful else ""
    model = f"{one.model} ({one.account})" if one.account else one.model
    return (model, f"{one.sends:,}", f"{one.input:,}", f"{one.output:,}", f"{price}{doubt}")


def _lines(results: Results, trials: Sequence[TrialResult], cost: Bill) -> Iterator[str]:
    """Sentences on cost, time and the estimate."""
    known, spent = results.background, results.spent
    estimate = known.provenance.estimate if known and known.provenance else None
    foreign = sum(trial.imported for trial in trials)
    if cost.calls or spent.calls:
        yield f"The calls behind these results cost {cost.price} when they were bought ({cost})."
        yield f"In this run: {against(estimate, spent.price)}."
    elif cost.money:
        yield f"The agents reported a cost of {dollars(cost.money)}; no call of a model is recorded."
    else:
        yield "No call of a model is recorded."
    if foreign and (unknown := _unknown(trials)):
        verb = "are" if " and " in unknown else "is"
        yield f"{unknown} of {counted(foreign, 'imported output')} {verb} not known."
    if foreign < len(trials) and known is not None and known.run.finished > known.run.started > 0:
        yield f"The run took {_time(results, known.run.finished - known.run.started)}."
    took = sorted(trial.took for trial in trials if trial.state is State.succeeded and trial.took is not None)
    if took and took[-1] > 0:
        low, middle, high = (duration_text(took[int(share * (len(took) - 1))]) for share in (0.05, 0.5, 0.95))
        yield f"A trial took {middle} (median; 90% between {low} and {high})."


def _unknown(trials: Sequence[TrialResult]) -> str:
    """Which of cost and time is unknown of some imported outputs, as the beginning of a sentence."""
    imported = [trial for trial in trials if trial.imported]
    names = {"cost": [one.cost for one in imported], "time": [one.took for one in imported]}
    unknown = [name for name, values in names.items() if None in values]
    return f"The {' and the '.join(unknown)}" if unknown else ""


def _time(results: Results, seconds: float) -> str:
    """The duration of the run beside its estimate."""
    known = results.background
    estimate = known.provenance.estimate if known and known.provenance else None
    if estimate is None or estimate.seconds is None:
        return lasting(seconds)
    return (
        f"{lasting(seconds)}; {lasting(estimate.seconds.low)} to "
        f"{lasting(estimate.seconds.high)} were estimated"
    )
