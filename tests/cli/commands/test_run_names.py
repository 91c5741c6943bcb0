"""Names of runs: given with --name, accepted wherever the id of a run is."""

from __future__ import annotations

import pytest

from peira import open as opened
from peira import run
from peira.errors import Invalid, Unknown


@pytest.fixture
def named(peira):
    """The id of a run of capitals.py that is called first-try."""
    peira("run", "failing.py")
    return peira("run", "capitals.py", "--name", "first-try", "--tag", "paper", "--json").document["run"]


@pytest.mark.parametrize(
    "command",
    [
        ["show", "first-try"],
        ["status", "first-try"],
        ["events", "first-try"],
        ["compare", "first-try", "--by", "model"],
        ["leaderboard", "--by", "model", "first-try"],
        ["effects", "first-try"],
        ["plan", "first-try"],
        ["design", "first-try"],
        ["diff", "first-try", "capitals.py"],
        ["score", "first-try"],
        ["run", "first-try"],
        ["calls", "first-try"],
        ["export", "first-try", "-o", "out.csv"],
        ["report", "first-try", "-o", "out.html"],
        ["gate", "first-try", "--min", "match=0.1"],
        ["data", "show", "first-try"],
        ["bundle", "export", "first-try", "-o", "out.bundle"],
    ],
    ids=lambda command: command[0],
)
def test_a_name_stands_for_the_id(peira, named, command, folder):
    peira("run", "capitals.py", "--fresh")  # newer, so that "the newest" would be another
    by_name = peira(*command)
    for file in folder.glob("out.*"):
        file.unlink()
    by_id = peira(*(named if word == "first-try" else word for word in command))
    assert by_name.code == by_id.code, by_name.err
    assert by_name.code in (0, 1)
    if command[0] in ("status", "events", "show", "calls"):
        assert by_name.out == by_id.out


def test_it_is_listed_and_shown(peira, named):
    [first, other] = peira("runs", "--json").document["runs"]
    assert (first["run"], first["name"], first["tags"]) == (named, "first-try", ["small", "paper"])
    assert other["name"] is None
    assert "first-try" in peira("runs").out
    assert [run["name"] for run in peira("runs", "--tag", "paper", "--json").document["runs"]] == [
        "first-try"
    ]
    assert peira("status", "first-try").out.startswith(f"run     {named[:12]} (first-try)")


def test_a_name_is_given_once(peira, named):
    before = len(peira("runs", "--json").document["runs"])
    again = peira("run", "capitals.py", "--name", "first-try")
    assert again.code == 2
    assert again.problems == [
        f"peira: name: 'first-try' is the name of run {named[:12]} of capitals; choose another"
    ]
    assert len(peira("runs", "--json").document["runs"]) == before


@pytest.mark.parametrize("name", ["beef", "3f2a91", "a b", "../x", "-x", "x" * 101, "mine@strict", "é"])
def test_what_cannot_be_a_name_is_refused_and_nothing_is_written(peira, folder, name):
    refused = peira("run", "capitals.py", f"--name={name}")
    assert refused.code == 2
    assert refused.problems[0].startswith("peira: name: ")
    assert not list(folder.glob(".peira/*.db"))


def test_an_unknown_name_is_told_with_the_nearest(peira, named):
    missing = peira("show", "first-tri")
    assert missing.code == 2
    assert missing.problems == ["peira: 'first-tri' is no run; did you mean 'first-try'?"]


def test_a_file_comes_before_a_name(peira, named, folder):
    """A study file that is called like a run is meant when it is there."""
    (folder / "first-try").write_text("")
    assert peira("plan", "first-try").code == 2


def test_an_evaluation_of_a_named_run(peira, named):
    peira("score", "first-try", "--evaluator", "includes", "--as", "lenient")
    assert "includes" in peira("show", "first-try@lenient").out


def test_from_python(folder):
    results = run("capitals.py", store="s.db", name="mine", tags=["a", "b"], progress=False)
    store = opened("s.db")
    assert store.results("mine").run_id == results.run_id
    assert store.run("mine").tags == ("small", "a", "b")
    with pytest.raises(Invalid, match="is the name of run"):
        run("capitals.py", store="s.db", name="mine", progress=False)
    with pytest.raises(Unknown, match="did you mean 'mine'"):
        store.results("mien")
    with pytest.raises(Invalid, match="tags"):
        run("capitals.py", store="s.db", tags="paper", progress=False)
