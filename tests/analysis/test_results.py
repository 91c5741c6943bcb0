from __future__ import annotations

import csv
import json
import math
import sys
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from peira.analysis.results import Results
from peira.core.log.events import Artifact, Failure, State
from peira.errors import Invalid, Unknown
from peira.results.rows import FIXED
from peira.results.trials import Score, TrialResult

NASTY = st.text(st.characters(exclude_categories=["Cs"])) | st.sampled_from(
    ['"', '","', "\r", "\n", "\r\n", "\0", "=1+1", "\u2028", "a,b", " ", "", "nan", "\ufeff"]
)


class Loader:
    """Trials, and how often they were asked for."""

    def __init__(self, *trials: TrialResult) -> None:
        self.trials = trials
        self.times = 0

    def __call__(self) -> Iterator[TrialResult]:
        self.times += 1
        return iter(self.trials)


def results(*trials: TrialResult, status: str = "completed", **counts: int) -> Results:
    return Results(Loader(*trials), run_id="f" * 64, study="capitals", status=status, counts=counts)


def trial(number: int = 1, **given: object) -> TrialResult:
    base = {"id": f"t{number}", "agent": "answer", "case_id": f"c{number}", "state": State.succeeded}
    return TrialResult(**base | given)  # type: ignore[arg-type]


WHY = Failure("ValueError", "bad\nnews", "trace")
SCORED = trial(
    1, scores={"match": Score("match", State.succeeded, True), "len": Score("len", State.failed, None, WHY)}
)
FAILED = trial(2, state=State.failed, failure=WHY)


def test_trials_scores_and_failures() -> None:
    found = results(SCORED, FAILED)
    assert found.trials == list(found) == [SCORED, FAILED]
    assert len(found) == 2
    assert [(row.trial.id, row.score.name) for row in found.scores] == [("t1", "match"), ("t1", "len")]
    assert [(row.trial.id, row.stage, row.score) for row in found.failures] == [
        ("t1", "evaluate", "len"),
        ("t2", "generate", ""),
    ]
    assert {row.failure for row in found.failures} == {WHY}


def test_trials_are_loaded_once() -> None:
    loader = Loader(SCORED, FAILED)
    found = Results(loader, run_id="r", study="s", status="completed", counts={})
    assert repr(found) == "<Results of s, run r, completed: no trials>"
    assert loader.times == 0
    assert found.trials is found.trials
    assert (len(found), str(found.table("agent")), loader.times) == (2, str(found.table("agent")), 1)


def test_ok_means_that_everything_asked_for_succeeded() -> None:
    assert results(status="completed", succeeded=3, failed=0).ok
    assert not results(status="completed", succeeded=3, failed=1).ok
    assert not results(status="completed", in_doubt=1).ok
    for status in ("completed with failures", "stopped by a limit", "cancelled", "interrupted", "running"):
        assert not results(status=status, succeeded=3).ok


def test_results_print_as_a_summary() -> None:
    found = results(SCORED, FAILED, status="completed with failures", succeeded=1, failed=1, cancelled=0)
    assert (
        repr(found)
        == "<Results of capitals, run ffffffffffff, completed with failures: 1 succeeded, 1 failed>"
    )
    assert str(found).startswith(
        "capitals, run ffffffffffff, completed with failures: 1 succeeded, 1 failed\n\nscore"
    )
    assert "not in the means: 1 failed trial, 1 failed score" in str(found)


def test_the_notes_stand_under_every_table() -> None:
    found = Results(
        Loader(SCORED), run_id="r", study="s", status="completed", counts={}, notes=["not executed: x"]
    )
    assert str(found.table("agent")).endswith("\nnot executed: x")


def test_an_unknown_group_is_refused() -> None:
    with pytest.raises(Unknown, match="agent"):
        results(SCORED).table("agnet")


def read_csv(found: Results) -> list[dict[str, str]]:
    with TemporaryDirectory() as folder:
        path = Path(folder) / "results.csv"
        found.to_csv(path)
        with path.open(newline="", encoding="utf-8") as file:
            return list(csv.DictReader(file))


def read_jsonl(found: Results) -> list[dict[str, Any]]:
    with TemporaryDirectory() as folder:
        path = Path(folder) / "results.jsonl"
        found.to_jsonl(path)
        return [json.loads(line) for line in path.read_bytes().split(b"\n")[:-1]]


