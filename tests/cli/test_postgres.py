"""Every command on a store in Postgres, as on a file: the same ids and numbers, one line per problem."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest

import peira as library
from peira.app.store.access import public_option
from peira.cli.errors import resume_command
from peira.errors import PeiraError
from peira.stores.postgres.server import PrivateServer, programs
from peira.web import studies

PASSWORD = "hunter2-and-more"


@pytest.fixture
def url(postgres_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return postgres_url


def with_password(url: str) -> str:
    """The same address with a password, which the server does not ask for."""
    return url.replace("://peira@", f"://peira:{PASSWORD}@")


def under_way(peira: Any, url: str, trials: int) -> str:
    """Wait until the run of the slow study has so many trials done; its id."""
    while True:
        found = peira("status", "--store", url, "--json")
        begun = found.code == 0 and found.document["study"] == "slow"
        if begun and found.document["progress"]["done"] >= trials:
            return str(found.document["run"])
        time.sleep(0.05)


def test_the_same_study_has_the_same_ids_and_numbers(folder, url, peira):
    assert peira("run", "capitals.py", "--store", "file.db").code == 0
    assert peira("run", "capitals.py", "--store", url).code == 0
    stores = [library.open(where) for where in ("file.db", url)]
    one, other = (store.results() for store in stores)
    facts = [
        {
            trial.id: (trial.output, trial.condition, trial.scores["match"].value, trial.metrics)
            for trial in results.trials
        }
        for results in (one, other)
    ]
    assert facts[0] == facts[1]
    assert len(facts[0]) == 16
    assert str(one.table("model", "size")) == str(other.table("model", "size"))
    shown = [peira("show", "--store", where).out.splitlines()[1:] for where in ("file.db", url)]
    assert shown[0] == shown[1]
    kinds = [[type(record.event).__name__ for record in store.events(limit=10_000)] for store in stores]
    assert sorted(kinds[0]) == sorted(kinds[1])


def test_every_command_takes_the_address(folder, url, peira, tmp_path):
    run = peira("run", "capitals.py", "--store", url, "--json").document["run"]
    assert peira("run", "capitals.py", "--store", url, "--json").document["counts"]["reused"] == 16
    for words in (
        ("plan", "capitals.py"),
        ("estimate", "capitals.py"),
        ("runs",),
        ("status", run),
        ("show", run),
        ("show", run, "--trials"),
        ("events", run),
        ("calls",),
        ("compare", run, "--by", "model"),
        ("leaderboard", run, "--by", "model"),
        ("effects", run),
        ("report", run, "-o", "report.html"),
        ("export", run, "-o", "trials.csv"),
        ("score", "capitals.py"),
        ("batch", "status"),
        ("watch", run),
        ("verify",),
        ("backup", "copy.db"),
        ("gc", "--count", "5", "--dry-run"),
        ("doctor",),
    ):
        done = peira(*words, "--store", url)
        assert done.code == 0, (words, done.err)
    assert peira("verify", "--store", "copy.db").code == 0
    assert peira("delete", run, "--store", url).code == 0
    assert peira("runs", run, "--store", url).code in (0, 2)
    assert peira("verify", "--store", url).code == 0
    assert peira("show", "--store", url).code == 0


def test_a_file_goes_to_a_database(folder, url, peira):
    assert peira("run", "capitals.py", "--store", "file.db").code == 0
    assert peira("merge", "file.db", "--store", url, "--dry-run").code == 0
    assert peira("runs", "--store", url).code == 2, "nothing is there yet"
    assert peira("merge", "file.db", "--store", url).code == 0
    assert peira("verify", "--store", url).code == 0
    stores = [library.open(where) for where in ("file.db", url)]
    assert str(stores[0].results().table()) == str(stores[1].results().table())


def test_a_run_is_cancelled_from_another_process(folder, url, spawn, ended, peira):
    process = spawn("run", "slow.py", "--store", url)
    run = under_way(peira, url, 4)
    refused = ended("run", "capitals.py", "--store", url)
    assert (refused.code, len(refused.problems)) == (4, 1)
    assert "is in use by process" in refused.err
    assert peira("verify", "--store", url).code == 0  # in one snapshot, while it is written
    done = ended("cancel", run, "--store", url)
    assert done.code == 0, done.err
    process.communicate(timeout=30)
    assert process.returncode == 1
    assert peira("status", run, "--store", url, "--json").document["status"] == "cancelled"


def test_after_a_kill_the_run_is_interrupted_and_goes_on(folder, url, spawn, peira):
    process = spawn("run", "slow.py", "--limit", "400", "--store", url)
    run = under_way(peira, url, 8)
    process.kill()
    process.communicate()
    deadline = time.monotonic() + 20
    while (now := peira("status", run, "--store", url, "--json").document)["status"] == "running":
        assert time.monotonic() < deadline
    assert now["status"] == "interrupted"
    again = peira("run", "slow.py", "--limit", "400", "--parallel", "64", "--store", url, "--json")
    assert again.document["counts"]["reused"] >= 8
    assert peira("verify", "--store", url).code == 0


@pytest.mark.parametrize(
    ("address", "code", "said"),
    [
        (f"postgresql://me:{PASSWORD}@127.0.0.1:1/db", 1, "is the server running"),
        (f"postgres://me:{PASSWORD}@127.0.0.1:1/db", 2, "did you mean 'postgresql'"),
        (
            f"postgresql://me:{PASSWORD}@127.0.0.1:port/db",
            2,
            "write it as postgresql://user@host:5432/database",
        ),
        (f"postgresql://me:{PASSWORD}@h/db?schema=pg_x", 2, "schema 'pg_x' cannot be used"),
        (f"postgresql://me:{PASSWORD}@h/db?colour=red", 2, 'invalid URI query parameter: "colour"'),
    ],
)
def test_an_address_that_does_not_work_is_said_in_one_line(peira, address, code, said):
    for words in (("runs",), ("run", "capitals.py"), ("verify",)):
        done = peira(*words, "--store", address)
        assert done.code == code
        assert len(done.problems) == 1
        assert said in done.err
        assert PASSWORD not in done.out + done.err


def test_a_database_or_a_store_that_is_not_there_is_said_in_one_line(postgres_server, url, peira):
    nowhere = peira("runs", "--store", url)
    assert (nowhere.code, len(nowhere.problems)) == (2, 1)
    assert "there is no store at postgresql://" in nowhere.err
    missing = peira("run", "capitals.py", "--store", postgres_server.replace("/postgres?", "/nosuch?"))
    assert (missing.code, len(missing.problems)) == (2, 1)
    assert 'database "nosuch" does not exist' in missing.err


def test_without_psycopg_it_says_what_to_install(folder, tmp_path):
    (tmp_path / "hidden").mkdir()
    (tmp_path / "hidden" / "sitecustomize.py").write_text(
        "import importlib.util as u\nfind = u.find_spec\n"
        "u.find_spec = lambda name, *a: None if name == 'psycopg' else find(name, *a)\n"
    )
    env = {**os.environ, "PYTHONPATH": str(tmp_path / "hidden")}
    command = [sys.executable, "-m", "peira.cli", "runs", "--store", "postgresql://h/d"]
    done = subprocess.run(command, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert done.stderr.splitlines() == [
        "peira: store postgresql://...: needs psycopg, which is not installed: pip install 'peira[postgres]'"
    ]


def test_no_command_shows_or_stores_the_password(folder, url, peira, spawn):
    secret = with_password(url)
    assert PASSWORD in secret
    said = ""
    for words in (
        ("run", "capitals.py"),
        ("run", "failing.py"),
        ("status",),
        ("show",),
        ("doctor",),
        ("runs", "--json"),
        ("verify", "--json"),
        ("backup", "copy.db"),
    ):
        done = peira(*words, "--store", secret)
        said += done.out + done.err
    process = spawn("run", "slow.py", "--store", secret)
    under_way(peira, url, 2)
    process.send_signal(signal.SIGTERM)
    said += "".join(process.communicate(timeout=30))
    assert "to go on: peira run slow.py --store" in said
    assert PASSWORD not in said
    for file in (*folder.rglob("copy.db*"), *(folder / "cache").rglob("*")):
        assert not file.is_file() or PASSWORD.encode() not in file.read_bytes()


@pytest.mark.parametrize(
    ("address", "shown"),
    [
        (f"postgresql://me:{PASSWORD}@h/db", "postgresql://me@h/db"),
        (f"postgresql://me@h/db?password={PASSWORD}", "postgresql://me@h/db"),
        (f"postgresql://me@h/db?password={PASSWORD}&schema=s", "postgresql://me@h/db?schema=s"),
        (f"postgresql://me@h/db?schema=s&password={PASSWORD}&host=x", "postgresql://me@h/db?schema=s&host=x"),
    ],
)
def test_the_command_that_goes_on_has_no_password(address, shown):
    said = resume_command(["run", "slow.py", "--store", address])
    assert shlex.split(said)[1:] == ["run", "slow.py", "--store", shown]
    assert shlex.split(resume_command([f"--store={address}"]))[1:] == [f"--store={shown}"]


def test_the_demonstration_runs_on_a_database(folder, url, peira):
    done = peira("demo", "--model", "scripted:", "--store", url)
    assert done.code == 0, done.err
    [study] = [Path(line.split()[-1]) for line in done.out.splitlines() if line.startswith("The study:")]
    assert [file.name for file in folder.iterdir() if "postgresql" in file.name] == []
    assert peira("runs", "--store", url, "--json").document["runs"][0]["trials"] == 96
    shutil.rmtree(study.parent)


def test_the_project_file_may_name_the_store(folder, url, peira):
    (folder / "peira.toml").write_text(f"store = {json.dumps(with_password(url))}\n")
    done = peira("run", "capitals.py")
    assert done.code == 0, done.err
    assert peira("runs", "--json").document["runs"][0]["study"] == "capitals"
    assert PASSWORD not in peira("doctor").out
    assert not (folder / ".peira" / "peira.db").exists()


def test_roles_are_set_up_and_problems_told_at_once(folder, url, peira):
    assert peira("run", "capitals.py", "--store", url).code == 0
    asked = ("db", "roles", "--store", url)
    wrong = peira(*asked, "--worker", "nosuch1", "--reader", "nosuch2")
    assert (wrong.code, len(wrong.problems)) == (2, 2)
    made = peira(*asked, "--json").document
    with psycopg.connect(url.partition("&schema")[0], autocommit=True) as db:
        try:
            again = peira(*asked)
            assert (again.code, len(again.out.splitlines())) == (0, 2)
            assert peira("verify", "--store", url).code == 0
        finally:
            for role in made.values():
                db.execute(f'DROP OWNED BY "{role}"; DROP ROLE "{role}"')
    for words, said in (
        (("db", "roles", "--store", "file.db"), "is about a store in Postgres"),
        (("db", "start", "--worker", "me"), "are for `peira db roles`"),
        (("db", "roles", "--store", f"{url}_nosuch"), "there is no store"),
    ):
        done = peira(*words)
        assert (done.code, len(done.problems)) == (2, 1), words
        assert said in done.err


@pytest.fixture
def short_folder() -> Iterator[Path]:
    """A folder that the server's user can reach; skipped where no server can be run."""
    try:
        programs()
    except PeiraError as problem:
        pytest.skip(str(problem))
    folder = Path(tempfile.mkdtemp(prefix="peira-tests-"))
    folder.chmod(0o755)
    yield folder
    server = PrivateServer(folder / "db")
    if server.pid:
        server.stop("immediate")
    shutil.rmtree(folder)


