"""A disk that is full when something is written for people: one line, nothing partial, nothing replaced."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from peira.cli import main

STUDY = """
from peira import exact, study

@study(cases=[(f"q{i}", f"q{i}") for i in range(300)], factors={"style": ["a", "b"]}, evaluators=[exact()])
def full(case, style):
    return case.input
"""
KEPT = b"what was there before"
WRITING = {
    "report": ("report.html", ["report", "-o"]),
    "markdown report": ("report.md", ["report", "-o"]),
    "csv": ("rows.csv", ["export", "--force", "-o"]),
    "jsonl": ("rows.jsonl", ["export", "--force", "-o"]),
    "sqlite": ("rows.sqlite", ["export", "--force", "-o"]),
    "junit": ("gate.xml", ["gate", "--min", "exact=0.5", "--junit"]),
    "bundle": ("work.bundle", ["bundle", "export", "full.py", "-o"]),
}


@pytest.fixture
def ran(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "full.py").write_text(STUDY)
    assert main(["run", "full.py", "--store", "store.db"]) == 0
    return tmp_path


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A disk of four pages, which a file of an earlier time fills but for a little."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mount = shutil.which("mount")
    made = mount and subprocess.run(
        [mount, "-t", "tmpfs", "-o", "size=16k", "tmpfs", folder], stderr=subprocess.DEVNULL
    )
    if not made or made.returncode:
        pytest.skip("no disk of one's own can be mounted here")
    yield folder
    subprocess.run(["umount", folder], check=True)


def words(name: str, target: Path) -> list[str]:
    store = "unrun.db" if name == "bundle" else "store.db"  # a bundle holds what is still to be done
    return [*WRITING[name][1], str(target), "--store", store]


@pytest.mark.parametrize("name", [name for name in WRITING if name != "junit"])
def test_a_full_disk_is_one_line_and_changes_nothing(
    ran: Path, small_disk: Path, name: str, capfd: pytest.CaptureFixture[str]
) -> None:
    target = small_disk / WRITING[name][0]
    target.write_bytes(KEPT)
    (small_disk / "filler").write_bytes(os.urandom(8 * 1024))
    before = sorted(os.listdir(small_disk))
    capfd.readouterr()
    assert main(words(name, target)) == 2
    problems = [line for line in capfd.readouterr().err.splitlines() if line.startswith("peira: ")]
    assert len(problems) == 1
    assert "No space left on device" in problems[0]
    assert target.read_bytes() == KEPT
    assert sorted(os.listdir(small_disk)) == before


@pytest.mark.parametrize("name", WRITING)
@pytest.mark.parametrize("kind", ["device", "pipe", "link"])
def test_only_files_are_replaced(ran: Path, name: str, kind: str, capfd: pytest.CaptureFixture[str]) -> None:
    target = ran / WRITING[name][0]
    make: dict[str, Callable[[], object]] = {
        "device": lambda: os.mknod(target, 0o600 | 0o020000, os.makedev(1, 7)),
        "pipe": lambda: os.mkfifo(target),
        "link": lambda: target.symlink_to(ran / "elsewhere"),
    }
    try:
        make[kind]()
    except PermissionError:
        pytest.skip("devices can be made by root only")
    before = os.lstat(target)
    capfd.readouterr()
    assert main(words(name, target)) == 2
    problems = [line for line in capfd.readouterr().err.splitlines() if line.startswith("peira: ")]
    assert len(problems) == 1
    assert "and is not replaced" in problems[0]
    assert os.path.samestat(os.lstat(target), before)
    assert not (ran / "elsewhere").exists()


def test_init_writes_all_its_files_or_none(small_disk: Path, capfd: pytest.CaptureFixture[str]) -> None:
    (small_disk / "filler").write_bytes(os.urandom(4 * 1024))
    assert main(["init", str(small_disk)]) == 2
    assert "No space left on device" in capfd.readouterr().err
    assert os.listdir(small_disk) == ["filler"]
