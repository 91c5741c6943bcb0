"""Numbers and files at the edge: exit 2 with a line, in bounded time and memory."""

from __future__ import annotations

import gzip
import io
import json
import os
import subprocess
import sys
from contextlib import redirect_stderr
from hashlib import sha256
from pathlib import Path
from zipfile import ZIP_DEFLATED, ZipFile

import pytest
import zstandard

from peira.cli import main

MIB = 1 << 20
MEMORY = 1024 * MIB
"""Bytes of address space of a command."""

STUDY = """
from peira import ask, exact, study

@study(cases=[("a", "a"), ("b", "x")], factors={"style": ["p", "q"]}, evaluators=[exact()])
def s(case, style):
    return case.input
"""
ASKING = """
from peira import ask, exact, study

@study(cases=[("a", "a")], evaluators=[exact()])
def s(case):
    return ask("openai:gpt-x", case.input)
"""
AGENT = "def a(case): return case.input\n"
HUGE = "99999999999999999999"


def peira(folder: Path, *words: str, **environment: str) -> tuple[int, list[str]]:
    """The exit code of a command, and its lines on standard error."""
    said = io.StringIO()
    with pytest.MonkeyPatch.context() as patch, redirect_stderr(said):
        patch.chdir(folder)
        for name, value in environment.items():
            patch.setenv(name, value)
        code = main(list(words))
    return code, said.getvalue().splitlines()


LIMITED = f"""
import resource, sys
resource.setrlimit(resource.RLIMIT_AS, ({MEMORY}, {MEMORY}))
from peira.cli import main
sys.exit(main(sys.argv[1:]))
"""


