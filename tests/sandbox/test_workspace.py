from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from peira.errors import Invalid
from peira.sandbox.workspace import checked, collect, fill, parents

parts = st.sampled_from(["a", "b", "..", ".", "", "/", "\0", "tmp", "ü"])


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[int]:
    descriptor = os.open(tmp_path, os.O_RDONLY)
    yield descriptor
    os.close(descriptor)


@given(st.lists(parts, max_size=5).map("/".join) | st.text(max_size=10))
def test_a_name_stays_in_the_folder_or_is_refused(name: str) -> None:
    try:
        checked([name])
    except Invalid:
        return
    inside = os.path.normpath(os.path.join("/some/space", name))
    assert inside.startswith("/some/space/")


def test_all_wrong_names_are_told_at_once() -> None:
    with pytest.raises(Invalid) as caught:
        checked(["fine", "../up", "/etc/passwd", "", "."])
    assert len(caught.value.problems) == 4


def test_folders_come_outermost_first() -> None:
    assert parents(["b/c/d", "a", "b/e"]) == ["b", "b/c"]


@given(st.dictionaries(st.sampled_from(["a", "b/c", "b/d/e", "f/g"]), st.binary(max_size=50)))
def test_what_goes_in_comes_out(tmp_path_factory: pytest.TempPathFactory, files: dict[str, bytes]) -> None:
    root = tmp_path_factory.mktemp("space")
    fill(root, files)
    descriptor = os.open(root, os.O_RDONLY)
    try:
        assert collect(descriptor, ["a", "b/c", "b/d/e", "f/g", "b"], most=50) == files
    finally:
        os.close(descriptor)


def test_only_real_files_of_a_fair_size_are_read(tmp_path: Path, folder: int) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "real" / "file").write_bytes(b"12345")
    (tmp_path / "large").write_bytes(b"123456")
    (tmp_path / "link").symlink_to(tmp_path / "real" / "file")
    (tmp_path / "up").symlink_to(tmp_path / "real")
    os.mkfifo(tmp_path / "pipe")
    names = ["real/file", "large", "link", "up/file", "pipe", "real", "real/file/on", "none"]
    assert collect(folder, names, most=5) == {"real/file": b"12345"}
