"""plan, run, score: what they print, and what they answer to the shell."""

from __future__ import annotations

import json
import sqlite3


def test_plan_runs_nothing(peira, folder):
    done = peira("plan", "capitals.py")
    assert done.code == 0
    assert "16 trials: 16 new" in done.out
    assert "prints" not in done.out + done.err
    assert not (folder / ".peira").exists()


def test_run_then_run_again_does_nothing_twice(peira):
    first = peira("run", "capitals.py", "--json")
    again = peira("run", "capitals.py", "--json")
    assert (first.code, again.code) == (0, 0)
    assert first.document["counts"]["succeeded"] == 16
    assert again.document["counts"]["reused"] == 16
    assert again.document["table"] == first.document["table"]
    assert "16 reused" in peira("plan", "capitals.py").out


def test_the_document_is_all_there_is_on_standard_output(peira):
    done = peira("run", "capitals.py", "--json", "--progress")
    assert done.document["status"] == "completed"
    assert "the agent prints this" in done.err
    keys = {"run", "study", "status", "store", "counts", "notes", "estimate", "spent"}
    assert set(done.document) == {*keys, "reason", "reasons", "exit_code", "table"}


def test_what_a_command_of_the_agents_prints_goes_beside_the_document(peira, folder):
    (folder / "echo.py").write_text(
        "import subprocess\nfrom peira import study\n@study(cases=['a'])\n"
        "def echo(case):\n    return subprocess.run(['echo', 'a command prints this']).returncode\n"
    )
    done = peira("run", "echo.py", "--json")
    assert done.document["status"] == "completed"
    assert "a command prints this" in done.err


def test_child_processes_print_beside_the_document_too(ended):
    done = ended("run", "capitals.py", "--json", "--runner", "process", "--parallel", "2")
    assert done.code == 0
    assert done.document["counts"]["succeeded"] == 16
    assert "the agent prints this" in done.err


def test_no_mean_without_its_interval(peira):
    done = peira("run", "capitals.py")
    rows = [line for line in done.out.splitlines() if "match" in line]
    assert len(rows) == 4
    assert all("[" in row and "]" in row for row in rows)


def test_failed_trials_are_exit_code_1_and_tried_again(peira):
    done = peira("run", "failing.py", "--json")
    assert (done.code, done.document["exit_code"]) == (1, 1)
    assert done.document["counts"] == {"planned": 2, "failed": 1, "succeeded": 1, "scores": 1}
    kept = peira("run", "failing.py", "--no-retry-failed", "--json")
    assert kept.document["counts"]["kept"] == 1
    assert peira("run", "failing.py", "--retry-failed", "--json").document["counts"]["failed"] == 1


def test_fail_fast_stops(peira, folder):
    (folder / "all.py").write_text(
        "from peira import study\n@study(cases=[str(n) for n in range(200)])\ndef fails(case):\n    1 / 0\n"
    )
    done = peira("run", "all.py", "--fail-fast", "--parallel", "1", "--json")
    assert done.code == 1
    assert done.document["status"] == "stopped by a limit"
    assert done.document["counts"]["left"] > 100


def test_a_plan_over_its_budget_is_exit_code_3(peira, folder):
    (folder / "big.py").write_text(
        "from peira import study\n@study(cases=['a', 'b'], budget={'trials': 1})\ndef big(case): return 1\n"
    )
    done = peira("run", "big.py")
    assert done.code == 3
    assert "budget" in done.err
    assert not (folder / ".peira").exists()


def test_where_and_limit_run_a_part(peira):
    done = peira("run", "capitals.py", "--where", "model=a", "--where", "size=2", "--json")
    assert done.document["counts"]["planned"] == 4
    assert peira("run", "capitals.py", "--limit", "8", "--json").document["counts"]["planned"] == 8


def test_fresh_asks_anew_and_the_same_command_goes_on_without_it(peira):
    peira("run", "capitals.py")
    assert peira("run", "capitals.py", "--fresh", "--json").document["counts"]["succeeded"] == 16
    assert peira("run", "capitals.py", "--json").document["counts"]["reused"] == 16


def test_stages_one_by_one(peira):
    made = peira("run", "capitals.py", "--stage", "generate", "--json")
    assert "scores" not in made.document["counts"]
    judged = peira("score", "capitals.py", "--json")
    assert judged.code == 0
    assert judged.document["counts"]["reused"] == 16
    assert all(row["n"] == 4 for row in judged.document["table"]["rows"])
    assert "the agent prints this" not in judged.err


def test_a_run_is_run_again_by_its_id_when_its_file_has_gone(peira, folder):
    run = peira("run", "capitals.py", "--json").document["run"]
    (folder / "capitals.py").unlink()
    assert peira("run", run[:8], "--json").document["counts"]["reused"] == 16
    assert peira("plan", run[:8]).code == 0


def test_a_study_from_toml(peira, folder):
    (folder / "agent.py").write_text("def answer(case, style):\n    return 'Paris'\n")
    (folder / "capitals.jsonl").write_text(json.dumps({"input": "France?", "expected": "Paris"}) + "\n")
    (folder / "c.toml").write_text(
        'agent = "agent.py:answer"\ncases = "capitals.jsonl"\nevaluators = ["match"]\nrepeats = 3\n'
        "[factors]\nstyle = ['plain', 'long']\n"
    )
    assert peira("run", "c.toml", "--json").document["counts"]["succeeded"] == 6


def test_several_studies_in_a_file_are_named(peira, folder):
    text = (folder / "failing.py").read_text()
    (folder / "two.py").write_text(text + text.replace("def failing", "def second"))
    assert "two.py:second" in peira("plan", "two.py").err
    assert peira("plan", "two.py:second").code == 0


def test_quiet_says_only_the_result(peira):
    done = peira("run", "capitals.py", "--quiet")
    assert done.err == ""
    assert "16 new" in done.out


def test_another_store(peira, folder):
    peira("run", "capitals.py", "--store", "other/one.db")
    assert (folder / "other" / "one.db").exists()
    assert not (folder / ".peira").exists()
    assert sqlite3.connect(folder / "other" / "one.db").execute("SELECT count(*) FROM run").fetchone() == (1,)


def test_fields_of_the_study_can_be_set(peira):
    first = peira("run", "capitals.py", "--set", "repeats=1", "--json").document
    whole = peira("plan", "capitals.py", "--json").document
    assert first["counts"]["planned"] < whole["trials"]
    assert whole["reused"] == first["counts"]["planned"]
    wrong = peira("run", "capitals.py", "--set", "polcy.retries=2", "--set", "repeats=0")
    assert wrong.code == 2
    assert "polcy: is not a part of a study; did you mean 'policy'?" in wrong.err
    assert "repeats: " in wrong.err
    stored = peira("run", first["run"], "--set", "seed=1")
    assert (stored.code, "name the study's file instead" in stored.err) == (2, True)
