"""Planning numbers for yes/no answers, from shares that are expected: no earlier run is needed."""

from __future__ import annotations

from peira.analysis.planning import Planning, Power, Question
from peira.errors import Invalid
from peira.stats import power_matched as numbers


def plan_matched(won: float, lost: float, question: Question) -> Planning:
    """Both sides on the same cases: the shares that only the first, or only the second gets right. By
    McNemar's exact test."""
    if min(won, lost) < 0 or won + lost > 1:
        raise Invalid(f"won, lost: must be shares that add up to at most 1, not {won:g} and {lost:g}")
    _no_difference(question)
    alpha, n = question.alpha, question.cases
    label = f"won {won:g}, lost {lost:g}"
    if won == lost:
        return Planning((Power(label, note="the sides do not differ"),), alpha, question.wanted)
    chance = numbers.mcnemar_power(won, lost, n, alpha) if n else None
    smallest = numbers.mcnemar_smallest(won + lost, n, alpha, question.wanted) if n else None
    needed = numbers.mcnemar_cases(won, lost, alpha, question.wanted)
    gap = round(won - lost, 12)
    deviation = (won + lost - gap**2) ** 0.5
    return Planning(
        (Power(label, gap, deviation, n, None, chance, needed, smallest),), alpha, question.wanted
    )


def plan_rates(one: float, two: float, question: Question) -> Planning:
    """Each side on cases of its own: the shares that either gets right; cases are those of each side."""
    if not (0 <= one <= 1 and 0 <= two <= 1):
        raise Invalid(f"rates: must lie between 0 and 1, not {one:g} and {two:g}")
    _no_difference(question)
    alpha, n, label = question.alpha, question.cases, f"{one:g} and {two:g}, cases on each side"
    if one == two:
        return Planning((Power(label, note="the sides do not differ"),), alpha, question.wanted)
    chance = numbers.proportions_power(one, two, n, alpha) if n else None
    needed = numbers.proportions_cases(one, two, alpha, question.wanted)
    found = Power(label, round(one - two, 12), None, n, None, chance, needed)
    return Planning((found,), alpha, question.wanted)


def _no_difference(question: Question) -> None:
    problems = [
        f"{name}: does not go with shares, which say it themselves"
        for name, value in (("difference", question.difference), ("repeats", question.repeats))
        if value is not None
    ]
    if problems:
        raise Invalid(problems)
