"""The codebook says what was varied and measured; the archive holds everything, the same bytes each time."""

from __future__ import annotations

import json
import tarfile
from pathlib import Path

import pytest

from peira.analysis.results import Results
from peira.errors import Invalid

from .conftest import gathered


def test_the_codebook_names_factors_outcomes_and_conditions(stored: Results, tmp_path: Path) -> None:
    text = stored.export(tmp_path / "odd.codebook.md").read_text()
    assert text.startswith("# Codebook: odd\n")
    for title in ("Factors", "Outcomes", "Hypotheses", "Scores", "Metrics", "Conditions"):
        assert f"\n## {title}\n" in text
    assert "| exact | yes or no | 0 to 1 | 30 |" in text
    refused = [line for line in text.splitlines() if "violates order == 1" in line]
    assert len(refused) == 1
    assert text.splitlines()[-1] == refused[0]


def test_the_archive_holds_everything_and_is_the_same_each_time(stored: Results, tmp_path: Path) -> None:
    one, two = (stored.export(tmp_path / name) for name in ("a.tar.gz", "b.tgz"))
    assert one.read_bytes() == two.read_bytes()
    with tarfile.open(one) as archive:
        names = archive.getnames()
        top = names[0].split("/")[0]
        about = archive.extractfile(names[0])
        assert about is not None
        assert json.load(about)["run"] == stored.run_id
        archive.extractall(tmp_path / "out", filter="data")
    parts = {name.removeprefix(f"{top}/").split("/")[0] for name in names}
    assert parts == {"archive.json", "artifact", "attachments", "codebook.md", "results.jsonl"}
    folder = stored.export(tmp_path / "folder", "artifact")
    for file in folder.iterdir():
        assert (tmp_path / "out" / top / "artifact" / file.name).read_bytes() == file.read_bytes()


def test_only_an_archive_of_ours_is_replaced(stored: Results, tmp_path: Path) -> None:
    path = stored.export(tmp_path / "a.tar.gz")
    stored.export(path)
    with tarfile.open(path, "w:gz") as archive:
        archive.add(__file__, "test.py")
    with pytest.raises(Invalid, match="is no such export"):
        stored.export(path)
    path.write_text("not an archive")
    with pytest.raises(Invalid, match="is no such export"):
        stored.export(path)


@pytest.mark.parametrize("name", ["a.tar.gz", "a.codebook.md"])
def test_both_need_a_stored_run(tmp_path: Path, name: str) -> None:
    with pytest.raises(Invalid, match="needs the results of a stored run"):
        gathered([]).export(tmp_path / name)
    assert list(tmp_path.iterdir()) == []
