"""Units of a plan: what they see, what they may change, what counts as success, and what is done again."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

import peira
from peira import fanout, unit
from peira.app.session import Session
from peira.app.work.merge import apply_changes, commit_changes, write_folder
from peira.app.work.run import WorkOptions, execute_plan
from peira.app.work.view import find_work
from peira.core.log.events import RunNoted, TaskFinished
from peira.errors import Invalid, MergeConflict
from peira.sandbox.confinement import confinement
from peira.sandbox.git import GitRepository

from .conftest import states

pytestmark = [
    pytest.mark.timeout(300),
    pytest.mark.skipif(isinstance(confinement(), str), reason=f"no sandbox here: {confinement()}"),
]


def test_dependents_get_files_values_and_handed_over_files_of_their_needs(work) -> None:
    outcome = work(
        {
            "api": {
                "run": "mkdir src/api; echo x=$X > src/api/a.py; "
                "echo note > $PEIRA_HANDOVER/note.md; rm src/main.py",
                "may_write": ["src"],
                "evidence": ["src/api/**/*.py"],
                "check": ["sh", "-c", "test -f src/api/a.py -a ! -e src/main.py && touch /work/anything"],
                "env": {"X": "1"},
            },
            "docs": {
                "needs": ["api"],
                "run": "cat src/api/a.py; cat $PEIRA_NEEDS/api/note.md; cat $PEIRA_NEEDS/needs.json; "
                "test ! -e src/main.py && cp src/api/a.py docs/seen && pwd > docs/where",
                "may_write": ["docs"],
                "evidence": ["docs/seen", "docs"],
            },
            "last": {"needs": ["docs"], "run": "grep -q x=1 docs/seen && grep -q x=1 src/api/a.py"},
        }
    )
    assert states(outcome) == dict.fromkeys(("api", "docs", "last"), "succeeded")
    assert outcome["api"].changed == ["src/api/a.py", "src/main.py"]
    assert outcome["api"].result.changes["src/main.py"] is None
    assert outcome["docs"].changed == ["docs/seen", "docs/where"]


def test_resume_is_reuse_and_a_changed_need_runs_its_dependents_again(work, folder: Path) -> None:
    plan = {
        "a": {"run": "echo 1 > src/a", "may_write": ["src"]},
        "b": {"needs": ["a"], "run": "cat src/a > b/b", "may_write": ["b"]},
        "c": {"needs": ["b"], "run": "cat b/b > c/c", "may_write": ["c"]},
        "d": {"run": "echo d", "may_write": ["d"]},
    }
    first = work(plan)
    assert not any(one.reused for one in first.units.values())
    again = work(plan)
    assert again.run_id != first.run_id
    assert all(one.reused for one in again.units.values())
    assert again["b"].changed == ["b/b"]
    plan["a"]["run"] = "echo 2 > src/a"
    third = work(plan)
    assert {name for name, one in third.units.items() if one.reused} == {"d"}
    plan["a"]["run"] = "echo 3 > /dev/null; echo 2 > src/a"  # another command that makes the same
    fourth = work(plan)
    assert {name for name, one in fourth.units.items() if one.reused} == {"b", "c", "d"}
    (folder / "base" / "README.md").write_text("another base\n")
    assert not any(one.reused for one in work(plan).units.values())


def test_a_failed_unit_is_tried_again_and_what_it_blocked_is_done(work, folder: Path) -> None:
    flag = folder / "flag"
    plan = {
        "a": {"run": ["test", "-e", str(flag)], "confine": False},
        "b": {"needs": ["a"], "run": "true"},
        "c": {"needs": ["b"], "run": "true"},
        "lone": "true",
    }
    outcome = work(plan)
    assert states(outcome) == {"a": "failed", "b": "blocked", "c": "blocked", "lone": "succeeded"}
    assert outcome["b"].why == "needs a, which failed"
    assert outcome["c"].why == "needs b, which is blocked"
    assert outcome.exit_code == 1
    flag.touch()
    assert set(states(work(plan)).values()) == {"succeeded"}


def test_nothing_outside_of_may_write_can_be_changed(work) -> None:
    outcome = work(
        {
            "inside": {"run": "echo x >> src/main.py", "may_write": ["src"]},
            "outside": {"run": "echo x >> README.md", "may_write": ["docs"]},
            "nothing": {"run": "touch new"},
            "file": {"run": "echo more >> README.md", "may_write": ["README.md"], "evidence": ["README.md"]},
        }
    )
    assert states(outcome) == {
        "inside": "succeeded",
        "outside": "failed",
        "nothing": "failed",
        "file": "succeeded",
    }
    assert "cannot create README.md" in outcome["outside"].why
    assert "Read-only file system" in outcome["nothing"].why
    assert outcome["file"].changed == ["README.md"]


def test_unconfined_what_is_changed_elsewhere_fails_the_unit_and_reaches_nobody(work, folder: Path) -> None:
    free = {"may_write": ["docs"], "confine": False}
    outcome = work({"bad": {"run": "echo x >> README.md; rm src/main.py", **free}})
    assert outcome["bad"].why == "it wrote outside of may_write: README.md, src/main.py"
    outcome = work({"good": {"run": "echo x > docs/x; cat README.md", **free}})
    assert outcome["good"].changed == ["docs/x"]
    assert (folder / "base" / "README.md").read_text() == "a base\n"


def test_evidence_must_be_made_in_this_attempt_and_the_check_must_pass(work) -> None:
    outcome = work(
        {
            "stale": {"run": "cat src/main.py", "may_write": ["src"], "evidence": ["src/*.py"]},
            "linked": {"run": "ln -s /etc/passwd l/x.py", "may_write": ["l"], "evidence": ["l/*.py"]},
            "checked": {"run": "echo x > c/x", "may_write": ["c"], "check": ["sh", "-c", "exit 3"]},
            "same": {"run": "cp README.md d/README.md", "may_write": ["d"], "evidence": ["d"]},
        }
    )
    assert states(outcome) == {
        "stale": "failed",
        "linked": "failed",
        "checked": "failed",
        "same": "succeeded",
    }
    assert outcome["stale"].why == "evidence: it made or changed nothing that matches src/*.py"
    assert outcome["checked"].why.startswith("check: sh: exit code 3")


def test_limits_end_a_unit_and_say_so(work) -> None:
    outcome = work(
        {
            "slow": {"run": ["sleep", "60"], "time": "300ms"},
            "big": {
                "run": ["dd", "if=/dev/zero", "of=d/x", "bs=1M", "count=64"],
                "may_write": ["d"],
                "disk": 8,
            },
            "greedy": {
                "run": ["python3", "-c", "x = b'x' * (400 << 20); import time; time.sleep(60)"],
                "memory": 64,
            },
        },
        parallel=3,
    )
    assert set(states(outcome).values()) == {"failed"}
    assert outcome["slow"].why == "sleep: not over after 0.3 s"


def test_priorities_decide_who_is_first(work) -> None:
    stamp = "date +%s%N > d{unit}/t"
    names = ["u0", "u1", "u2", "u3"]
    units = {name: {"run": stamp, "may_write": [f"d{name}"], "priority": n} for n, name in enumerate(names)}
    outcome = work({"first": "true", **{n: {**u, "needs": ["first"]} for n, u in units.items()}}, parallel=1)
    with Session.find("w.db").reading() as store:
        ends = [r.event for r in store.events(outcome.run_id) if isinstance(r.event, TaskFinished)]
    order = [next(n for n, one in outcome.units.items() if one.task == end.task) for end in ends]
    assert order == ["first", "u3", "u2", "u1", "u0"]


def test_fail_fast_begins_nothing_more_and_says_what_was_left(work) -> None:
    plan = {"a": "exit 1", **{f"b{n}": {"run": "true", "priority": -1} for n in range(5)}}
    outcome = work(plan, parallel=1, fail_fast=True)
    assert outcome["a"].state == "failed"
    left = [one for one in outcome.units.values() if one.state == "cancelled"]
    assert left
    assert all(one.why.startswith("not begun: ") for one in left)
    assert outcome.exit_code == 1


def test_a_refused_plan_is_a_run_with_its_problems(folder: Path) -> None:
    with pytest.raises(Invalid):
        fanout({"base": "base", "parallel": 0, "units": {"a": {"run": ["nonesuch"]}}}, store="w.db")
    with Session.find("w.db").reading() as store:
        view = find_work(Session.find("w.db"), store)
        notes = [r.event.text for r in store.events(view.run.id) if isinstance(r.event, RunNoted)]
    assert view.run.status.value == "refused"
    assert notes == ["parallel: must be between 1 and 10,000, not 0"]
    with pytest.raises(Invalid, match="there is no program 'nonesuch' here"):
        fanout({"base": "base", "units": {"a": {"run": ["nonesuch"]}}}, store="w.db")
    with pytest.raises(Invalid, match="there is no folder"):
        fanout({"base": "nowhere", "units": {"a": {"run": ["true"]}}}, store="w.db")


def test_functions_get_the_values_of_their_needs(folder: Path) -> None:
    def one() -> int:
        return 1

    def two(one: int, unit: str) -> list[object]:
        return [one + 1, unit]

    def three(needs: dict[str, object]) -> dict[str, object]:
        return needs

    units = [unit("one", one), unit("two", two, ["one"]), unit("three", three, ["one", "two"])]
    outcome = fanout(units, store="w.db", progress=False)
    assert outcome["three"].value == {"one": 1, "two": [2, "two"]}
    assert all(u.reused for u in fanout(units, store="w.db", progress=False).units.values())
    assert peira.fanout is fanout


def test_merge_to_a_ref_a_folder_and_the_files_themselves(work, folder: Path) -> None:
    base = folder / "base"
    git = GitRepository(base)
    git._run(["init", "-q"])
    git._run(["add", "."])
    git._run(["commit", "-qm", "one"])
    (base / ".gitignore").write_text("ignored\n")
    (base / "ignored").write_text("x")
    outcome = work(
        {
            "a": {
                "run": "echo a > src/a; chmod +x src/a; ln -s a src/l; rm src/main.py",
                "may_write": ["src"],
            },
            "b": {"needs": ["a"], "run": "echo b >> src/a; test ! -e ignored", "may_write": ["src"]},
            "c": {"run": "echo c > c/c; exit 1", "may_write": ["c"]},
        }
    )
    session = Session.find("w.db")
    with session.reading() as store:
        view = find_work(session, store)
        merged = commit_changes(view, store.get)
        assert merged is not None
        assert merged.units == ("a", "b")
        shown = git._run(["diff", "--raw", "--no-abbrev", "HEAD", merged.where]).stdout.decode()
        assert {line.split("\t")[1]: line[:14] for line in shown.splitlines()} == {
            "src/a": ":000000 100755",
            "src/l": ":000000 120000",
            "src/main.py": ":100644 000000",
        }
        assert git._run(["show", f"{merged.where}:src/a"]).stdout == b"a\nb\n"
        assert git._run(["status", "--porcelain"]).stdout == b"?? .gitignore\n"
        written = write_folder(view, folder / "out", store.get)
        assert written.changed == ("src/a", "src/l", "src/main.py")
        assert (folder / "out" / "src" / "a").read_text() == "a\nb\n"
        assert os.readlink(folder / "out" / "src" / "l") == "a"
        assert (folder / "out" / "README.md").exists()
        assert not (folder / "out" / "src" / "main.py").exists()
        (base / "src" / "a").write_text("mine\n")
        with pytest.raises(MergeConflict) as conflicts:
            apply_changes(view, store.get)
        assert conflicts.value.problems == ("conflict: src/a has changed since the run began",)
        assert (base / "src" / "main.py").exists()
        (base / "src" / "a").unlink()
        apply_changes(view, store.get)
        apply_changes(view, store.get)  # what is so already is no conflict
    assert (base / "src" / "a").read_text() == "a\nb\n"
    assert os.access(base / "src" / "a", os.X_OK)
    assert not (base / "src" / "main.py").exists()
    assert outcome["c"].state == "failed"


def test_a_commit_is_a_base(work, folder: Path) -> None:
    base = folder / "base"
    git = GitRepository(base)
    git._run(["init", "-q"])
    git._run(["add", "."])
    git._run(["commit", "-qm", "one"])
    (base / "README.md").write_text("not committed\n")
    plan = {
        "base": "git:HEAD",
        "folder": str(base),
        "units": {"a": {"run": ["sh", "-c", "cat README.md > out/r; ls -a"], "may_write": ["out"]}},
    }
    outcome = fanout(plan, store="w.db", progress=False)
    with Session.find("w.db").reading() as store:
        assert store.get(outcome["a"].artifacts["changes/out/r"]) == b"a base\n"
        assert b".git" not in store.get(outcome["a"].artifacts["log.txt"])
    with pytest.raises(Invalid, match="no commit 'nonesuch'"):
        fanout({**plan, "base": "git:nonesuch"}, store="w.db")


def test_a_plan_file_and_the_store_are_no_part_of_the_base(folder: Path) -> None:
    plan = folder / "base" / "plan.toml"
    plan.write_text('[units.a]\nrun = ["ls", "-A"]\n[units.b]\nrun = ["true"]\n')
    session = Session.find(folder / "base" / "w.db")
    outcome = execute_plan(plan, session, WorkOptions(progress=False))
    with session.reading() as store:
        assert store.get(outcome["a"].artifacts["log.txt"]) == b"README.md\nsrc\n"
    plan.write_text('[units.a]\nrun = ["ls", "-A"]\n[units.b]\nrun = ["false"]\n')
    again = execute_plan(plan, session, WorkOptions(progress=False))
    assert again["a"].reused
    assert again["b"].state == "failed"


def test_the_results_are_a_document(work) -> None:
    document = json.loads(json.dumps(work({"a": "true", "b": "false"}).document()))
    assert document["units"]["a"]["state"] == "succeeded"
    assert document["units"]["a"]["why"] is None
    assert document["units"]["b"] | {"seconds": 0} == {
        "state": "failed",
        "why": "sh: exit code 1",
        "seconds": 0,
        "cost": None,
        "reused": False,
        "needs": [],
        "changed": [],
    }
