"""Shadows have a budget of their own: they take nothing from that of the jobs, and the other way round."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import tomli_w

from peira import ask, open, serve, stream
from peira.core.contracts import RunQuery
from peira.core.log.rows import Task
from peira.engine.streams.jobs import SHADOW
from peira.errors import Invalid
from peira.spec.streams.files import read_streams
from peira.stores.sqlite import SqliteStore
from peira.stores.verify import verify

pytestmark = pytest.mark.timeout(120)


def styled(case: Any, style: str) -> Any:
    return ask("fast", f"{style} {case.input}", max_tokens=10)


def judged(output: Any, case: Any) -> Any:
    return ask("fast", f"judge {output} {case.id}", max_tokens=10).text == "yes"


@pytest.fixture
def model(endpoint: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    described = {"model": f"openai:{endpoint.model}", "base_url": f"{endpoint.base}/v1"}
    (tmp_path / "peira.toml").write_text(tomli_w.dumps({"models": {"fast": described}}))
    monkeypatch.chdir(tmp_path)
    endpoint.always({"text": "yes"})
    return endpoint


def made(**fields: Any) -> Any:
    return stream(styled, factors={"style": ["a", "b", "c"]}, assign="all", parallel=2, **fields)


def states(path: Path) -> tuple[Counter[str], Counter[str]]:
    """The states of jobs, and of their shadows."""
    store = SqliteStore(path, readonly=True)
    assert list(verify(store)) == []
    found = {"job": Counter[str](), SHADOW: Counter[str]()}
    for row in store.rows():
        if isinstance(row, Task) and row.kind in found:
            found[row.kind][row.state.value] += 1
    store.close()
    return found["job"], found[SHADOW]


def test_shadows_take_nothing_from_the_budget_of_jobs(model: Any, tmp_path: Path) -> None:
    """12 jobs with two shadows each; the jobs need the whole budget."""
    path = tmp_path / "live.db"
    with serve(
        made(budget={"calls": 12}, shadows={"budget": {"calls": 5}, "parallel": 1}), store=path
    ) as host:
        jobs = [host.submit("styled", n) for n in range(12)]
        assert [job.result(60) for job in jobs] == ["yes"] * 12
        host.drain()
    assert states(path) == ({"succeeded": 12}, {"succeeded": 5, "exhausted": 19})
    assert model.bills() == 17
    store = SqliteStore(path, readonly=True)
    [run] = store.runs(RunQuery())
    assert {one.account: one.sends for one in run.spent} == {"": 12, "shadows": 5}
    store.close()


def test_a_budget_of_shadows_counts_all_openings_and_their_scores(model: Any, tmp_path: Path) -> None:
    path = tmp_path / "live.db"
    options: dict[str, Any] = {"evaluators": [judged], "budget": {"calls": 40}}
    for n in range(2):
        with serve(made(shadows={"budget": {"calls": 10}}, **options), store=path) as host:
            host.submit_many("styled", [{"input": f"{n} {i}"} for i in range(4)])
            host.drain()
        store = SqliteStore(path, readonly=True)
        spent = Counter[str]()
        for run in store.runs(RunQuery()):
            spent.update({one.account: one.sends for one in run.spent})
        store.close()
        assert spent == {"": 8 * (n + 1), "shadows": 10}, "judges of shadows are paid by shadows"
    assert open(path).stream("styled").stats()["shadows"]["budget"] == {"calls": 10}


def test_without_a_word_shadows_have_as_much_as_jobs_and_apart(model: Any, tmp_path: Path) -> None:
    path = tmp_path / "live.db"
    with serve(made(budget={"calls": 6}), store=path) as host:
        jobs = host.submit_many("styled", [{"input": n} for n in range(6)])
        assert [job.result(60) for job in jobs] == ["yes"] * 6
        host.drain()
    assert states(path) == ({"succeeded": 6}, {"succeeded": 6, "exhausted": 6})


def test_what_is_wrong_with_shadows_is_said(tmp_path: Path) -> None:
    with pytest.raises(Invalid, match='shadows: has no meaning with assign = "one"'):
        stream(lambda case, style: 1, name="s", factors={"style": ["a", "b"]}, shadows={"parallel": 2})
    with pytest.raises(Invalid, match=r"shadows\.parallel"):
        made(shadows={"parallel": 0})
    (tmp_path / "agents.py").write_text("def echo(case, style):\n    return case.input\n")
    (tmp_path / "streams.toml").write_text(
        '[streams.echo]\nagent = "agents.py:echo"\nassign = "all"\n'
        "[streams.echo.factors]\nstyle = ['a', 'b']\n[streams.echo.shadows]\nbudget = {calls = 3}\n"
    )
    [read] = read_streams(tmp_path / "streams.toml")
    assert read.shadow_budget.calls == 3
