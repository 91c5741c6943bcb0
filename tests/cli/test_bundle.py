"""`peira bundle`: what people see."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

Peira = Callable[..., Any]


def test_out_and_in_again(peira: Peira, folder: Path) -> None:
    done = peira("bundle", "export", "capitals.py", "-o", "work.bundle", "--quiet")
    assert done.code == 0
    assert done.out.startswith("work.bundle: 16 outputs to make (sha256 ")
    worked = peira("bundle", "work", "work.bundle", "--study", "capitals.py", "-o", "a.bundle", "--quiet")
    assert worked.code == 0
    assert worked.out.splitlines()[-1] == "a.bundle: 16 answers to 16 items"
    taken = peira("bundle", "import", "a.bundle", "--quiet")
    assert taken.code == 0
    assert "16 outputs recorded" in taken.out
    assert taken.problems[0].startswith("to go on: peira run ")
    again = peira("bundle", "import", "a.bundle", "--quiet", "--json").document
    assert (again["recorded"], again["same"], again["refused"]) == (0, 16, 0)
    scores = peira("bundle", "export", "capitals.py", "--stage", "evaluate", "-o", "w", "--json").document
    assert (scores["stage"], scores["items"]) == ("evaluate", 2)
    assert peira("bundle", "work", "w", "-o", "a", "--quiet", "--json").document["answered"] == 2
    judged = peira("bundle", "import", "a", "--quiet")
    assert "2 scores recorded" in judged.out
    assert "match" in judged.out
    assert peira("verify").code == 0
    assert peira("run", "capitals.py", "--quiet", "--json").document["counts"]["reused"] == 16


def test_failures_and_refusals_are_told(peira: Peira, folder: Path) -> None:
    peira("bundle", "export", "failing.py", "-o", "w", "--quiet")
    worked = peira("bundle", "work", "w", "--study", "failing.py", "-o", "a", "--quiet")
    assert (worked.code, worked.out.strip()) == (1, "a: 2 answers to 2 items, 1 failed")
    lines = (folder / "a").read_bytes().splitlines(keepends=True)
    (folder / "a").write_bytes(b"".join([lines[0], lines[1], lines[2][:-4] + b"?\n"]))
    taken = peira("bundle", "import", "a", "--quiet")
    assert taken.code == 1
    refusals = [line for line in taken.problems if "was altered" in line]
    assert refusals == ["peira: a:3: was altered: its digest is not that of what it says"]
    assert "refused" in taken.out


def test_wrong_use_is_told(peira: Peira, folder: Path) -> None:
    assert peira("bundle", "export", "capitals.py").problems == [
        "peira: --output: say which file to write, like -o work.bundle"
    ]
    assert peira("bundle", "export", "capitals.py", "-o", "w", "--stage", "x").code == 2
    assert peira("bundle", "work", "none", "-o", "a").problems == [
        "peira: cannot read none: No such file or directory"
    ]
    assert peira("bundle", "import", "capitals.py").code == 2
    assert peira("bundle", "export", "capitals.py", "-o", "no/such/folder/w").code == 2
    assert peira("bundle", "sell", "x").code == 2
    assert peira("bundle", "import", "a", "--where", "size=1", "--stage", "evaluate").problems == [
        "peira: --where: is not for `peira bundle import`",
        "peira: --stage: is not for `peira bundle import`",
    ]
