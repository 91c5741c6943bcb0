"""What `peira stream` and `peira serve` say, and what they refuse before anything is written."""

from __future__ import annotations

import json
import threading
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from peira import open, serve, stream
from peira.cli.app import main
from peira.cli.commands.control.stream import StreamAction
from peira.cli.commands.control.stream_help import PAGES
from peira.errors import StoreInUse, Unknown

pytestmark = pytest.mark.timeout(60)


def work(case: Any) -> Any:
    if case.input == "bad":
        raise ValueError("no such customer")
    return case.input


def test_a_stream_says_how_it_stands_and_how_jobs_ended(tmp_path: Path, capsys: Any) -> None:
    store = tmp_path / "live.db"

    def said(*words: str) -> tuple[int, str]:
        code = main(["stream", *words, "--store", str(store)])
        found = capsys.readouterr()
        return code, (found.out + found.err).partition(": ")[2].strip()

    with serve(stream(work), store=store) as host:
        for key in ("bad", "good"):
            host.submit("work", key, key=key).wait(30)
        assert said("wait", "work", "good") == (0, "succeeded: good")
        code, text = said("wait", "work", "bad")
        assert (code, "failed: " in text, "ValueError: no such customer" in text) == (1, True, True)
        assert said("cancel", "work", "good") == (1, "had ended before: succeeded")
        assert said("stats", "work")[1].startswith("served; ")
        assert said("pause", "work") == (0, "paused; what runs is finished, and nothing more begins")
        assert said("resume", "work") == (0, "resumed")
    code, text = said("submit", "work", "--input", "1", "--key", "late")
    nobody = "no host serves work now: its jobs are done once one does"
    assert (code, text.startswith(f"queued\n{nobody}")) == (0, True)
    code, text = said("wait", "work", "late", "--timeout", "50ms")
    assert (code, nobody in text) == (3, True)
    assert said("wait", "work", "late", "--timeout", "0") == (3, "queued")
    assert said("cancel", "work", "late") == (0, "cancelled")
    assert said("cancel", "work", "late") == (1, "had ended before: cancelled")
    assert said("wait", "work", "late")[0] == 1
    assert said("stats", "work")[1].startswith("not served; ")
    code, text = said("list", "work", "--state", "done")
    assert (code, text.startswith("state: must be one of queued, running, ")) == (2, True)
    assert open(store).stream("work").stats()["standing"] == "not served"


def test_a_file_of_many_jobs_is_submitted_whatever_its_size(tmp_path: Path, capsys: Any) -> None:
    store, file = tmp_path / "live.db", tmp_path / "jobs.jsonl"
    made = stream(lambda case: len(case.input), name="measure")
    serve(made, store=store).stop()
    lines = [{"input": "x" * 700_000, "key": f"k{n}"} for n in range(30)]
    file.write_text("\n".join(json.dumps(line) for line in [*lines, {"input": 1, "key": ""}]))
    assert main(["stream", "submit", "measure", "--jobs", str(file), "--store", str(store)]) == 2
    assert "jobs[30].key: must be 1 to 500" in capsys.readouterr().err
    assert open(store).stream("measure").jobs() == [], "none, if anything is wrong with one"
    file.write_text("\n".join(json.dumps(line) for line in lines))
    assert main(["stream", "submit", "measure", "--jobs", str(file), "--store", str(store)]) == 0
    assert "30 jobs submitted" in capsys.readouterr().out
    with serve(made, store=store) as host:
        assert [host.stream("measure").result(f"k{n}", 30) for n in range(30)] == [700_000] * 30


