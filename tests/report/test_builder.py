"""The report as a value: the numbers of a published study, honest sentences where there is little to say."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from peira import Case, exact, generate, study
from peira.analysis.results import Results
from peira.analysis.table.measures import measure
from peira.core.log.events import Spent, State
from peira.errors import Invalid
from peira.report.builder import build
from peira.report.labels import change
from peira.report.sections.examples import chosen_examples
from peira.report.value import Report
from peira.report.writers.formats import RENDERERS
from peira.results.trials import Score
from peira.stores.memory import MemoryStore

Make = Callable[..., Any]
TEXTS = ("html", "md", "tex", "json")


def reference(results: Results) -> dict[str, tuple[float, float, float]]:
    """Both main effects and the interaction by hand: a contrast for each case, Student's t on the cases."""
    right = {
        (t.case_id, t.condition["size"], t.condition["method"]): float(t.scores["correct"].value)
        for t in results
    }
    cases = sorted({case for case, _, _ in right})
    a, b, c, d = (
        np.array([right[case, size, method] for case in cases])
        for size in ("6b", "175b")
        for method in ("finetuning", "verification")
    )
    contrasts = {
        "size": (c + d - a - b) / 2,
        "method": (b + d - a - c) / 2,
        "size x method": (d - c) - (b - a),
    }
    found = {}
    for name, gaps in contrasts.items():
        reach = stats.t.ppf(0.975, len(gaps) - 1) * gaps.std(ddof=1) / np.sqrt(len(gaps))
        found[name] = (gaps.mean(), gaps.mean() - reach, gaps.mean() + reach)
    return found


def test_the_published_study_has_its_main_effects_and_its_interaction(gsm8k: Results) -> None:
    report = build(gsm8k, trials=10)
    told = {"+0.151 [0.131, 0.171]", "+0.194 [0.174, 0.215]", "+0.042 [0.005, 0.079]"}
    assert all(text in report.answer for text in told)
    assert report.main is not None
    assert report.main.effects is not None
    for name, (mean, low, high) in reference(gsm8k).items():
        found = report.main.effects.effect(name).estimate
        assert (found.mean, found.low, found.high) == pytest.approx((mean, low, high), abs=1e-9)
    for form in ("md", "json"):
        text = RENDERERS[form](report).decode().replace("\\", "")
        assert all(number in text for number in told)
    [interaction] = report.main.interactions
    cells = {cell.label: round(cell.mean, 3) for row in interaction.cells for cell in row}
    assert cells["175b, verification"] == 0.563
    assert not report.declared
    assert {threat.title for threat in report.threats} >= {"Exploratory", "No repeats"}
    assert "10 of 5,276 trials are shown" in report.not_shown


def test_hypotheses_come_first_and_all_else_is_exploratory(built: Report) -> None:
    assert built.declared
    assert [one.verdict for one in built.findings] == ["supported", "rejected"]
    assert built.answer.startswith("H1 (Large <b>wins</b>) is supported: model=large - model=small <b> +0.")
    assert built.main is not None
    points = built.main.points
    assert [point.declared for point in points[:3]] == [True, True, False]
    assert points[0].label == "H1: model=large - model=small <b>"
    assert not any(point.label.startswith(("model: ", "style: ")) for point in points)
    titles = [threat.title for threat in built.threats]
    assert titles.index("Few cases") >= 0
    assert "Exploratory effects" in titles
    assert "Failures" in titles
    assert "holm" in built.methods[2].lower()
    assert any("lost trial" in line for line in built.lost.bounds)


