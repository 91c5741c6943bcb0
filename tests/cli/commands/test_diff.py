"""diff, and plan --freeze."""

from __future__ import annotations

import pytest


def test_a_file_against_a_run_of_it(peira, folder):
    before = peira("run", "capitals.py", "--json").document["run"]
    source = (folder / "capitals.py").read_text()
    (folder / "capitals.py").write_text(source.replace("repeats=2", "repeats=3"))
    done = peira("diff", before[:12], "capitals.py")
    assert done.code == 0
    assert done.out.splitlines() == [
        f"capitals ({before[:12]}) -> capitals.py",
        "  repeats  repeats raised from 2 to 3",
        "trials: 16 before, 24 after",
        "  16 can be reused, 8 must be run, 0 dropped",
        "  to be run: 8, more repeats",
        "recorded in the store: 16 of 24 outputs",
    ]
    document = peira("diff", before, "capitals.py", "--json").document
    assert document["changes"] == [{"part": "repeats", "said": "repeats raised from 2 to 3"}]
    assert document["shared"]["why"] == {"more repeats": 8}
    assert (document["before"], document["after"], document["recorded"]) == (16, 24, 16)


def test_two_files_need_no_store(peira, folder):
    (folder / "louder.py").write_text(
        (folder / "capitals.py").read_text().replace('"Paris" if', '"PARIS" if')
    )
    done = peira("diff", "capitals.py", "louder.py")
    assert done.code == 0
    assert "agent code changed (capitals" in done.out
    assert "to be run: 16, agent code changed" in done.out
    assert not (folder / ".peira").exists()


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["capitals.py", "capitols.py"], "did you mean 'capitals.py'?"),
        (["capitals.py", "abcd1234"], "no run 'abcd1234'"),
        (["capitals.py"], "missing argument 'B'"),
    ],
)
def test_what_is_not_there_is_said(peira, arguments, said):
    done = peira("diff", *arguments)
    assert done.code == 2
    assert said in done.err


def test_a_plan_is_frozen_and_its_deviations_are_shown(peira, folder):
    done = peira("plan", "capitals.py", "--freeze", "--note", "before all")
    assert done.code == 0
    assert "as in the plan frozen " in done.out
    listed = peira("runs", "--status", "frozen", "--json").document["runs"]
    assert [(run["study"], run["status"], run["reason"]) for run in listed] == [
        ("capitals", "frozen", "before all")
    ]
    assert peira("runs").out.strip() == "no runs"
    assert "peira run" in peira("status", listed[0]["run"][:12]).out
    source = (folder / "capitals.py").read_text()
    (folder / "capitals.py").write_text(source.replace('("Japan?", "Tokyo")', '("Peru?", "Lima")'))
    assert peira("run", "capitals.py", "--quiet").code == 0
    for command in (["show"], ["plan", "capitals.py"]):
        out = peira(*command).out
        assert out.count("deviates from the plan frozen ") == 2
        assert "1 case added (" in out
        assert "1 case removed (" in out
    assert any("1 case added" in note for note in peira("show", "--json").document["notes"])
    refused = peira("plan", "capitals.py", "--freeze")
    assert refused.code == 2
    assert "--amend" in refused.err
    assert peira("plan", "capitals.py", "--freeze", "--amend").code == 0
    assert peira("plan", "capitals.py", "--note", "x").code == 2
