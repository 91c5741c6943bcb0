"""A judge held against people: labels, agreement, biases, and means corrected for its errors."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from peira.analysis.results import Results
from peira.core.log.events import State
from peira.core.verdicts import NoVerdict, to_json
from peira.errors import Invalid, PeiraError
from peira.results.trials import Score, TrialResult
from peira.stats.agreement import cohen_kappa, krippendorff_alpha
from peira.stats.intervals.means import estimate
from peira.stats.intervals.prediction_powered import prediction_powered, rogan_gladen

Make = Callable[..., Any]


def rated(trial: Make, case: int, grade: int, *, scale: int = 5, **more: Any) -> TrialResult:
    """An output that a judge graded."""
    value = {"value": (grade - 1) / (scale - 1), "raw": grade, "reason": "because"}
    score = {"judge": Score("judge", State.succeeded, value)}
    return trial(case, True, **{"scores": score, "output": f"output {case}", **more})  # type: ignore[no-any-return]


@pytest.fixture
def judged(trial: Make, results: Make) -> Callable[..., Results]:
    """Results of outputs with these grades, whose cases carry these labels in their metadata."""

    def make(grades: list[int], labels: list[Any], **more: Any) -> Results:
        made = [
            rated(trial, n, grade, metadata={} if label is None else {"human": label}, **more)
            for n, (grade, label) in enumerate(zip(grades, labels, strict=True))
        ]
        return results(made)  # type: ignore[no-any-return]

    return make


# Labels


@pytest.fixture
def four(trial: Make, results: Make) -> Results:
    made = [rated(trial, n, grade, scale=2, model=m, output=f"{n} {m}")
            for n, m, grade in [(0, "a", 1), (0, "b", 2), (1, "a", 2), (1, "b", 1)]]  # fmt: skip
    return results(made)  # type: ignore[no-any-return]


def write(path: Path, rows: list[dict[str, Any]]) -> Path:
    if path.suffix == ".jsonl":
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
        return path
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
    return path


@pytest.mark.parametrize("name", ["labels.csv", "labels.jsonl"])
def test_labels_of_a_file_find_their_outputs(name: str, four: Results, tmp_path: Path) -> None:
    rows = [
        {"case": 0, "model": "a", "label": 1},
        {"case": "0", "model": "b", "label": 2},
        {"case": 1, "model": "a", "label": ""},
        {"case": 1, "model": "b", "label": 2},
    ]
    found = four.agreement(write(tmp_path / name, rows), score="judge.raw")
    assert (found.labelled, found.categories) == (3, (1.0, 2.0))
    assert found.confusion == ((1, 0), (1, 1))
    assert found.share.mean == pytest.approx(2 / 3)


def test_an_export_with_a_column_of_labels_is_a_file_of_labels(four: Results, tmp_path: Path) -> None:
    four.to_csv(tmp_path / "all.csv")
    with (tmp_path / "all.csv").open() as file:
        good = ("bad", "good")
        rows = [{**row, "label": good[row["score.judge.raw"] == "2"]} for row in csv.DictReader(file)]
    write(tmp_path / "all.csv", rows)
    with pytest.raises(Invalid, match="the labels are texts"):
        four.agreement(tmp_path / "all.csv")
    write(tmp_path / "all.csv", [{**row, "label": row["label"] == "good"} for row in rows])
    found = four.agreement(tmp_path / "all.csv")
    assert (found.score, found.share.mean) == ("judge.value", 1.0)


def test_everything_that_is_wrong_with_a_file_is_told_by_line(four: Results, tmp_path: Path) -> None:
    rows = [
        {"case": 0, "label": 1},
        {"case": 7, "model": "a", "label": 1},
        {"case": 0, "model": "c", "label": 1},
        {"case": 1, "model": "a", "label": 1},
        {"case": 1, "model": "a", "label": 0},
        {"trial": "nonsense", "label": 0},
        {"case": 1, "model": "a"},
    ]
    with pytest.raises(Invalid) as told:
        four.agreement(write(tmp_path / "labels.jsonl", rows))
    places = [line.split(": ")[0] for line in told.value.problems]
    assert places == [f"labels.jsonl:{n}" for n in (1, 2, 3, 5, 6, 7)]
    assert "fits 2 outputs of case '0' that differ; say also agent, model, repeat" in told.value.problems[0]
    assert "no output of case '0' is of model=c" in told.value.problems[2]
    with pytest.raises(PeiraError, match="no file 'humna'"):
        four.agreement("humna")


def test_labels_by_the_ids_of_trials(four: Results) -> None:
    found = four.agreement({one.id: one.scores["judge"].value["raw"] for one in four}, score="judge.raw")
    assert found.share.mean == 1.0


# Agreement


def test_agreement_equals_a_published_example(judged: Make) -> None:
    """Two readers of 50 proposals: 20 both yes, 15 both no, 5 and 10 apart; kappa is 0.40."""
    people = [1] * 25 + [0] * 25
    grades = [2] * 20 + [1] * 5 + [2] * 10 + [1] * 15
    found = judged(grades, people).agreement("human", cut=0.25, score="judge.value")
    assert found.kappa.value == pytest.approx(0.4)
    assert found.confusion == ((15, 10), (5, 20))
    assert found.share.mean == pytest.approx(0.7)
    assert found.bias.mean == pytest.approx(0.1)
    assert found.notes == ()
    assert "kappa" in str(found)
    assert json.loads(found.to_json())["kappa"]["value"] == pytest.approx(0.4)


def test_repeats_of_a_case_are_no_more_evidence(trial: Make, results: Make) -> None:
    rng = np.random.default_rng(1)
    truth, said = rng.integers(1, 6, 40), rng.integers(1, 6, 40)
    pairs = list(enumerate(zip(truth, said, strict=True)))
    once, often = (
        results(
            [
                rated(trial, n, int(s), repeat=repeat, metadata={"human": int(t)})
                for n, (t, s) in pairs
                for repeat in range(repeats)
            ]
        )
        for repeats in (1, 4)
    )
    one, many = once.agreement("human"), often.agreement("human")
    assert many.kappa.value == pytest.approx(one.kappa.value)
    assert many.kappa.method == "cohen kappa, by case"
    width = many.kappa.high - many.kappa.low
    assert width == pytest.approx(one.kappa.high - one.kappa.low, rel=0.2)
    assert (many.labelled, many.cases) == (160, 40)


def test_a_small_subset_says_so(judged: Make) -> None:
    found = judged([1, 2, 3, 4, 5], [1, 2, 3, 5, None]).agreement("human")
    assert (found.labelled, found.score) == (4, "judge.raw")
    assert found.weighted.value > found.kappa.value
    assert "too few to say: 4 labelled cases" in str(found)
    with pytest.raises(Invalid, match="has a label"):
        judged([1, 2], [None, None]).agreement({})


def test_no_verdicts_are_not_compared(trial: Make, results: Make) -> None:
    none = {"judge": Score("judge", State.succeeded, to_json(NoVerdict("hm")))}
    made = [rated(trial, 0, 5, metadata={"human": 5}), trial(1, True, scores=none, metadata={"human": 1})]
    found = results(made).agreement("human")
    assert found.labelled == 1


# Corrected means


@pytest.fixture
def lenient(trial: Make, results: Make) -> Results:
    """A judge that likes half of what people do not; people looked at 80 of 400."""
    rng = np.random.default_rng(7)
    made = []
    for n in range(400):
        good = bool(rng.random() < 0.5)
        grade = 2 if good or rng.random() < 0.5 else 1
        metadata = {"human": good} if n < 80 else {}
        made.append(rated(trial, n, grade, scale=2, metadata=metadata, half=n % 2))
    return results(made)  # type: ignore[no-any-return]


def test_a_lenient_judge_is_corrected(lenient: Results) -> None:
    [row] = lenient.corrected("human").body
    assert row.judged.low > 0.6
    assert row.corrected.low < 0.5 < row.corrected.high
    assert row.corrected.high - row.corrected.low < row.people.high - row.people.low
    assert (row.cases, row.labelled) == (400, 80)
    both = [one for one in lenient if one.metadata]
    rest = [one for one in lenient if not one.metadata]
    value = lambda one: one.scores["judge"].value["value"]  # noqa: E731
    truth = [float(one.metadata["human"]) for one in both]
    assert row.corrected == prediction_powered(truth, list(map(value, both)), list(map(value, rest)))


def test_by_how_it_errs(lenient: Results) -> None:
    [row] = lenient.corrected("human", method="rogan-gladen").body
    both = [(one.scores["judge"].value["raw"] == 2, one.metadata["human"]) for one in lenient if one.metadata]
    yes = sum(one.scores["judge"].value["raw"] == 2 for one in lenient)
    good, bad = [s for s, g in both if g], [not s for s, g in both if not g]
    assert row.corrected == rogan_gladen(yes, 400, sum(good), len(good), sum(bad), len(bad))
    assert row.corrected.low < 0.5 < row.corrected.high


def test_corrected_by_group(lenient: Results) -> None:
    found = lenient.corrected("human", "half")
    assert [row.labels for row in found.body] == [(0,), (1,)]
    assert sum(row.labelled for row in found.body) == 80
    assert "corrected" in str(found)
    assert "chosen at random" in found.markdown()
    with pytest.raises(PeiraError, match="no factor 'hlaf'"):
        lenient.corrected("human", "hlaf")
    with pytest.raises(Invalid, match="must be 0 or 1"):
        lenient.corrected({one.id: 0.5 for one in lenient}, method="rogan-gladen")
    with pytest.raises(Invalid, match="known: prediction-powered, rogan-gladen"):
        lenient.corrected("human", method="rogan")


def test_where_all_is_labelled_the_mean_is_that_of_people(judged: Make) -> None:
    [row] = judged([1, 5, 5, 5], [0, 1, 0, 1]).corrected("human").body
    assert row.corrected == estimate([0, 1, 0, 1], range(4))


# Biases


def test_a_judge_that_likes_length_is_found_out(trial: Make, results: Make) -> None:
    rng = np.random.default_rng(3)
    made = []
    for n in range(60):
        size, label = int(rng.integers(10, 1000)), int(rng.integers(1, 4))
        grade = min(5, label + (size > 100) + (size > 400))
        made.append(rated(trial, n, grade, output="x" * size, metadata={"human": label}))
    found = results(made).biases(labels="human")
    [bias] = found.found
    assert bias.name == "score beyond the label, per doubling of length"
    assert bias.clear
    assert bias.found.low > 0
    x = np.log2([len(one.output) for one in made])
    y = [one.scores["judge"].value["raw"] - one.metadata["human"] for one in made]
    assert bias.found.value == pytest.approx(np.polyfit(x, y, 1)[0])
    [seen] = results(made).biases(score="judge").found
    assert "only labels tell" in seen.note


def test_place_is_measured_on_swapped_pairs(trial: Make, results: Make) -> None:
    said = [(1.0, 0.0)] * 15 + [(1.0, 1.0)] * 3 + [(0.0, 0.0)] * 2
    made = [
        trial(n, True, output="a", scores={"pairwise": Score("pairwise", State.succeeded, {
            "value": first if first == second else 0.5, "verdict": "tie", "consistent": first == second,
            "first": first, "second": second, "longer": first == 1.0})})
        for n, (first, second) in enumerate(said)
    ]  # fmt: skip
    found = {bias.name: bias for bias in results(made).biases().found}
    place = found["first place preferred"]
    assert (place.found.value, place.clear) == (pytest.approx(0.5 + 0.75 / 2), True)
    assert found["verdict changes with the order"].found.value == 0.75
    assert (found["longer answer preferred"].found.value, found["longer answer preferred"].n) == (1.0, 5)
    assert "first place preferred" in str(results(made).biases())


def test_the_statistics_are_those_of_their_own_room(judged: Make) -> None:
    rng = np.random.default_rng(5)
    grades, labels = (rng.integers(1, 6, 50).tolist() for _ in range(2))
    found = judged(grades, labels).agreement("human")
    whole = range(1, 6)
    assert found.kappa == cohen_kappa(labels, grades, categories=whole)
    assert found.weighted == cohen_kappa(labels, grades, "quadratic", whole)
    pairs = list(zip(grades, labels, strict=True))
    assert found.alpha.value == krippendorff_alpha(pairs).value
    assert found.graded.value == krippendorff_alpha(pairs, "interval").value