def test_a_server_that_cannot_be_opens_no_stream(
    tmp_path: Path, capsys: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "streams.py"
    file.write_text("from peira import stream\n\n\n@stream\ndef echo(case):\n    return case.input\n")
    monkeypatch.setenv("PEIRA_TOKEN", "short")
    words = ["serve", str(file), "--listen", "nowhere", "--store", str(tmp_path / "live.db")]
    assert main(words) == 2
    lines = capsys.readouterr().err.splitlines()
    assert [line.split(": ")[1] for line in lines] == ["listen", "PEIRA_TOKEN"]
    assert list(tmp_path.iterdir()) == [file]


def test_every_action_has_a_page_of_its_own(capsys: Any) -> None:
    def page(*words: str) -> str:
        assert main(["stream", *words, "--help"]) == 0
        text: str = capsys.readouterr().out
        assert max(map(len, text.splitlines())) <= 80
        return text

    whole = page()
    pages = {action.value: page(action.value) for action in StreamAction}
    assert PAGES.keys() == pages.keys()
    assert len({whole, *pages.values()}) == len(pages) + 1
    assert all(text.startswith(f"Usage: peira stream {name} ") for name, text in pages.items())
    assert ("--timeout" in pages["wait"], "--timeout" in pages["submit"]) == (True, False)
    assert page("support", "--help") == whole


def test_options_that_an_action_does_not_use_are_refused_all_at_once(tmp_path: Path, capsys: Any) -> None:
    def refused(*words: str) -> list[str]:
        assert main(["stream", *words, "--store", str(tmp_path / "none.db")]) == 2
        return [line.removeprefix("peira: ") for line in capsys.readouterr().err.splitlines()]

    assert refused("cancel", "support", "t-1", "--input", "3", "--since", "7d") == [
        "--input: is for submit",
        "--since: is for results",
    ]
    assert [line.partition(" is not")[0] for line in refused("results", "--since", "7x")] == [
        "stream results: which stream? give its name",
        "--since: '7x'",
    ]
    assert list(tmp_path.iterdir()) == []


def test_webhooks_that_get_no_requests_are_named_at_the_start(
    tmp_path: Path, capsys: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = "from peira import stream, webhook\n\n\n@stream(triggers=[webhook('HOOK_SECRET')])\n"
    (tmp_path / "streams.py").write_text(text + "def echo(case):\n    return case.input\n")
    store = tmp_path / "live.db"

    def served(secret: str) -> str:
        monkeypatch.setenv("HOOK_SECRET", secret)
        over = threading.Event()
        ending = threading.Thread(target=_drain, args=(store, over))
        ending.start()
        assert main(["serve", str(tmp_path / "streams.py"), "--store", str(store)]) == 0
        over.set()
        ending.join()
        found: str = capsys.readouterr().err
        return found

    said = served("")
    assert "echo: webhook webhook: nothing listens for its requests; add --listen HOST:PORT\n" in said
    assert "echo: webhook webhook: $HOOK_SECRET is not set, so all its requests are refused\n" in said
    assert "HOOK_SECRET" not in served("known")


def _drain(store: Path, over: threading.Event) -> None:
    """Drain the stream once it is served."""
    while not over.wait(0.02):
        with suppress(Unknown, StoreInUse):
            open(store).stream("echo").drain()


def test_every_problem_of_a_file_is_named_also_of_its_agents(tmp_path: Path, capsys: Any) -> None:
    (tmp_path / "agents.py").write_text("def good(case):\n    return case.input\n")
    lines = ["[streams.one]", 'agent = "agents.py:bad"', "paralel = 3", "[streams.two]", 'agent = "nowhere"']
    file = tmp_path / "streams.toml"
    file.write_text("\n".join([*lines, "[streams.three]", 'agent = "agents.py:good"', ""]))
    assert main(["serve", str(file), "--store", str(tmp_path / "live.db")]) == 2
    found = [line.split(": ")[1] for line in capsys.readouterr().err.splitlines()]
    assert found == ["streams.one.paralel", "streams.one.agent", "streams.two.agent"]
    assert not (tmp_path / "live.db").exists()


def test_jobs_are_named_by_their_keys_and_unknown_ones_are_refused_clearly(tmp_path: Path) -> None:
    with serve(stream(work), store=tmp_path / "live.db") as host:
        view = host.stream("work")
        host.submit("work", 7, key="t-1").wait(30)
        assert (view.wait("t-1", 0), view.result("t-1"), view.document("t-1")["output"]) == (True, 7, 7)
        view.outcome("t-1", "bought", True)
        assert view.document("t-1")["outcomes"] == {"bought": True}
        for look in (view.state, view.wait, view.result, view.document, view.cancel):
            with pytest.raises(Unknown, match="no job 't-2' in stream 'work'"):
                look("t-2")
