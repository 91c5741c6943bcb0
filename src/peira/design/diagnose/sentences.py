"""A diagnosis in plain sentences, and the properties a design loses under constraints."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from peira.core.text.words import counted
from peira.design.diagnose.aliasing import Clarity
from peira.design.diagnose.diagnosis import Diagnosis
from peira.design.diagnose.effect_power import Assumed

MOST_NAMED = 8
"""Maximum number of names in one sentence."""
WHOLLY = 1 - 1e-6
"""Correlations from here count as full confounding."""
ROMAN = {1: "I", 2: "II", 3: "III", 4: "IV", 5: "V", 6: "VI", 7: "VII", 8: "VIII", 9: "IX", 10: "X"}


def sentences(diagnosis: Diagnosis) -> list[str]:
    """The diagnosis as sentences: size, clear and confounded effects, blocks, balance and power."""
    return [
        *_size(diagnosis),
        *_main_effects(diagnosis),
        *_interactions(diagnosis),
        *_blocks(diagnosis),
        *_estimability(diagnosis),
        *_balance(diagnosis),
        *_power(diagnosis),
    ]


def spoken(label: str) -> str:
    """A term label as text: `model x style`."""
    return label.replace(":", " x ")


def listed(names: Iterable[str], most: int = MOST_NAMED) -> str:
    """Names as `a, b and c`; of many the first ones, and the number of the others."""
    every = [spoken(name) for name in names]
    if len(every) > most:
        every = [*every[: most - 1], f"{len(every) - most + 1} more"]
    return " and ".join(filter(None, [", ".join(every[:-1]), every[-1]])) if every else ""


def _size(d: Diagnosis) -> Iterator[str]:
    """The number of runs, factors and blocks, and the constant, nested and whole-plot factors."""
    runs = counted(d.runs, "run") + (f" ({d.different:,} different)" if d.different < d.runs else "")
    where = f" in {d.blocks} blocks" if d.blocks > 1 else ""
    yield f"{runs} of {counted(len(d.factors), 'factor')}{where}{_kind(d)}"
    if d.fixed:
        yield f"{listed(d.fixed)} {_does(d.fixed, 'has', 'have')} one level, and nothing to compare"
    if d.nested:
        what = f"{listed(d.nested)} {_does(d.nested, 'is', 'are')} nested"
        yield f"{what}, and counted as what varies within, not as an effect"
    if d.block_factor:
        yield f"the blocks are the levels of {d.block_factor}: what else differs between them adds to it"
    if d.whole:
        yield (
            f"{listed(d.whole)} {_does(d.whole, 'is', 'are')} set once for each of {d.plots} whole plots: "
            "what is said of power there holds only if plots do not differ otherwise"
        )


def _kind(d: Diagnosis) -> str:
    """What kind of design it is: full, a regular fraction, or a share of all combinations."""
    if d.coverage.combinations == 1:
        return ": every combination"
    if d.regular is not None and d.regular.resolution is not None:
        part = f"1/{1 << d.regular.generators}"
        numeral = ROMAN.get(d.regular.resolution, str(d.regular.resolution))
        return f": a regular {part} fraction of resolution {numeral}"
    share = d.coverage.combinations
    return f": {100 * share:.3g}% of all combinations" if share is not None else ""


def _main_effects(d: Diagnosis) -> Iterator[str]:
    """What the main effects are clear of, and what they are confounded with."""
    main = [one for one in d.clarity if one.order == 1]
    shown = [one for one in main if not one.lost]
    if lost := [one.effect for one in main if one.lost]:
        yield f"{listed(lost)} cannot be seen in full: not all of {_its(lost)} levels are run"
    if d.interactions:
        others = _kinds(one.effect for one in d.clarity if one.order > 1) or _kinds(("",))
        yield from _clear_main_effects([one for one in shown if not one.confounded_with], others)
    elif len(d.factors) > 1:
        yield "two-way interactions are too many to be looked at: main effects may be confounded with them"
    wholly = [one for one in shown if one.confounded_with]
    for one in wholly[:MOST_NAMED]:
        yield f"{spoken(one.effect)} is confounded with {listed(one.confounded_with)}"
    if len(wholly) > MOST_NAMED:
        yield f"so are {len(wholly) - MOST_NAMED} more main effects, each with other effects"
    related = [one for one in shown if one.with_main > 0 and not one.confounded_with]
    if related:
        most = max(one.with_main for one in related)
        yield f"{_of([one.effect for one in related])} not clear of other main effects {_up_to(most)}"


def _clear_main_effects(main: Sequence[Clarity], others: str) -> Iterator[str]:
    """Which main effects are clear of interactions, and which partly confounded."""
    clear = [one.effect for one in main if one.with_interactions == 0]
    partly = [one for one in main if one.with_interactions > 0]
    if clear:
        yield f"{_of(clear)} clear of {others}"
    if partly:
        most = max(one.with_interactions for one in partly)
        names = _of([one.effect for one in partly])
        yield f"{names} partly confounded with {others} {_up_to(most)}"


def _interactions(d: Diagnosis) -> Iterator[str]:
    """Which interactions are inestimable, clear, or confounded."""
    pairs = [one for one in d.clarity if one.order > 1]
    shown = [one for one in pairs if not one.lost]
    if lost := [one.effect for one in pairs if one.lost]:
        yield f"{listed(lost)} cannot be seen in full: too few of {_its(lost)} combinations are run"
    clear = [one.effect for one in shown if one.clear]
    if len(clear) == len(pairs) > 1:
        yield f"all {len(pairs)} {_kinds(clear)} are clear of main effects and of each other"
    elif clear:
        yield f"{listed(clear)} {_does(clear, 'is', 'are')} clear of main effects and of other interactions"
    yield from _sets(d, shown)
    partly = [one for one in shown if not one.confounded_with and one.with_main + one.with_interactions > 0]
    if partly:
        most = max(max(one.with_main, one.with_interactions) for one in partly)
        names = [one.effect for one in partly]
        what = spoken(names[0]) if len(names) == 1 else f"{len(names)} {_kinds(names)}"
        yield f"{what} {_does(names, 'is', 'are')} partly confounded with other effects {_up_to(most)}"


def _sets(d: Diagnosis, shown: Sequence[Clarity]) -> Iterator[str]:
    """Alias sets of interactions; those aliased with a main effect are reported with it."""
    main = {one.effect for one in d.clarity if one.order == 1}
    reported: set[str] = set()
    found = []
    for one in shown:
        if one.confounded_with and one.effect not in reported and not main & {*one.confounded_with}:
            reported |= {one.effect, *one.confounded_with}
            found.append(f"{spoken(one.effect)} is confounded with {listed(one.confounded_with)}")
    yield from found[:MOST_NAMED]
    if len(found) > MOST_NAMED:
        yield f"and so on: there are {len(found)} such sets of interactions"


def _blocks(d: Diagnosis) -> Iterator[str]:
    """The effects that are confounded with blocks."""
    wholly = [one.effect for one in d.clarity if one.with_blocks > WHOLLY]
    partly = [one for one in d.clarity if 0 < one.with_blocks <= WHOLLY]
    if wholly:
        yield f"{listed(wholly)} {_does(wholly, 'is', 'are')} confounded with blocks"
    if partly:
        names, most = [one.effect for one in partly], max(one.with_blocks for one in partly)
        yield f"{listed(names)} {_does(names, 'is', 'are')} partly confounded with blocks {_up_to(most)}"
    if d.blocks > 1 and not d.block_factor and not wholly and not partly:
        yield "all these effects are clear of the blocks"


def _estimability(d: Diagnosis) -> Iterator[str]:
    """The terms of the model that cannot be estimated."""
    if d.unestimable:
        lost = [one for one in d.unestimable if one != "intercept"] or ["the mean"]
        yield f"the model ({d.formula}) cannot be estimated in full: {listed(lost)} cannot"


def _balance(d: Diagnosis) -> Iterator[str]:
    """Unbalanced factors, and pairs of factors with missing combinations."""
    uneven = [one for one in d.balance if not one.even]
    if not uneven:
        yield "every level of every factor comes equally often"
    for one in [one for one in uneven if not one.ranged][:MOST_NAMED]:
        counts = ", ".join(f"{level} {count}" for level, count in one.counts[:MOST_NAMED])
        yield f"{one.factor} is not balanced: {counts}{', ...' if len(one.counts) > MOST_NAMED else ''}"
    ranged = {one.factor for one in d.balance if one.ranged}
    gaps = [pair.factors for pair in d.pairs if pair.missing and not ranged & {*pair.factors}]
    if gaps:
        more = f", and of {len(gaps) - 3} more pairs" if len(gaps) > 3 else ""
        yield f"some combinations of {'; '.join(f'{a} and {b}' for a, b in gaps[:3])}{more} are never run"


def _power(d: Diagnosis) -> Iterator[str]:
    """The minimum detectable effect, and the power for the stated effect size."""
    found = [one for one in d.powers if one.smallest is not None]
    if not found:
        if any(one.error is not None for one in d.powers):
            few = f"{d.assumed.cases} cases are too few to test anything at alpha {d.assumed.alpha:g}"
            none = "nothing is left to tell the noise by, so no effect can be tested: add cases or repeats"
            yield f"{few}: add cases" if d.assumed.cases > 1 else none
        return
    a = d.assumed
    least, most = (f"{pick(one.smallest or 0.0 for one in found):.3g}" for pick in (min, max))
    span = least if least == most else f"{least} to {most}, by effect"
    yield f"the smallest difference seen with {100 * a.power:g}% power is {span} {_given(a)}"
    if a.effect is not None:
        weakest = min(found, key=lambda one: one.power or 0.0)
        chance = f"{100 * (weakest.power or 0.0):.3g}%"
        where = f" or more; the least in {spoken(weakest.effect)}" if least != most else ""
        yield f"a difference of {a.effect:g} is seen with a chance of {chance}{where}"


def _given(a: Assumed) -> str:
    """The assumptions of the power analysis as text."""
    between = f" and {a.case_noise:g} between cases" if a.case_noise else ""
    amount = f"{counted(a.cases, 'case')}, {counted(a.repeats, 'repeat')}"
    return f"(noise {a.noise:g}{between}, {amount}, alpha {a.alpha:g})"


def _of(names: Sequence[str]) -> str:
    return f"the main effect of {names[0]} is" if len(names) == 1 else f"main effects of {listed(names)} are"


def _up_to(correlation: float) -> str:
    return f"(correlation up to {correlation:.2g})" if correlation < WHOLLY else "(some of it wholly)"


def _kinds(labels: Iterable[str]) -> str:
    """The collective name of effects of more than one factor, or of powers."""
    found = list(labels)
    squares = [label for label in found if "^" in label]
    words = ["two-way interactions"] * (len(squares) < len(found)) + ["squares"] * bool(squares)
    return " and ".join(words)


def _does(names: Sequence[str], one: str, several: str) -> str:
    return one if len(names) == 1 else several


def _its(names: Sequence[str]) -> str:
    return "its" if len(names) == 1 else "their"


# Losses under constraints


def losses(without: Diagnosis, under: Diagnosis) -> list[str]:
    """The properties that the design has `without` the constraints and loses `under` them, one line each."""
    return [
        *_levels(without, under),
        *_balance_lost(without, under),
        *_orthogonality(without, under),
        *_resolution(without, under),
        *_effects(without, under),
    ]


def _levels(without: Diagnosis, under: Diagnosis) -> Iterator[str]:
    """Levels that are no longer run."""
    before = {one.factor: one for one in without.balance}
    for one in under.balance:
        gone = [level for level in one.missing if level not in before[one.factor].missing]
        if gone:
            yield (
                f"{one.factor}: {listed(gone)} is never run"
                if len(gone) == 1
                else (f"{one.factor}: {listed(gone)} are never run")
            )


def _balance_lost(without: Diagnosis, under: Diagnosis) -> Iterator[str]:
    """Factors that are no longer balanced."""
    even = {one.factor for one in without.balance if one.even}
    if lost := [one.factor for one in under.balance if one.factor in even and not one.even]:
        yield f"the balance of {listed(lost)} is lost"


def _orthogonality(without: Diagnosis, under: Diagnosis) -> Iterator[str]:
    """Pairs of factors that are no longer orthogonal."""
    before = {pair.factors for pair in without.pairs if pair.orthogonal}
    for pair in under.pairs:
        if pair.factors in before and not pair.orthogonal:
            yield f"{pair.factors[0]} and {pair.factors[1]} are no longer orthogonal to each other"


def _resolution(without: Diagnosis, under: Diagnosis) -> Iterator[str]:
    """A lower resolution, or the loss of regularity."""
    if without.regular is None or without.regular.resolution is None:
        return
    was = ROMAN.get(without.regular.resolution, str(without.regular.resolution))
    if under.regular is None:
        yield f"it is no longer a regular fraction, which had resolution {was}"
    elif under.regular.resolution is not None and under.regular.resolution < without.regular.resolution:
        yield f"the resolution falls from {was} to {ROMAN.get(under.regular.resolution, '?')}"


def _effects(without: Diagnosis, under: Diagnosis) -> Iterator[str]:
    """Effects that were estimable and clear, and no longer are."""
    before = {one.effect: one for one in without.clarity}
    shown = [one for one in under.clarity if one.effect in before]
    if lost := [one.effect for one in shown if one.lost > before[one.effect].lost]:
        yield f"{listed(lost)} can no longer be seen in full"
    for one in shown:
        new = [other for other in one.confounded_with if other not in before[one.effect].confounded_with]
        if new:
            yield f"{spoken(one.effect)} is now confounded with {listed(new)}"
    if blurred := [one.effect for one in shown if before[one.effect].clear and not (one.clear or one.lost)]:
        yield f"{listed(blurred)} {'is' if len(blurred) == 1 else 'are'} no longer clear of other effects"
