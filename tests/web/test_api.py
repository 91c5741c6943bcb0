"""The REST interface: its documents, pages as JSON and as files, and a client generated from it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import venv
from pathlib import Path

import pytest

from peira import open as open_store

from .conftest import Server, serving

CLIENT = "openapi-python-client==0.29.1"


def test_runs_are_listed_and_paged(server: Server) -> None:
    found = server.api("/runs")["runs"]
    assert len(found) == 2
    assert found[0]["study"] == "sums"
    assert found[0]["status"] == "completed with failures"
    first = server.api("/runs?limit=1")
    assert [one["id"] for one in first["runs"]] == [found[0]["id"]]
    second = server.api(f"/runs?limit=1&after={first['next']}")
    assert [one["id"] for one in second["runs"]] == [found[1]["id"]]
    assert second["next"] is None
    assert server.api("/runs?study=other")["runs"] == []
    assert server.api("/runs?status=failures")["runs"] == found


def test_a_run_says_how_far_it_is_and_what_failed(server: Server, run: str) -> None:
    found = server.api(f"/runs/{run[:12]}")
    assert found["run"]["id"] == run
    assert (found["progress"]["total"], found["progress"]["done"]) == (48, 48)
    assert found["progress"]["failed"] == 4
    [why] = found["failures"]
    assert (why["count"], why["type"]) == (4, "ValueError")


def test_the_table_is_that_of_the_results(server: Server, run: str, project: Path) -> None:
    found = server.api(f"/runs/{run}/table?by=shots")
    table = open_store(project / "s.db").results(run).table("shots")
    assert found["rows"] == json.loads(table.to_json())["rows"]
    assert server.api(f"/runs/{run}/table")["by"] == ["shots", "style"]
    assert len(server.api(f"/runs/{run}/table?overall=true")["rows"]) == 1


def test_trials_are_filtered(server: Server, run: str) -> None:
    def ids(query: str) -> list[int]:
        found = server.api(f"/runs/{run}/trials?limit=200&{query}")
        assert found["next"] is None
        return [one["number"] for one in found["trials"]]

    assert ids("") == list(range(48))
    failed, wrong, right = ids("state=failed"), ids("state=wrong"), ids("state=correct")
    assert sorted([*failed, *wrong, *right]) == list(range(48))
    assert len(failed) == 4
    assert ids("score=match&most=0") == wrong
    assert ids("score=match&least=1") == right
    assert ids("text=TOOL%20BROKE") == failed
    assert ids("condition=shots%3D0&state=failed") == failed
    assert ids("condition=shots%3D2&state=failed") == []
    assert len(ids("condition=shots%3D0&condition=style%3Dplain")) == 12
    assert len(ids("case=sum-3-1")) == 4
    assert ids("took=1000") == ids("cost=1") == []


def test_trials_are_paged_without_gaps(server: Server, run: str) -> None:
    seen, after = [], -1
    while after is not None:
        found = server.api(f"/runs/{run}/trials?limit=7&state=correct&after={after}")
        seen += [one["number"] for one in found["trials"]]
        after = found["next"]
    assert seen == [
        one["number"] for one in server.api(f"/runs/{run}/trials?limit=200&state=correct")["trials"]
    ]


def test_one_trial_is_as_show_has_it(server: Server, run: str, project: Path) -> None:
    trial = server.api(f"/runs/{run}/trials?limit=1&state=wrong")["trials"][0]
    found = server.api(f"/trials/{trial['id'][:12]}?run={run}")
    command = [sys.executable, "-P", "-m", "peira.cli", "show", run, trial["id"], "--json"]
    shown = json.loads(subprocess.run(command, cwd=project, capture_output=True, text=True).stdout)
    assert {name: found[name] for name in shown} == shown
    assert server.api(f"/trials/{trial['id']}")["trial"] == trial["id"]
    assert server.ask("/api/v1/trials/0123456789abcdef").status == 404


def test_events_are_paged_in_order(server: Server, run: str) -> None:
    seen, after = [], 0
    while after is not None:
        found = server.api(f"/runs/{run}/events?limit=50&after={after}")
        seen += [one["seq"] for one in found["events"]]
        after = found["next"]
    assert seen == list(range(1, len(seen) + 1))
    kinds = {
        one["kind"] for one in server.api(f"/runs/{run}/events?kinds=run.finished,run.planned")["events"]
    }
    assert kinds == {"run.finished", "run.planned"}


@pytest.mark.parametrize(
    ("path", "said"),
    [
        ("/runs?status=nonsense", "status: 'nonsense' is not known"),
        ("/runs?colour=red", "colour: no such parameter"),
        ("/runs?limit=many", "query: "),
        ("/runs/{run}/table?by=colour", "colour"),
        ("/runs/{run}/table?level=2", "level: must lie between 0 and 1"),
        ("/runs?since=yesterday", "since: 'yesterday' is not a date"),
    ],
)
def test_what_is_wrong_is_said(server: Server, run: str, path: str, said: str) -> None:
    found = server.ask(f"/api/v1{path}".replace("{run}", run))
    assert found.status in (400, 404)
    assert said in found.json["error"]


def test_pages_are_json_and_files_as_well(server: Server, run: str) -> None:
    trial = server.api(f"/runs/{run}/trials?limit=1")["trials"][0]["id"]
    paths = ["/runs", f"/runs/{run}", f"/runs/{run}/conditions", f"/runs/{run}/trials", f"/runs/{run}/events"]
    for path in [*paths, f"/runs/{run}/trials/{trial}", "/calls"]:
        page = server.ask(path, Accept="text/html")
        assert page.headers["content-type"].startswith("text/html"), path
        assert server.ask(f"{path}.json").headers["content-type"].startswith("application/json")
        file = server.ask(f"{path}.html")
        assert file.headers["content-disposition"].startswith('attachment; filename="peira-')
        assert b"<script" not in file.body
        assert b'src="/' not in file.body
        assert b"<link" not in file.body
        assert len(page.body) < 200_000


def test_an_empty_store_says_how_to_begin(tmp_path: Path) -> None:
    with serving(tmp_path, "--store", "new.db") as started:
        page = started.ask("/", Accept="text/html").text
        assert "There are no runs in this store yet" in page
        assert "peira demo --store new.db" in page
        assert started.api("/runs") == {"runs": [], "next": None}
        assert started.ask("/calls", Accept="text/html").status in (200, 404)
        assert not (tmp_path / "new.db").exists()


@pytest.fixture
def generator(request: pytest.FixtureRequest) -> Path:
    """The Python of an environment with openapi-python-client, made once: it needs another typer."""
    home = Path(request.config.cache.mkdir("openapi-client"))
    python = home / "venv" / ("Scripts" if os.name == "nt" else "bin") / "python"
    if not (home / "ready").exists():
        venv.create(home / "venv", clear=True, with_pip=True)
        words = [python, "-m", "pip", "install", "-q", "--disable-pip-version-check", CLIENT]
        done = subprocess.run(words, capture_output=True, text=True)
        if done.returncode:
            pytest.skip(f"{CLIENT} cannot be installed: {done.stderr.strip()[-200:]}")
        (home / "ready").touch()
    return python


@pytest.mark.timeout(300)
def test_a_generated_client_can_use_it(server: Server, run: str, tmp_path: Path, generator: Path) -> None:
    (tmp_path / "openapi.json").write_bytes(server.ask("/api/v1/openapi.json").body)
    words = [generator, "-m", "openapi_python_client", "generate", "--path", "openapi.json", "--meta", "none"]
    made = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True)
    assert made.returncode == 0, made.stdout + made.stderr
    assert "WARNING" not in made.stdout, made.stdout
    [package] = [path.parent for path in tmp_path.glob("*/client.py")]
    program = f"""
import sys; sys.path.insert(0, {str(tmp_path)!r})
from {package.name} import AuthenticatedClient
from {package.name}.api.default import get_run, get_table, list_runs, list_trials
client = AuthenticatedClient("http://{server.host}", token={server.token!r}, raise_on_unexpected_status=True)
run = list_runs.sync(client=client).runs[0].id
assert run == {run!r}
assert get_run.sync(run, client=client).progress.total == 48
assert len(get_table.sync(run, client=client).rows) == 4
assert len(list_trials.sync(run, client=client, state="failed").trials) == 4
"""
    done = subprocess.run([generator, "-c", program], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_where_it_serves_is_said_as_json(project: Path) -> None:
    command = [sys.executable, "-P", "-m", "peira.cli", "view", "--no-open", "--json"]
    process = subprocess.Popen(
        command, cwd=project, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    )
    assert process.stdout is not None
    lines = []
    while not lines or lines[-1] != "}\n":
        lines.append(process.stdout.readline())
    process.terminate()
    assert process.wait(20) == 0
    process.stdout.close()
    said = json.loads("".join(lines))
    assert said["url"] == f"{said['address']}/?token={said['token']}"
    assert said["store"].endswith("s.db")
