"""Every format gives back, to a reader that is not ours, what the trials were; and all agree on numbers."""

from __future__ import annotations

import csv
import json
import math
import sqlite3
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings

from peira.analysis.results import Results
from peira.core.log.events import State
from peira.errors import Invalid
from peira.report.exports.excel import LONGEST
from peira.results.rows import flat
from peira.results.trials import Score, TrialResult, named

from .conftest import HOSTILE, gathered, some


@contextmanager
def exported(results: Results, format: str) -> Iterator[Path]:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "out"
        results.export(path, format)
        assert [file.name for file in Path(folder).iterdir()] == ["out"]
        yield path


def read(path: Path) -> tuple[list[str], list[list[str]]]:
    with path.open(newline="", encoding="utf-8-sig") as file:
        header, *rows = csv.reader(file)
    return header, rows


def same(one: Any, two: Any) -> bool:
    return one == two or (isinstance(one, float) and math.isnan(one) and math.isnan(two))


def cell(value: Any) -> Any:
    """What a cell of CSV means for a value that is known: JSON, unless it is text."""
    if value is None or isinstance(value, str):
        return value or ""
    return float(value) if isinstance(value, float) else value


@given(some())
def test_csv_gives_every_value_back(found: list[TrialResult]) -> None:
    with exported(gathered(found), "csv") as path:
        header, rows = read(path)
    assert len(header) == len(set(header))
    for trial, row in zip(found, rows, strict=True):
        wanted = flat(trial, "f" * 64)
        for name, said in zip(header, row, strict=True):
            value = cell(wanted.get(name))
            read_back = said if isinstance(value, str) else float(said) if isinstance(value, float) else None
            assert same(value, json.loads(said) if read_back is None else read_back)


@given(some())
def test_the_long_form_has_every_part_of_every_score(found: list[TrialResult]) -> None:
    with exported(gathered(found), "csv-long") as path:
        header, rows = read(path)
    said = [dict(zip(header, row, strict=True)) for row in rows]
    wanted = [
        (trial.id, score.name, part, value)
        for trial in found
        for score in trial.scores.values()
        for part, value in (named(score) or {"": None}).items()
    ]
    assert [(row["trial"], row["score"]) for row in said] == [(trial, score) for trial, score, *_ in wanted]
    for row, (_, score, part, value) in zip(said, wanted, strict=True):
        assert row["part"] == (part.removeprefix(f"{score}.") if part != score else "")
        if isinstance(value, (bool, int, float)):
            assert float(row["number"]) == float(value)
        else:
            assert (row["number"], row["value"]) == ("", value or "")


@given(some())
def test_nothing_in_a_spreadsheet_is_a_formula(found: list[TrialResult]) -> None:
    with exported(gathered(found), "excel") as path:
        data = path.read_bytes()
        header, rows = read(path)
    assert data.startswith(b"\xef\xbb\xbf")
    for row in [header, *rows]:
        for said in row:
            assert said[:1] not in ("=", "+", "@", "\t", "\r", "\n")
            assert said.lstrip()[:1] not in ("=", "+", "@")
            if said.startswith("-"):
                float(said)
            assert "\r" not in said
            assert "\x00" not in said


def test_a_spreadsheet_keeps_numbers_and_cuts_long_texts_with_a_note() -> None:
    score = Score("s", State.succeeded, -1.5)
    trial = TrialResult(
        id="0" * 64, agent="a", case_id="c", state=State.succeeded, output="😀" * 40_000, scores={"s": score}
    )
    with exported(gathered([trial]), "excel") as path:
        header, [row] = read(path)
    said = dict(zip(header, row, strict=True))
    assert said["score.s"] == "-1.5"
    assert len(said["output"].encode("utf-16-le")) // 2 <= LONGEST
    assert said["output"].endswith("[cut off here: 40,000 characters in all]")


@given(some())
def test_json_lines_give_everything_back(found: list[TrialResult]) -> None:
    with exported(gathered(found), "jsonl") as path:
        lines = [json.loads(line) for line in path.read_bytes().split(b"\n")[:-1]]
    for trial, line in zip(found, lines, strict=True):
        assert line["condition"] == trial.condition
        assert (line["input"], line["expected"], line["output"]) == (
            trial.input,
            trial.expected,
            trial.output,
        )
        assert {name: score["value"] for name, score in line["scores"].items()} == {
            name: score.value for name, score in trial.scores.items()
        }


@given(some())
@settings(deadline=None)
def test_parquet_gives_every_value_back_with_its_type(found: list[TrialResult]) -> None:
    with exported(gathered(found), "parquet") as path:
        table = pq.read_table(path)
    assert table.num_rows == len(found)
    for column in table.schema:
        nested = (column.metadata or {}).get(b"peira") == b"json"
        for trial, value in zip(found, table[column.name].to_pylist(), strict=True):
            wanted = flat(trial, "f" * 64).get(column.name)
            if wanted is None:
                assert value is None
            elif nested:
                assert json.loads(value) == (None if wanted != wanted else wanted)
            else:
                assert same(wanted, value)
                assert isinstance(value, type(wanted)) or isinstance(wanted, int)


