"""Files that peira writes: replaced as a whole, or left as they were."""

from __future__ import annotations

from pathlib import Path

import pytest

from peira.core.files import whole_file, write_if_possible


def test_a_file_of_a_cache_is_replaced_and_its_folder_made(tmp_path: Path) -> None:
    file = tmp_path / "made" / "here" / "table"
    assert write_if_possible(file, b"old")
    assert write_if_possible(file, b"new")
    assert file.read_bytes() == b"new"
    assert list(file.parent.iterdir()) == [file]


def test_what_cannot_be_written_leaves_nothing_behind(tmp_path: Path) -> None:
    folder = tmp_path / "taken"
    (folder / "full").mkdir(parents=True)
    assert not write_if_possible(folder, b"data")  # a folder that is not empty is not replaced
    assert list(tmp_path.iterdir()) == [folder]
    file = tmp_path / "file"
    file.touch()
    assert not write_if_possible(file / "below", b"data")


def test_a_write_that_breaks_off_leaves_the_old_file_and_no_draft(tmp_path: Path) -> None:
    path = tmp_path / "kept"
    path.write_bytes(b"old")

    def breaks_off() -> None:
        with whole_file(path) as file:
            file.write(b"half")
            raise RuntimeError("broken off")

    with pytest.raises(RuntimeError, match="broken off"):
        breaks_off()
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]