DEGENERATE: dict[str, tuple[Callable[[Make], list[Any]], str]] = {
    "nothing": (lambda t: [], "There is no answer: the run has no trials."),
    "queued": (
        lambda t: [t(n, {}, state=State.queued, output=None) for n in range(3)],
        "There is no answer yet: of 3 trials none has succeeded (0 failed, 3 not begun).",
    ),
    "all failed": (
        lambda t: [t(n, None, model=m) for n in range(4) for m in "ab"],
        "There is no answer: all 8 trials failed.",
    ),
    "no scores": (
        lambda t: [t(n, {}, model=m) for n in range(4) for m in "ab"],
        "Nothing was measured: 8 of 8 trials have an output, and the study has no score for them.",
    ),
    "one case": (
        lambda t: [t(0, {"match": m == "a"}, model=m) for m in "ab"],
        "match does not clearly change with model=b rather than model=a: -1.00 [-1.00, 1.00].",
    ),
    "one trial": (
        lambda t: [t(0, {"match": 0.5})],
        "match is 0.50 [unknown] on 1 case, which says nothing about other cases.",
    ),
    "all equal": (
        lambda t: [t(n, {"match": True}, model=m) for n in range(20) for m in "ab"],
        "match does not clearly change with model=b rather than model=a: 0.00 [-0.16, 0.16].",
    ),
    "one condition": (lambda t: [t(n, {"match": n % 2 == 0}) for n in range(40)], "match is 0.50 ["),
    "texts only": (
        lambda t: [t(n, {"tone": "kind" if n % 3 else "terse"}, model=m) for n in range(9) for m in "ab"],
        "tone=kind does not clearly change with model=b rather than model=a: 0.00 [-0.30, 0.30].",
    ),
    "no spread": (
        lambda t: [t(n, {"match": 0.5 * (m == "a")}, model=m) for n in range(12) for m in "ab"],
        "match changes by -0.50 [-0.63, -0.10] with model=b rather than model=a.",
    ),
    "three levels": (
        lambda t: [t(n, {"match": (n + ord(m)) % 3 == 0}, model=m) for n in range(30) for m in "abc"],
        "match does not clearly differ between the levels of model",
    ),
}


@pytest.mark.parametrize("name", DEGENERATE)
def test_where_there_is_little_to_say_it_says_so(name: str, trial: Make, results: Make) -> None:
    make, answer = DEGENERATE[name]
    report = build(results(make(trial)))
    assert report.answer.startswith(answer)
    for form in TEXTS:
        assert RENDERERS[form](report)


def test_threats_are_those_of_the_run_as_it_was(trial: Make, results: Make) -> None:
    told = {"judge": Score("judge", State.succeeded, 0.5, metrics={"calls": 1.0})}
    trials = [
        trial(n, told, repeat, cluster=f"k{n % 12}", reused=n < 5, about={"served": "m"})
        for n in range(60)
        for repeat in range(2)
    ]
    trials.append(trial(99, {}, state=State.queued, output=None))
    found = {one.title: one for one in build(results(trials, status="interrupted")).threats}
    assert set(found) == {
        *(
            "Few cases",
            "Not complete",
            "Judged by a model",
            "Reused trials",
            "Served models",
            "Unknown origin",
        )
    }
    assert found["Judged by a model"].grave
    assert "10 of 121 trials" in found["Reused trials"].text
    assert "13 clusters" in found["Few cases"].text
    assert "Of 121 trials 1 not begun (the run is interrupted)" in found["Not complete"].text


def test_what_is_wrong_is_said_at_once(results: Make) -> None:
    with pytest.raises(Invalid) as error:
        build(results([]), level=2, trials=-1)
    assert list(error.value.problems) == [
        "level: must lie between 0 and 1, not 2",
        "trials: must be at least 0, not -1",
    ]


