"""Not begun, cancelled, exhausted and failed are different words, and only trials that ended can be lost."""

from __future__ import annotations

import msgspec
import pytest

from peira import Case, exact, generate, run, study
from peira.analysis.gates import Bound, NoWorse, judge
from peira.core.log.events import State
from peira.stores.memory import MemoryStore

ENDS = {50: State.failed, 51: State.exhausted, 52: State.in_doubt, 53: State.cancelled, 54: State.queued}
LOST, LEFT = "1 failed trial, 1 exhausted trial, 1 trial in doubt", "cancelled: 1 trial, not begun: 5 trials"


@pytest.fixture
def stopped(trial, results):
    """Of sixty cases the last ten did not come to an end with b: failed, stopped, or not begun."""
    trials = [trial(c, float(c % 3 > 0), model="a") for c in range(60)]
    trials += [trial(c, float(c % 4 > 0), model="b") for c in range(50)]
    trials += [trial(c, None, model="b", state=state) for c, state in ENDS.items()]
    trials += [trial(c, None, model="b", state=State.queued) for c in range(55, 59)]
    return results(trials)


@pytest.mark.parametrize(
    ("where", "analysis"),
    [
        ("differences", lambda r: r.compare("model")),
        ("effects", lambda r: r.effects()),
        ("means", lambda r: r.leaderboard()),
        ("means", lambda r: r.marginal_means("model")),
        ("table", lambda r: r.anova()),
        ("effects", lambda r: r.mixed()),
    ],
)
def test_every_analysis_says_what_became_of_trials(stopped, where, analysis):
    lines = str(analysis(stopped)).split("\n")
    assert f"not in the {where}: {LOST}" in lines
    assert LEFT in lines


def test_only_trials_that_ended_are_in_the_bounds(stopped):
    (contrast,) = stopped.compare("model").contrasts
    assert contrast.bounds.lost == 3
    assert {e.label: e.lost for e in stopped.leaderboard().entries} == {"a": 0, "b": 3}


def test_a_run_that_was_stopped_by_hand_overturns_nothing(trial, results):
    trials = [trial(c, float(m == "b" or c % 4 == 0), model=m) for c in range(12) for m in "ab"]
    trials += [trial(c, None, model=m, state=State.queued) for c in range(12, 60) for m in "ab"]
    found = results(trials)
    assert found.compare("model").sentence.startswith("b scores higher than a on match")
    assert found.leaderboard().sentence == "b is best on match."


def test_a_gate_names_what_it_counts_as_worst(stopped):
    (check,) = judge(stopped.trials, [Bound("match", 0.5, "min")]).checks
    assert f"counting {LOST}, 1 cancelled trial, 5 trials not begun as worst" in check.reason
    others = [t for t in stopped.trials if t.condition["model"] == "a"]
    mine = [t for t in stopped.trials if t.condition["model"] == "b"]
    mine = [msgspec.structs.replace(t, condition={"model": "a"}) for t in mine]
    (check,) = judge(mine, [NoWorse("f" * 64, others, "match", 0.5)]).checks
    assert f"with {LOST}, 1 cancelled trial, 5 trials not begun at worst" in check.reason


def test_scores_that_have_not_been_made_are_not_lost_trials() -> None:
    """Only the first stage was run: nothing is lost, and the scores are still to come."""
    asked = study(
        agent=lambda case, style: case.input,
        name="unscored",
        cases=[Case(n, expected=n) for n in range(4)],
        factors={"style": ["a", "b"]},
        evaluators=[exact()],
    )
    store = MemoryStore()
    answered = generate(asked, store=store, progress=False)
    said = str(answered.table())
    assert "lost" not in said
    assert "scores not made yet: 8" in said
    assert "not made yet" not in str(run(asked, store=store, progress=False).table())
