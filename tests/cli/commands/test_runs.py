"""runs, status, show, events: what is stored, for people and for programs."""

from __future__ import annotations

import time
from importlib.metadata import metadata

import pytest

from peira.cli.commands.store import EXTRAS, PROGRAMS
from peira.cli.output import grid


@pytest.fixture
def ran(peira):
    """The id of a run of capitals.py, after one of failing.py."""
    peira("run", "failing.py")
    return peira("run", "capitals.py", "--json").document["run"]


def test_runs_are_listed_newest_first(peira, ran):
    listed = peira("runs", "--json").document["runs"]
    assert [run["study"] for run in listed] == ["capitals", "failing"]
    assert listed[0]["run"] == ran
    assert ran[:12] in peira("runs").out


@pytest.mark.parametrize(
    ("filters", "studies"),
    [
        (["--study", "failing"], ["failing"]),
        (["--status", "failures"], ["failing"]),
        (["--status", "completed with failures"], ["failing"]),
        (["--status", "interrupted"], []),
        (["--tag", "small"], ["capitals"]),
        (["--since", "1h"], ["capitals", "failing"]),
        (["--since", "2100-01-01"], []),
        (["--limit", "1"], ["capitals"]),
    ],
)
def test_runs_are_filtered(peira, ran, filters, studies):
    assert [run["study"] for run in peira("runs", "--json", *filters).document["runs"]] == studies


@pytest.mark.parametrize("filters", [["--status", "complete"], ["--since", "lately"], ["--limit", "0"]])
def test_a_filter_that_means_nothing_is_refused(peira, ran, filters):
    assert peira("runs", *filters).code == 2


def test_status_of_the_newest_and_of_one_by_its_id(peira, ran):
    newest = peira("status", "--json").document
    assert newest == {**peira("status", ran[:6], "--json").document}
    assert newest["counts"]["succeeded"] == 16
    assert newest["progress"]["done"] == 16
    assert newest["progress"]["left"] is None
    assert "status  completed" in peira("status").out


def test_show_by_a_factor(peira, ran):
    table = peira("show", "--by", "model", "--by", "size", "--json").document["table"]
    assert table["by"] == ["model", "size"]
    assert all(row["low"] <= row["mean"] <= row["high"] for row in table["rows"])
    assert len(peira("show", "--by", "model", "--json").document["table"]["rows"]) == 2
    wrong = peira("show", "--by", "modle")
    assert wrong.code == 2
    assert "did you mean 'model'?" in wrong.err


def test_show_trials(peira, ran):
    trials = peira("show", ran, "--trials", "--json").document["trials"]
    assert len(trials) == 16
    assert {trial["output"] for trial in trials} == {"Paris"}
    listed = peira("show", ran, "--trials").out
    assert all(trial["trial"][:12] in listed for trial in trials)


def test_show_failures(peira, ran):
    run = peira("runs", "--study", "failing", "--json").document["runs"][0]["run"]
    (failure,) = peira("show", run, "--failures", "--json").document["failures"]
    assert failure["failure"]["message"] == "no luck with this one"
    assert "no luck with this one" in peira("show", run, "--failures").out
    assert "no failures" in peira("show", ran, "--failures").out


def test_show_one_trial_with_all_it_left(peira, ran):
    first = peira("show", ran, "--trials", "--json").document["trials"][0]["trial"]
    shown = peira("show", ran, first[:8]).out
    for fact in (
        "France?",
        "Paris",
        "tokens=3",
        "look",
        "asked",
        '{"question":"France?"}',
        "note.txt",
        "5 bytes",
    ):
        assert fact in shown
    document = peira("show", ran, first[:8], "--json").document
    assert document["trial"] == first
    assert {"step.recorded", "trial.observed", "trial.attached"} <= {e["kind"] for e in document["events"]}


def test_a_reused_trial_is_shown_with_what_it_left_in_the_run_that_made_it(peira, ran):
    again = peira("run", "capitals.py", "--json").document["run"]
    first = peira("show", again, "--trials", "--json").document["trials"][0]["trial"]
    document = peira("show", again, first[:8], "--json").document
    assert document["executed_by"] == ran
    assert any(event["kind"] == "trial.observed" for event in document["events"])


@pytest.mark.parametrize("words", [["zz"], ["0000"], ["", "0000"], ["", "x"]])
def test_what_is_not_there_is_told(peira, ran, words):
    assert peira("show", *words).code == 2


def test_one_trial_is_shown_whole(peira, ran):
    assert peira("show", ran, "abcd", "--trials").code == 2


def test_events_page_by_page(peira, ran):
    everything = peira("events", ran, "--json").document["events"]
    assert [event["seq"] for event in everything] == list(range(1, len(everything) + 1))
    assert everything[0]["kind"] == "run.planned"
    assert everything[-1]["kind"] == "run.finished"
    pages = [
        peira("events", "--after", str(at), "--limit", "7", "--json") for at in range(0, len(everything), 7)
    ]
    assert [event for page in pages for event in page.document["events"]] == everything
    assert "there are more: --after 7" in pages[0].err
    assert "more" not in pages[-1].err
    assert len(peira("events").out.splitlines()) == len(everything)


def test_events_follow_a_run_that_is_over_to_its_end(peira, ran):
    assert peira("events", "--follow", "--json").document["events"][-1]["kind"] == "run.finished"


def test_watching_a_run_that_is_over_ends_at_once(peira, ran):
    since = time.monotonic()
    assert peira("watch").code == 0
    assert peira("watch", peira("runs", "--study", "failing", "--json").document["runs"][0]["run"]).code == 1
    assert time.monotonic() - since < 30


def test_verify_and_doctor_find_nothing_wrong(peira, ran):
    assert "sound" in peira("verify").out
    assert peira("verify", "--json").document["problems"] == []
    doctor = peira("doctor", "--json")
    assert doctor.code == 0
    assert {check["name"] for check in doctor.document["checks"]} >= {
        "aiohttp",
        "python",
        "sqlite",
        "disk",
        "write",
        "lock",
    }
    assert all(line.startswith(("ok ", "missing ")) for line in peira("doctor").out.splitlines())


def test_doctor_tells_a_broken_project_file(peira, folder):
    (folder / "peira.toml").write_text("paralel = 3\n")
    done = peira("doctor")
    assert done.code == 1
    assert "problem  project" in done.out
    assert "did you mean 'parallel'" in done.out


def test_verify_finds_a_damaged_store(peira, ran, folder):
    import apsw

    with apsw.Connection(str(folder / ".peira" / "peira.db")) as db:
        db.execute("UPDATE task SET attempts = 7 WHERE n = 3")
    done = peira("verify", "--json")
    assert done.code == 1
    assert done.document["problems"]


def test_a_table_too_wide_is_folded_into_the_terminal():
    text = grid(["name", "words"], [["long", "some words " * 5], ["wide", "無" * 50]], width=40)
    assert max(map(len, text.splitlines())) <= 40
    assert text.replace(" ", "").replace("\n", "").count("無") == 50


def test_doctor_tells_of_every_extra(peira):
    """And what each is for, with the extra that helps; the browser is for PDF."""
    declared = {
        name for name in metadata("peira").get_all("Provides-Extra") or () if name not in ("all", "dev")
    }
    assert declared <= set(EXTRAS) | {"all", "dev"}
    done = peira("doctor", "--json")
    details = {check["name"]: check["detail"] for check in done.document["checks"]}
    assert declared <= set(details)
    for name in declared:
        assert "needed only for" not in details[name] or f"pip install 'peira[{name}]'" in details[name]
    assert PROGRAMS["chromium"][1] == "needed only for reports as PDF"
