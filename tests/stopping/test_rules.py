"""Stopping rules, told units one by one."""

from __future__ import annotations

import random
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from peira.core.looks import Claim, Pair, Question, Span, arms_of
from peira.core.registry import registry
from peira.errors import Invalid
from peira.testing import StopRuleSuite


def made(rule, /, **options):
    return registry.make("stop", rule, **options)


def conditions(*levels):
    return tuple({"m": level} for level in levels)


def question(direction="greater", units=1000, alpha=0.05, levels=("a", "b")):
    arms = arms_of(conditions(*levels), "m")
    pairs = tuple(Pair(x.label, y.label, x.against(y)) for x, y in pairwise(arms))
    return Question(conditions(*levels), units, (Claim("H1", direction, alpha, pairs),))


def unit(*values):
    return {n: v if isinstance(v, Span) else Span(v, v) for n, v in enumerate(values) if v is not None}


def told(watch, units):
    """Units until there is an answer; the last look."""
    look = None
    for one in units:
        look = watch.take(one) or look
        if look is not None and look.answer:
            return look
    return watch.finish()


def draws(n, *shares, seed=1):
    rng = random.Random(seed)
    return [unit(*(float(rng.random() < p) for p in shares)) for _ in range(n)]


def test_a_claim_is_supported_or_rejected_by_what_is_seen():
    ahead = told(made("decided").watch(question()), draws(1000, 0.9, 0.5))
    assert (ahead.answer, ahead.standings[0].verdict) == ("H1 supported", "supported")
    assert ahead.units < 200
    assert ahead.standings[0].low > 0
    behind = told(made("decided").watch(question()), draws(1000, 0.5, 0.9))
    assert behind.answer == "H1 rejected"
    equal = told(made("decided").watch(question()), draws(1000, 0.5, 0.5))
    assert (equal.answer, equal.units) == ("", 1000)


def test_a_margin_ends_what_cannot_matter():
    look = told(made("decided", margin=0.2).watch(question()), draws(5000, 0.5, 0.5))
    assert look.answer == "H1 futile"
    assert look.standings[0].high < 0.2
    either = told(made("decided", margin=0.2).watch(question("different")), draws(5000, 0.5, 0.5))
    assert either.answer == "H1 futile"
    assert either.standings[0].low > -0.2


def test_planned_looks_are_all_the_looks_there_are():
    watch, looks = made("decided", looks=4).watch(question(units=200)), []
    for one in draws(200, 0.5, 0.5):
        if (look := watch.take(one)) is not None:
            looks.append(look.units)
    assert looks == [50, 100, 150, 200]


def test_planned_looks_end_when_there_is_no_hope():
    look = told(made("decided", looks=4, futility=0.1).watch(question(units=2000)), draws(2000, 0.5, 0.52))
    assert look.answer == "H1 futile"
    assert look.units < 2000


def test_a_side_cannot_win_by_failing():
    """The first side loses every trial it would have got wrong: it looks perfect, and proves nothing."""
    rng, units = random.Random(3), []
    for _ in range(2000):
        right = rng.random() < 0.5
        units.append(unit(Span(1, 1) if right else Span(0, 1), float(rng.random() < 0.5)))
    assert told(made("decided").watch(question()), units).answer == ""


@given(st.integers(0, 10**6), st.floats(0, 0.3))
@settings(max_examples=15)
def test_whatever_was_lost_the_answer_stands(seed, gone):
    """If it is decided with losses, it would be decided alike had they all gone against it."""
    rng = random.Random(seed)
    units = [
        unit(*(Span(0, 1) if rng.random() < gone else float(rng.random() < p) for p in (0.9, 0.3)))
        for _ in range(150)
    ]
    look = told(made("decided").watch(question()), units)
    if look.answer == "H1 supported":
        worst = [{0: Span(one[0].worst, one[0].worst), 1: Span(one[1].best, one[1].best)} for one in units]
        assert told(made("decided").watch(question()), worst).answer == "H1 supported"


