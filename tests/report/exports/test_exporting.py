"""An export is there whole or not at all, and takes the place of nothing but an export."""

from __future__ import annotations

import json
import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from peira.analysis.export_formats import _put, formats, guessed
from peira.analysis.results import Results
from peira.core.log.events import State
from peira.core.registry import registry
from peira.errors import Invalid
from peira.report.exports.artifact_rows import CONDITION, EVALUATION, EVENT, RUN, _columns
from peira.results.trials import TrialResult

from .conftest import gathered

FILES = {name: way for name, way in formats().items() if way.makes == "file"}
FOLDERS = [name for name, way in formats().items() if way.makes == "folder"]


def one() -> Results:
    return gathered([TrialResult(id="0" * 64, agent="a", case_id="c", state=State.succeeded, output="x")])


@pytest.mark.parametrize(
    ("name", "format"),
    [
        ("r.csv", "csv"),
        ("r.CSV", "csv"),
        ("r.excel.csv", "excel"),
        ("r.jsonl", "jsonl"),
        ("r.parquet", "parquet"),
        ("r.sqlite", "sqlite"),
        ("r.db", "sqlite"),
        ("r.tar.gz", "archive"),
        ("r.codebook.md", "codebook"),
    ],
)
def test_the_format_is_meant_by_the_name(name: str, format: str) -> None:
    assert guessed(Path(name)) == format


@pytest.mark.parametrize("name", ["results", "r.txt", ".csv", "csv"])
def test_a_name_that_means_no_format_is_refused_with_all_there_are(name: str, tmp_path: Path) -> None:
    with pytest.raises(
        Invalid, match="say which: archive, artifact, attachments, codebook, csv, csv-long, excel, hf"
    ):
        one().export(tmp_path / name)


@pytest.mark.parametrize("format", FILES)
def test_an_export_replaces_an_export_and_nothing_else(format: str, tmp_path: Path, stored: Results) -> None:
    path = tmp_path / "out"
    stored.export(path, format)
    first = path.read_bytes()
    stored.export(path, format)
    assert path.read_bytes() == first
    for foreign in (b"mine", b"", b"{}\n", b"SQLite format 3\0" + b"\0" * 100, b"run,trial\n"):
        if format == "jsonl" and not foreign:
            continue  # an export of no trials is empty
        path.write_bytes(foreign)
        with pytest.raises(Invalid, match="is there and is no such export"):
            stored.export(path, format)
        assert path.read_bytes() == foreign
    stored.export(path, format, force=True)
    assert path.read_bytes() == first
    assert [file.name for file in tmp_path.iterdir()] == ["out"]


@pytest.mark.parametrize("format", FOLDERS)
def test_a_folder_with_anything_else_in_it_is_left_alone(
    format: str, tmp_path: Path, stored: Results
) -> None:
    path = tmp_path / "out"
    path.mkdir()
    stored.export(path, format)  # an empty folder holds nothing to lose
    stored.export(path)  # what is there already says which format is meant
    (path / "notes.txt").write_text("mine")
    with pytest.raises(Invalid, match="is there and is no such export"):
        stored.export(path, format)
    assert (path / "notes.txt").read_text() == "mine"
    stored.export(path, format, force=True)
    assert not (path / "notes.txt").exists()
    assert [file.name for file in tmp_path.iterdir()] == ["out"]


def test_a_file_does_not_become_a_folder(tmp_path: Path, stored: Results) -> None:
    (tmp_path / "f").write_text("")
    (tmp_path / "d").mkdir()
    (tmp_path / "d" / "x").write_text("")
    with pytest.raises(Invalid, match="is a file and would become"):
        stored.export(tmp_path / "f", "artifact", force=True)
    with pytest.raises(Invalid, match="is a folder and would become"):
        stored.export(tmp_path / "d", "csv", force=True)


@pytest.mark.parametrize("format", [name for name in FILES if name != "study"])  # that reads no trial
def test_an_export_that_fails_leaves_what_was_there(format: str, tmp_path: Path, stored: Results) -> None:
    path = tmp_path / "out"
    stored.export(path, format)
    former = path.read_bytes()

    def load() -> Any:
        yield from one()
        raise ZeroDivisionError

    broken = Results(load, run_id="f" * 64, study="s", status="completed", counts={}, origin=stored.origin)
    with pytest.raises(ZeroDivisionError):
        broken.export(path, format)
    assert path.read_bytes() == former
    assert [file.name for file in tmp_path.iterdir()] == ["out"]


