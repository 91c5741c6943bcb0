"""An estimate against a budget before the run, and against what was spent after it."""

from __future__ import annotations

from collections.abc import Iterable

from peira.core.events import Spent
from peira.plan.amounts import dollars, ends, whole
from peira.plan.estimate import Estimate
from peira.spec.limits import Budget


def against(estimate: Estimate | None, spent: str) -> str:
    """What was estimated, if it was, and what was spent."""
    if estimate is None:
        return f"spent {spent}"
    cost = ends(estimate.cost, dollars) if estimate.cost else "an unknown cost"
    return f"estimated {cost}, spent {spent}"


def over_budget(estimate: Estimate, budget: Budget, before: Iterable[Spent]) -> list[str]:
    """A line for each limit of the study that is expected to be reached, after what earlier runs used."""
    earlier = list(before)
    used = {
        "money": sum(one.most_money for one in earlier),
        "tokens": sum(one.most_tokens for one in earlier),
        "calls": sum(one.sends for one in earlier),
    }
    expected = {"money": estimate.cost, "tokens": estimate.tokens, "calls": estimate.calls}
    lines = []
    for limit, amount in expected.items():
        most, said = getattr(budget, limit), dollars if limit == "money" else whole
        if most is not None and amount is not None and amount.expected > most - used[limit]:
            left = f"{said(max(0.0, most - used[limit]))} left of budget.{limit}"
            lines.append(f"{said(amount.expected)} expected and {left}: the run will stop when it is used up")
    return lines