@given(st.lists(st.tuples(NASTY, NASTY, NASTY), min_size=1, max_size=4))
def test_nasty_texts_survive_csv_and_json_lines(texts: list[tuple[str, str, str]]) -> None:
    made = [
        trial(
            number,
            input=said,
            output={"said": said},
            condition={name: value},
            scores={name: Score(name, State.succeeded, value)},
            failure=Failure("E", value),
        )
        for number, (said, name, value) in enumerate(texts)
    ]
    found = results(*made)
    for (said, name, value), row, line in zip(texts, read_csv(found), read_jsonl(found), strict=True):
        assert row["input"] == line["input"] == said
        assert json.loads(row["output"]) == line["output"] == {"said": said}
        assert row[f"condition.{name}"] == line["condition"][name] == value
        assert row[f"score.{name}"] == line["scores"][name]["value"] == value
        assert row["failure"] == f"E: {value}"
        assert line["failure"]["message"] == value


def test_csv_has_the_fixed_columns_first_and_says_what_failed() -> None:
    rich = trial(
        3,
        condition={"z": 1, "a": [1]},
        metrics={"tokens": 5.0},
        scores={"r": Score("r", State.succeeded, {"k": 2})},
    )
    rows = read_csv(results(SCORED, FAILED, rich))
    assert list(rows[0]) == [
        *FIXED,
        "condition.a",
        "condition.z",
        "score.match",
        "score.r.k",
        "metric.tokens",
    ]
    assert rows[0]["score.match"] == "true"
    assert rows[0]["failed_scores"] == json.dumps({"len": "ValueError: bad\nnews"}, separators=(",", ":"))
    assert (rows[1]["state"], rows[1]["failure"], rows[1]["score.match"]) == (
        "failed",
        "ValueError: bad\nnews",
        "",
    )
    assert (rows[2]["condition.a"], rows[2]["score.r.k"], rows[2]["metric.tokens"]) == ("[1]", "2", "5.0")
    assert {row["run"] for row in rows} == {"f" * 64}


def test_json_lines_have_the_same_keys_in_every_line_and_no_bad_json() -> None:
    rich = trial(
        3, metrics={"loss": math.nan}, artifacts=(Artifact("log", "d" * 64, 3),), about={"model": "m"}
    )
    lines = read_jsonl(results(SCORED, FAILED, rich))
    assert len({tuple(line) for line in lines}) == 1
    assert lines[0]["scores"]["len"]["failure"] == {
        "type": "ValueError",
        "message": "bad\nnews",
        "trace": "trace",
    }
    assert lines[2]["metrics"] == {"loss": None}
    assert lines[2]["artifacts"] == [{"name": "log", "digest": "d" * 64, "size": 3, "media": ""}]


def test_csv_is_written_from_one_reading_so_results_that_change_meanwhile_do_not_tear_it() -> None:
    readings = iter([[SCORED], [SCORED, trial(3, metrics={"late": 1.0})]])
    found = Results(lambda: iter(next(readings)), run_id="r", study="s", status="running", counts={})
    assert len(read_csv(found)) == 1
    assert "metric.late" in read_csv(found)[0]


def test_csv_tells_an_empty_text_from_nothing(tmp_path: Path) -> None:
    results(trial(1, input="", expected=None, output="x")).to_csv(tmp_path / "results.csv")
    assert b',"",,x,,,' in (tmp_path / "results.csv").read_bytes()


def test_a_frame_has_the_columns_of_the_csv_file_with_values_as_they_are() -> None:
    frame = results(SCORED, FAILED).frame()
    assert list(frame.columns) == [*FIXED, "score.match"]
    assert frame["score.match"].tolist()[0] is True
    assert frame["state"].tolist() == ["succeeded", "failed"]
    assert list(results().frame().columns) == list(FIXED)


def test_a_frame_without_pandas_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(Invalid, match=r"peira\[frame\]"):
        results(SCORED).frame()


class Metadata(dict[str, Any]):
    """Counts how many of its kind exist at once."""

    alive = most = 0

    def __init__(self) -> None:
        Metadata.alive += 1
        Metadata.most = max(Metadata.most, Metadata.alive)

    def __del__(self) -> None:
        Metadata.alive -= 1


def test_tables_and_exports_do_not_hold_all_trials(tmp_path: Path) -> None:
    scores = {"match": Score("match", State.succeeded, True)}

    def load() -> Iterator[TrialResult]:
        return (trial(number, scores=scores, metadata=Metadata()) for number in range(500))

    found = Results(load, run_id="r", study="s", status="completed", counts={})
    assert found.table("agent").body[0].n == 500
    found.to_csv(tmp_path / "results.csv")
    found.to_jsonl(tmp_path / "results.jsonl")
    assert found.failures == []
    assert Metadata.most < 5