@given(some())
@settings(deadline=None)
def test_sqlite_gives_every_value_back(found: list[TrialResult]) -> None:
    with exported(gathered(found), "sqlite") as path:
        db = sqlite3.connect(path)
        db.row_factory = sqlite3.Row
        trials = {row["trial"]: row for row in db.execute("SELECT * FROM trials")}
        conditions = {row["condition"]: row for row in db.execute("SELECT * FROM conditions")}
        columns = dict(db.execute("SELECT factor, column_name FROM factors").fetchall())
        scores = {(r["trial"], r["score"], r["part"]): r for r in db.execute("SELECT * FROM scores")}
        metrics = {(r["trial"], r["metric"]): r["value"] for r in db.execute("SELECT * FROM metrics")}
        assert db.execute("PRAGMA integrity_check").fetchone()[0] == "ok"
        db.close()
    for trial in found:
        row = trials[trial.id]
        for field in ("input", "expected", "output"):
            said = row[field] if row[f"{field}_kind"] != "json" else json.loads(row[field])
            assert said == getattr(trial, field)
        condition = conditions[row["condition"]]
        assert (condition["agent"], json.loads(condition["assignment"])) == (trial.agent, trial.condition)
        for factor, level in trial.condition.items():
            if isinstance(level, (str, float)) or type(level) is int:
                assert condition[columns[factor]] == level
        for name, score in trial.scores.items():
            for part, value in named(score).items():
                row = scores[trial.id, name, "" if part == name else part.removeprefix(f"{name}.")]
                assert row["text" if isinstance(value, str) else "number"] == value
        for name, number in trial.metrics.items():
            assert metrics[trial.id, name] == (None if math.isnan(number) else number)


def test_all_formats_agree_on_the_numbers(stored: Results) -> None:
    wanted = [trial.scores["exact"].value for trial in stored if "exact" in trial.scores]
    with exported(stored, "csv") as path:
        header, rows = read(path)
        column = header.index("score.exact")
        assert [json.loads(row[column]) for row in rows if row[column]] == wanted
    with exported(stored, "csv-long") as path:
        header, rows = read(path)
        of, number = header.index("score"), header.index("number")
        assert [float(row[number]) for row in rows if row[of] == "exact"] == wanted
    with exported(stored, "parquet") as path:
        column = pq.read_table(path)["score.exact"].to_pylist()
        assert [value for value in column if value is not None] == wanted
    with exported(stored, "sqlite") as path:
        db = sqlite3.connect(path)
        sql = (
            "SELECT number FROM scores JOIN trials USING (trial) WHERE score = 'exact' ORDER BY trials.rowid"
        )
        assert [number for (number,) in db.execute(sql)] == wanted
        mean = "SELECT avg(number) FROM scores WHERE score = 'exact'"
        whole = stored.table(score="exact", overall=True)
        assert db.execute(mean).fetchone()[0] == pytest.approx(whole.body[0].mean)
        db.close()


@pytest.mark.parametrize("format", ["csv", "csv-long", "excel", "jsonl", "parquet", "sqlite"])
def test_the_same_results_give_the_same_bytes(stored: Results, format: str) -> None:
    with exported(stored, format) as one, exported(stored, format) as two:
        assert one.read_bytes() == two.read_bytes()


def test_factors_that_sql_takes_for_the_same_have_columns_of_their_own() -> None:
    condition = {name: number for number, name in enumerate(HOSTILE)}
    trial = TrialResult(id="0" * 64, agent="x", case_id="c", state=State.succeeded, condition=condition)
    with exported(gathered([trial]), "sqlite") as path:
        db = sqlite3.connect(path)
        columns = dict(db.execute("SELECT factor, column_name FROM factors").fetchall())
        assert len({column.lower() for column in columns.values()}) == len(HOSTILE)
        for factor, number in condition.items():
            quoted = columns[factor].replace('"', '""')
            assert db.execute(f'SELECT "{quoted}" FROM conditions').fetchone()[0] == number
        db.close()


def test_a_sheet_is_refused_where_it_would_be_cut_off() -> None:
    trial = TrialResult(
        id="0" * 64,
        agent="a",
        case_id="c",
        state=State.queued,
        metrics={f"m{number}": 1.0 for number in range(16_400)},
    )
    with pytest.raises(Invalid, match="16,384 columns"), exported(gathered([trial]), "excel"):
        pass


def test_what_is_not_installed_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, format in (("pyarrow", "parquet"), ("pyarrow", "hf"), ("mlflow", "mlflow"), ("wandb", "wandb")):
        monkeypatch.setitem(sys.modules, name, None)
        with pytest.raises(Invalid, match=f"{name}, which is not installed"):
            gathered([]).export(tmp_path / "out", format)
    assert list(tmp_path.iterdir()) == []
