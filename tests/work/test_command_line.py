"""`peira work` as people and programs use it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from peira.cli.app import main
from peira.sandbox.confinement import confinement

pytestmark = [
    pytest.mark.timeout(300),
    pytest.mark.skipif(isinstance(confinement(), str), reason=f"no sandbox here: {confinement()}"),
]
PLAN = """
base = "base"
[units.api]
run = ["sh", "-c", "echo working; echo x > api/x"]
may_write = ["api"]
evidence = ["api/*"]
[units.docs]
needs = ["api"]
run = ["sh", "-c", "echo writing; test -e {flag} && cp api/x docs/x"]
may_write = ["docs"]
confine = false
[units.after]
needs = ["docs"]
run = ["true"]
[units.lone]
run = ["false"]
"""


@pytest.fixture
def peira(folder: Path, capfd: pytest.CaptureFixture[str]):
    """Run a command in this process: its exit code, its standard output, its standard error."""

    def run(*words: str) -> tuple[int, str, str]:
        code = main([*words, "--store", "w.db"])
        return (code, *capfd.readouterr())

    return run


def plan(folder: Path) -> str:
    (folder / "plan.toml").write_text(PLAN.replace("{flag}", str(folder / "flag")))
    return "plan.toml"


def test_a_plan_is_executed_looked_at_retried_and_merged(peira, folder: Path) -> None:
    code, out, err = peira("work", plan(folder), "--json")
    document = json.loads(out)
    assert code == 1
    assert {name: one["state"] for name, one in document["units"].items()} == {
        "api": "succeeded",
        "lone": "failed",
        "docs": "failed",
        "after": "blocked",
    }
    assert "api: succeeded in" in err
    assert "docs: failed: sh: exit code 1: writing" in err
    code, out, _ = peira("work", "show")
    assert code == 0
    assert "completed with failures" in out
    assert "needs docs, which failed" in out
    code, out, _ = peira("work", "logs", "docs")
    assert out == "writing\n"
    code, _, err = peira("work", "retry", "api")
    assert (code, err) == (2, "peira: units.api: has succeeded; change it to execute it again\n")
    (folder / "flag").touch()
    code, out, _ = peira("work", "retry", "docs", "--json")
    document = json.loads(out)
    assert code == 0
    assert {name: one["state"] for name, one in document["units"].items()} == {
        "api": "succeeded",
        "docs": "succeeded",
        "after": "succeeded",
    }
    assert document["units"]["api"]["reused"] is True
    code, out, _ = peira("work", "merge", "--apply", "--json")
    assert code == 0
    assert json.loads(out)["changed"] == ["api/x", "docs/x"]
    assert (folder / "base" / "docs" / "x").read_text() == "x\n"
    (folder / "base" / "docs" / "x").write_text("mine\n")
    code, _, err = peira("work", "merge", "--apply")
    assert (code, err) == (1, "peira: conflict: docs/x has changed since the run began\n")


def test_a_plan_with_problems_is_refused_with_exit_code_2(peira, folder: Path) -> None:
    (folder / "plan.toml").write_text('parallel = 0\n[units.a]\nrun = ["true"]\nneeds = ["b"]\n')
    code, out, err = peira("work", "plan.toml", "--json")
    assert (code, out) == (2, "")
    assert err.splitlines() == [
        "peira: parallel: must be between 1 and 10,000, not 0",
        "peira: units.a.needs: there is no unit 'b'; known: a",
    ]
    code, out, _ = peira("work", "show")
    assert "refused: parallel: must be between 1 and 10,000, not 0; units.a.needs" in out
    code, out, _ = peira("runs")
    assert "refused" in out


def test_wrong_use_is_said(peira, folder: Path) -> None:
    assert peira("work", "show")[0] == 2
    assert peira("work", "nowhere.toml")[0] == 2
    assert peira("work", "logs") == (2, "", "peira: work logs: which unit? give its name\n")
    peira("work", plan(folder), "--quiet")
    code, _, err = peira("work", "logs", "doc")
    assert code == 2
    assert "has no unit 'doc'" in err
    assert "did you mean 'docs'?" in err
    code, _, err = peira("work", "cancel", "docs")
    assert code == 2
    assert "is not under way" in err
    assert peira("work", "show", "--parallel", "3")[2] == "peira: --parallel: has no meaning for show\n"


def test_apply_into_and_fail_fast(peira, folder: Path) -> None:
    (folder / "plan.toml").write_text(
        'base = "base"\n[units.a]\nrun = ["sh", "-c", "echo new > README.md"]\nmay_write = ["README.md"]\n'
    )
    code, out, _ = peira("work", "plan.toml", "--apply", "--into", "out", "--quiet")
    assert code == 0
    assert "1 changed file of 1 unit" in out
    assert (folder / "base" / "README.md").read_text() == "new\n"
    assert (folder / "out" / "src" / "main.py").exists()
    (folder / "plan.toml").write_text('parallel = 1\n[units.a]\nrun = ["false"]\n[units.b]\nrun = ["true"]\n')
    code, out, _ = peira("work", "plan.toml", "--fail-fast", "--json", "--apply", "--base", "base")
    assert code == 1
    assert json.loads(out)["units"]["b"]["state"] == "cancelled"