def peira_in_little_memory(folder: Path, *words: str) -> str:
    """The line that a command ends with, in a process with little memory, and 2."""
    done = subprocess.run(
        [
            sys.executable,
            "-c",
            f"import resource, sys\nresource.setrlimit(resource.RLIMIT_AS, ({MEMORY}, {MEMORY}))\n"
            f"from peira.cli import main\nsys.exit(main({list(words)!r}))",
        ],
        cwd=folder,
        env={**os.environ, "OPENBLAS_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2, done.stderr
    return done.stderr


def refused(folder: Path, *words: str, **environment: str) -> str:
    """The one line that a command ends with, and 2."""
    before = sorted(path.name for path in folder.iterdir() if path.suffix == ".db")
    code, lines = peira(folder, *words, **environment)
    assert code == 2, lines
    assert len(lines) == 1, lines
    assert lines[0].startswith("peira: ")
    assert len(lines[0]) < 700
    assert sorted(path.name for path in folder.iterdir() if path.suffix == ".db") == before
    return lines[0]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "s.py").write_text(STUDY)
    (tmp_path / "agent.py").write_text(AGENT)
    return tmp_path


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("ran")
    (folder / "s.py").write_text(STUDY)
    assert peira(folder, "run", "s.py", "--store", "a.db", "--quiet")[0] == 0
    return folder


@pytest.mark.parametrize(
    "words",
    [
        ["runs", "--limit", HUGE],
        ["events", "--after", HUGE],
        ["run", "s.py", "--parallel", HUGE],
        ["run", "s.py", "--parallel", "100001"],
        ["run", "s.py", "--limit", HUGE],
        ["compare", "--by", "style", "--level", "0"],
        ["effects", "--level", "1e-320"],
        ["slices", "--level", "1e309"],
        ["power", "--deviation", "1", "--difference", "0.1", "--alpha", "1e-320"],
        ["design", "s.py", "--noise", "1e-320"],
        ["design", "s.py", "--alpha", "1e-320"],
    ],
    ids=" ".join,
)
def test_a_number_that_no_option_means(ran: Path, words: list[str]) -> None:
    refused(ran, *words, "--store", "a.db")


def toml(folder: Path, **fields: object) -> str:
    given = {"name": "s", "agent": "agent.py:a", "cases": "c.jsonl", "evaluators": ["exact"], **fields}
    (folder / "s.toml").write_text(
        "".join(f"{name} = {json.dumps(value)}\n" for name, value in given.items())
    )
    return "s.toml"


def test_numbers_of_a_study(folder: Path) -> None:
    (folder / "c.jsonl").write_text('{"input": "a"}\n')
    assert "repeats" in refused(folder, "plan", toml(folder, repeats=int(HUGE)), "--store", "x.db")
    (folder / "peira.toml").write_text(f"parallel = {HUGE}\n")
    assert "parallel" in refused(folder, "plan", toml(folder), "--store", "x.db")


@pytest.mark.parametrize("port", ["99999999", "x", "-1", "0"])
def test_a_base_url_with_a_bad_port(folder: Path, port: str) -> None:
    (folder / "s.py").write_text(ASKING)
    said = refused(
        folder,
        *("run", "s.py", "--store", "x.db"),
        OPENAI_API_KEY="abcdefghijklmnop",
        OPENAI_BASE_URL=f"http://localhost:{port}/v1",
    )
    assert "base URL" in said


@pytest.mark.parametrize("name", ["c.jsonl", "c.csv", "c.json", "c.yaml"])
def test_cases_from_a_named_pipe(folder: Path, name: str) -> None:
    os.mkfifo(folder / name)
    assert "a named pipe" in refused(folder, "plan", toml(folder, cases=name), "--store", "x.db")


@pytest.mark.parametrize(
    "name", ["o.jsonl", "o.eval", "o.parquet", "samples_t_2024-01-01T00.jsonl", "s.yaml"]
)
def test_anything_that_is_read_from_a_named_pipe(folder: Path, name: str) -> None:
    os.mkfifo(folder / name)
    command = "plan" if name == "s.yaml" else "import"
    assert "a named pipe" in refused(folder, command, name, "--store", "x.db")


def test_a_bundle_from_a_named_pipe(folder: Path) -> None:
    os.mkfifo(folder / "work.bundle")
    assert "a named pipe" in refused(folder, "bundle", "work", "work.bundle", "--study", "s.py", "-o", "o")


def test_a_repeat_beyond_all_others(folder: Path) -> None:
    (folder / "o.jsonl").write_text('{"input": "a", "output": "b", "repeat": 100000000}\n')
    assert "repeat" in refused(folder, "import", "o.jsonl", "--store", "x.db")


DEEP = "[" * 100_000 + "]" * 100_000
DEEPER_THAN_ALLOWED = "[" * 900 + "]" * 900


@pytest.mark.parametrize("value", [DEEP, DEEPER_THAN_ALLOWED], ids=["deep", "900"])
def test_deep_documents(folder: Path, value: str) -> None:
    (folder / "c.jsonl").write_text(f'{{"input": {value}}}\n')
    (folder / "o.jsonl").write_text(f'{{"input": "a", "output": {value}}}\n')
    (folder / "s.json").write_text(f'{{"name": "s", "agent": "agent.py:a", "cases": {value}}}')
    (folder / "s.yaml").write_text(f"name: s\nagent: agent.py:a\ncases: {value[:2000]}\n")
    header = f'{{"stage": {value}}}'.encode()
    (folder / "b").write_bytes(sha256(header).hexdigest().encode() + b" " + header + b"\n")
    refused(folder, "plan", toml(folder), "--store", "x.db")
    refused(folder, "import", "o.jsonl", "--store", "x.db")
    refused(folder, "plan", "s.json", "--store", "x.db")
    refused(folder, "plan", "s.yaml", "--store", "x.db")
    refused(folder, "bundle", "import", "b", "--store", "x.db")


def eval_log(path: Path, sample: bytes, kind: int = ZIP_DEFLATED) -> None:
    with ZipFile(path, "w", kind) as archive:
        archive.writestr("header.json", json.dumps({"eval": {"task": "t", "model": "m"}}))
        archive.writestr("samples/1_epoch_1.json", sample)


def test_a_deep_sample_of_a_log(folder: Path) -> None:
    eval_log(folder / "o.eval", f'{{"input": {DEEP}}}'.encode())
    assert "samples/1_epoch_1.json" in refused(folder, "import", "o.eval", "--store", "x.db")


def test_an_epoch_beyond_all_others(folder: Path) -> None:
    eval_log(folder / "o.eval", b'{"id": 1, "input": "a", "epoch": 100000000}')
    assert "repeat" in refused(folder, "import", "o.eval", "--store", "x.db")


def test_a_small_archive_with_a_large_member(folder: Path) -> None:
    eval_log(folder / "o.eval", b" " * (300 * MIB))
    assert (folder / "o.eval").stat().st_size < MIB
    assert "is longer than" in peira_in_little_memory(folder, "import", "o.eval", "--store", "x.db")


def test_a_large_member_compressed_by_other_means(folder: Path) -> None:
    """`zipfile` writes no zstd: the member is written as it is, and marked as such afterwards."""
    packed = zstandard.ZstdCompressor(level=3).compress(b" " * (300 * MIB))
    with ZipFile(folder / "o.eval", "w") as archive:
        archive.writestr("header.json", json.dumps({"eval": {"task": "t", "model": "m"}}))
        archive.writestr("samples/1_epoch_1.json", packed)
        archive.getinfo("samples/1_epoch_1.json").compress_type = 93
    assert "is longer than" in peira_in_little_memory(folder, "import", "o.eval", "--store", "x.db")


def test_a_small_file_with_a_large_line(folder: Path) -> None:
    (folder / "o.jsonl.gz").write_bytes(gzip.compress(b" " * (80 * MIB), 1))
    assert "is longer than" in peira_in_little_memory(folder, "import", "o.jsonl.gz", "--store", "x.db")
    assert "is longer than" in refused(folder, "plan", toml(folder, cases="o.jsonl.gz"), "--store", "x.db")


def test_aliases_that_multiply(folder: Path) -> None:
    lines = ["a: &a [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"{chr(98 + i)}: &{chr(98 + i)} [{', '.join(['*' + chr(97 + i)] * 10)}]" for i in range(9)]
    (folder / "s.yaml").write_text("\n".join(lines))
    assert "aliases" in refused(folder, "plan", "s.yaml", "--store", "x.db")


def test_a_damaged_gzip_file(folder: Path) -> None:
    whole = gzip.compress(b'{"input": "a", "output": "b"}\n' * 1000)
    for data in (whole[:-20], whole[:20] + bytes(100) + whole[120:]):
        (folder / "o.jsonl.gz").write_bytes(data)
        assert "cannot read" in refused(folder, "import", "o.jsonl.gz", "--store", "x.db")