@given(
    st.lists(
        st.tuples(st.integers(0, 20), st.sampled_from("abc"), st.sampled_from([None, 0, 1])), max_size=60
    ),
    st.integers(0, 30),
)
def test_failures_are_shown_first_and_never_more_than_asked_for(rows: list[Any], most: int) -> None:
    trials = [
        one(case, None if value is None else {"match": value}, repeat, model=model)
        for repeat, (case, model, value) in enumerate(rows)
    ]
    picked = chosen_examples(trials, measure(trials, "match"), most)
    assert len(picked) == min(most, len(trials))
    assert len({trial.id for trial in picked}) == len(picked)
    failed = [trial for trial in trials if trial.state is State.failed]
    shown = [trial for trial in picked if trial.state is State.failed]
    assert len(shown) >= min(len(failed), most // 2)


def one(case: object, scores: Any, repeat: int, **more: Any) -> Any:
    from peira.results.trials import Score, TrialResult

    state = State.failed if scores is None else State.succeeded
    told = {name: Score(name, State.succeeded, value) for name, value in (scores or {}).items()}
    made = {"id": f"{case} {repeat}", "agent": "f", "case_id": str(case), "condition": more, "repeat": repeat}
    return TrialResult(**made, state=state, scores=told)


def test_of_many_trials_those_are_shown_on_which_conditions_differ(trial: Make) -> None:
    alike = [trial(n, {"match": True}, model=m) for n in range(50) for m in "ab"]
    apart = [trial("odd", {"match": m == "a"}, model=m) for m in "ab"]
    every = [*alike, *apart]
    assert [t.case_id for t in chosen_examples(every, measure(every), 2)] == ["odd", "odd"]


def test_many_conditions_are_counted_and_not_listed(trial: Make, results: Make) -> None:
    trials = [
        trial(n, {"match": (n + a * b) % 2 == 0}, a=a, b=b)
        for n in range(2)
        for a in range(9)
        for b in range(9)
    ]
    report = build(results(trials))
    assert len(report.conditions) == 60
    assert report.conditions_left == 21
    assert "21 more conditions" in RENDERERS["html"](report).decode()


def test_what_may_have_been_billed_is_shown_apart_from_what_was(trial: Make, results: Make) -> None:
    spent = [
        Spent("m:a", 5, 3, 30, 12, 1.2, doubtful=2, doubtful_tokens=40, doubtful_money=0.031),
        Spent("m:b", 2, 1, unpriced=1, doubtful=1),
        Spent("m:c", 1, 1, money=0.5),
    ]
    told = build(results([trial(1, {"right": True})], spent=spent)).spending
    assert [row[-1] for row in told.rows] == [
        "$1.20 and 2 in doubt (perhaps $0.031 more)",
        "unknown and 1 in doubt",
        "$0.50",
    ]
    assert (
        "In this run: spent $1.70 and 1 of unknown price and 3 in doubt (perhaps $0.031 more)." in told.lines
    )


def grid_of(make: Make, value: Callable[[int, str, str, str], bool]) -> list[Any]:
    levels = [(a, b, c) for a in "01" for b in ("plain", "long") for c in "01"]
    return [
        make(n, {"match": value(n, a, b, c)}, shots=int(a), style=b, heat=int(c))
        for n in range(24)
        for a, b, c in levels
    ]


def test_three_factors_are_answered_in_short_and_levels_carry_names(trial: Make, results: Make) -> None:
    found = build(results(grid_of(trial, lambda n, a, b, c: n % 4 < 1 + 2 * int(a))))
    assert "with shots=1 rather than shots=0" in found.answer
    assert found.answer.endswith(". Not clear: style, heat and 3 interactions.")
    assert found.answer.count(".") <= 8
    assert len(found.answer) < 140
    assert found.main is not None
    assert "shots=1" in found.main.ranking


def test_a_clear_interaction_is_named(trial: Make, results: Make) -> None:
    found = build(results(grid_of(trial, lambda n, a, b, c: (a == c) == (n % 8 > 0))))
    assert found.main is not None
    [clear] = [one for one in found.main.effects.effects if one.term == "shots x heat"]
    said = f"match changes by {change(clear.estimate)} with the interaction shots x heat."
    assert found.answer.startswith(said)
    assert " Not clear: style and 2 interactions." in found.answer


def test_a_wrong_answer_is_called_wrong(trial: Make, results: Make) -> None:
    scores = ({"match": True}, {"match": False}, {}, None)
    found = build(results([trial(n, one) for n, one in enumerate(scores)]))
    assert [one.verdict for one in found.trials] == ["correct", "wrong", "answered", "failed"]


def test_slices_of_cases_appear(trial: Make, results: Make) -> None:
    found = build(
        results([trial(n, {"match": n % 3 > 0}, slice="even" if n % 2 == 0 else "odd") for n in range(30)])
    )
    assert found.slices is not None
    assert {one.label for one in found.slices.slices} == {"even", "odd"}
    for form in ("html", "md", "tex"):
        assert "even" in RENDERERS[form](found).decode()
    assert build(results([trial(n, {"match": n % 3 > 0}) for n in range(30)])).slices is None


def test_scores_that_have_not_been_made_are_not_lost() -> None:
    asked = study(
        agent=lambda case, style: case.input,
        name="unscored",
        cases=[Case(n, expected=n) for n in range(4)],
        factors={"style": ["a", "b"]},
        evaluators=[exact()],
    )
    built = build(generate(asked, store=MemoryStore(), progress=False))
    assert built.lost.sentence == "None of 8 trials failed, 8 scores are not made yet."
    assert built.lost.bounds == ()