def test_a_private_server_is_started_used_and_stopped(short_folder, folder, peira, ended, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(folder / "cache"))
    where = str(short_folder / "db")
    before = peira("db", "url", "--store", where)
    assert (before.code, len(before.problems)) == (2, 1)
    assert "no server is running" in before.err
    started = peira("db", "start", "--store", where, "--json").document
    assert peira("db", "start", "--store", where, "--json").document == started
    url = peira("db", "url", "--store", where).out.strip()
    assert url == started["url"]
    assert peira("run", "capitals.py", "--store", url).code == 0
    assert peira("db", "stop", "--store", where).code == 0
    gone = peira("runs", "--store", url)
    assert (gone.code, len(gone.problems)) == (1, 1)
    assert peira("db", "start", "--store", where).code == 0
    assert peira("runs", "--store", url, "--json").document["runs"][0]["study"] == "capitals"
    assert peira("db", "start", "--store", url).code == 2
    with psycopg.connect(url, autocommit=True) as db:
        db.execute(f"ALTER USER peira PASSWORD '{PASSWORD}'")
    rules = short_folder / "db" / "data" / "pg_hba.conf"
    rules.write_text("local all all scram-sha-256\n")
    peira("db", "stop", "--store", where)
    peira("db", "start", "--store", where)
    wrong = peira("runs", "--store", url.replace("peira@", "peira:wr0ng-one@"))
    assert (wrong.code, len(wrong.problems)) == (2, 1)
    assert "password authentication failed" in wrong.err
    assert "PGPASSWORD" in wrong.err
    assert "wr0ng-one" not in wrong.err
    assert peira("runs", "--store", with_password(url)).code == 0
    # What goes on by itself is given the password, and not on its command line.
    for secret in (with_password(url), f"{url}&password={PASSWORD}"):
        begun = ended("run", "slow.py", "--detach", "--json", "--store", secret).document
        command = Path(f"/proc/{begun['pid']}/cmdline").read_bytes()
        assert (b"slow.py" in command, PASSWORD.encode() in command) == (True, False)
        assert peira("cancel", begun["run"], "--store", secret).code == 0
    begun = studies.start(folder, "capitals.py", str(public_option(with_password(url))), ["--fresh"])
    assert peira("watch", begun.run, "--store", with_password(url)).code == 0
    monkeypatch.setenv("PGPASSWORD", PASSWORD)
    assert peira("runs", "--store", url).code == 0