def test_levels_that_are_clearly_worse_are_given_up_until_one_is_left():
    levels = ("a", "b", "c", "d")
    watch = made("racing", by="m").watch(Question(conditions(*levels), 2000))
    look = told(watch, draws(2000, 0.3, 0.8, 0.5, 0.2))
    assert look.answer == "b is best"
    assert set(look.dropped) == {"a", "c", "d"}
    assert look.given_up == (0, 2, 3)


def test_less_is_better_where_the_outcome_says_so():
    watch = made("racing", by="m").watch(Question(conditions("a", "b"), 2000, maximize=False))
    assert told(watch, draws(2000, 0.8, 0.3)).answer == "b is best"
    rejects = made("successive_rejects", by="m", budget=400)
    assert told(
        rejects.watch(Question(conditions("a", "b"), 2000, maximize=False)), draws(300, 0.8, 0.3)
    ).answer == ("b is left")


def test_a_race_ends_when_nobody_can_be_better_by_what_matters():
    watch = made("racing", by="m", margin=0.15).watch(Question(conditions("a", "b"), 9000))
    assert "no other is better by 0.15" in told(watch, draws(9000, 0.6, 0.6)).answer


def test_the_best_is_seldom_given_up():
    wrong = 0
    for seed in range(60):
        watch = made("racing", by="m").watch(Question(conditions("a", "b", "c"), 200))
        look = told(watch, draws(200, 0.6, 0.5, 0.5, seed=seed))
        wrong += "a" in look.dropped
    assert wrong <= 6  # 3 expected at the most


def test_successive_rejects_keep_the_best_within_their_budget():
    right = pulls = 0
    for seed in range(60):
        watch = made("successive_rejects", by="m", budget=300).watch(Question(conditions(*"abcd"), 500))
        units, seen = draws(500, 0.4, 0.7, 0.5, 0.3, seed=seed), 0
        gone: tuple[int, ...] = ()
        for one in units:
            seen += sum(n not in gone for n in one)
            look = watch.take({n: span for n, span in one.items() if n not in gone})
            if look is not None:
                gone = look.given_up
                if look.answer:
                    break
        right += look.answer == "b is left"
        pulls = max(pulls, seen)
    assert right >= 57  # at the worst; the gaps are wide for this budget
    assert pulls <= 300 + 4


def test_sides_meet_under_the_same_other_levels():
    shown = [{"m": m, "style": s} for m in "ab" for s in "xy"]
    one, two = arms_of(shown, "m")
    assert one.against(two) == (((0,), (2,)), ((1,), (3,)))
    apart = [{"m": "a", "style": "x"}, {"m": "b", "style": "y"}]
    one, two = arms_of(apart, "m")
    assert one.against(two) == (((0,), (1,)),)


@pytest.mark.parametrize(
    ("rule", "options", "problem"),
    [
        ("decided", {"looks": 1}, "looks"),
        ("decided", {"futility": 0.1}, "planned number of looks"),
        ("decided", {"margin": 0}, "margin"),
        ("decided", {"range": [1, 0]}, "range"),
        ("decided", {"marging": 0.1}, "did you mean 'margin'"),
        ("racing", {}, "by: is missing"),
        ("successive_rejects", {"by": "m"}, "budget: is missing"),
    ],
)
def test_wrong_options_are_refused(rule, options, problem):
    with pytest.raises(Invalid, match=problem):
        made(rule, **options)


class TestDecided(StopRuleSuite):
    @pytest.fixture(params=[{}, {"looks": 3}, {"looks": 4, "futility": 0.2}, {"margin": 0.3}], ids=str)
    def rule(self, request):
        return made("decided", **request.param)

    @pytest.fixture(params=["greater", "different"])
    def question(self, request):
        return question(request.param, units=120)


class TestRacing(StopRuleSuite):
    @pytest.fixture(params=[{}, {"margin": 0.3}, {"range": [-2, 5]}], ids=str)
    def rule(self, request):
        return made("racing", by="m", **request.param)

    @pytest.fixture
    def question(self):
        return Question(conditions("a", "b", "c"), 120)


class TestRejects(StopRuleSuite):
    @pytest.fixture
    def rule(self):
        return made("successive_rejects", by="m", budget=120)

    @pytest.fixture
    def question(self):
        return Question(conditions("a", "b", "c"), 120)