def test_a_folder_that_cannot_take_its_place_leaves_the_former_one(tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "README.md").write_text("former")
    with pytest.raises(FileNotFoundError):
        _put(tmp_path / "a draft that is gone", tmp_path / "out", tmp_path / "former")
    assert (tmp_path / "out" / "README.md").read_text() == "former"


def test_where_nothing_can_be_written_says_so(tmp_path: Path) -> None:
    with pytest.raises(Invalid, match="there is no folder"):
        one().export(tmp_path / "no" / "out.csv")
    with pytest.raises(Invalid, match="cannot be written"):
        one().export("/proc/out.csv")


def test_a_third_party_adds_a_format(tmp_path: Path) -> None:
    class Count:
        """How many trials there are."""  # other tests in this process may list the formats

        makes = "file"
        suffixes = (".count",)

        def write(self, results: Results, path: Path) -> None:
            path.write_text(str(len(results)))

        def owns(self, path: Path) -> bool:
            return path.read_text().isdigit()

    registry.add("export", "count-of-trials", Count)
    one().export(tmp_path / "n.count")
    assert (tmp_path / "n.count").read_text() == "1"


def test_an_unknown_format_names_the_nearest(tmp_path: Path) -> None:
    with pytest.raises(Invalid, match="did you mean 'parquet'"):
        one().export(tmp_path / "x", "parqet")


def test_pipes_are_written_into_and_stay_pipes(tmp_path: Path, stored: Results) -> None:
    """A reader was left hanging, and with force the pipe became a file."""
    pipe, plain = tmp_path / "pipe", tmp_path / "x.jsonl"
    os.mkfifo(pipe)
    stored.export(plain)
    with ThreadPoolExecutor(1) as pool:
        read = pool.submit(pipe.read_bytes)
        stored.export(pipe, "jsonl", force=True)
        assert read.result(30) == plain.read_bytes()
    assert pipe.is_fifo()
    with pytest.raises(Invalid, match="is a folder, and cannot be written to a pipe"):
        stored.export(pipe, "artifact")


def test_standard_output_gets_the_export(
    tmp_path: Path, stored: Results, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    stored.export(tmp_path / "x.csv")
    stored.export("-", "csv")
    assert capfdbinary.readouterr().out == (tmp_path / "x.csv").read_bytes()
    assert not Path("-").exists()


def test_links_are_never_replaced(tmp_path: Path, stored: Results) -> None:
    (tmp_path / "real.csv").write_text("mine")
    (tmp_path / "link.csv").symlink_to("real.csv")
    with pytest.raises(Invalid, match="is a link, and is not replaced"):
        stored.export(tmp_path / "link.csv", force=True)
    assert (tmp_path / "real.csv").read_text() == "mine"


def test_a_frame_of_mixed_values_can_be_written_to_parquet(tmp_path: Path) -> None:
    pandas = pytest.importorskip("pandas")
    pytest.importorskip("pyarrow")
    inputs = [{"a": [1]}, "text", 3, None, [1, "x"]]
    trials = [
        TrialResult(id=f"t{n}", agent="a", case_id=str(n), state=State.succeeded, input=given, output=n)
        for n, given in enumerate(inputs)
    ]
    gathered(trials).frame().to_parquet(tmp_path / "x.parquet")
    again = pandas.read_parquet(tmp_path / "x.parquet")
    assert [json.loads(text) if isinstance(text, str) else None for text in again["input"]] == inputs
    assert list(again["output"]) == [0, 1, 2, 3, 4]


def test_factors_that_are_called_as_columns_are_renamed_in_an_artifact() -> None:
    """`status`, `seed` and `run_id` hid the columns of the runs when readers joined the tables."""
    names = ["status", "seed", "run_id", "level", "metric_name", "model"]
    columns = _columns(names, ())
    assert columns == {
        **{name: f"factor_{name}" for name in names if name != "model"},
        "model": "model",
    }
    assert not set(columns.values()) & {*RUN, *EVENT, *EVALUATION, *CONDITION}
