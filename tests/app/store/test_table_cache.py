"""A remembered table is the table that reading all trials would give, whatever happened in the store."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from peira import Case, Study, ask, evaluate, exact, run
from peira.analysis.results import Results
from peira.analysis.table.value import TableQuery, TableWithDrift
from peira.app.store.table_cache import FEWEST, RunTableCache, SmallTableCache, table_cache_of
from peira.app.store.table_files import MOST_FILES
from peira.app.store.view import Opened
from peira.errors import Unknown
from peira.stores.memory import MemoryStore

BROKEN = "PEIRA_TEST_BROKEN"
"""While this is set the agent and its judge fail: a retry changes results that keep their identity."""


def answer(case: Any, style: str) -> str:
    if BROKEN in os.environ and case.input == "b":
        raise ValueError("no")
    return ask("scripted:", case.input).text if style == "asked" else case.input


def picky(output: str) -> float:
    if BROKEN in os.environ:
        raise ValueError("not today")
    return len(output) / 10


def wordy(output: str) -> str:
    return "word" if output.isalpha() else "words"


def made(**fields: Any) -> Study:
    said = {
        "name": "first",
        "cases": [Case("a", expected="a"), Case("b", expected="b", cluster="k"), Case("c", expected="a")],
        "factors": {"style": ["plain", "asked"]},
        "evaluators": [exact(), picky],
        "agent": answer,
        "repeats": 2,
        **fields,
    }
    return Study(**said)


def discard(store: Path) -> None:
    opened = Opened(store)
    found = opened.calls(state="answered", limit=1)
    if found:
        opened.resolve("discard", found[0].key)


ACTS: dict[str, Callable[[Path], object]] = {
    "all": lambda store: run(made(), store=store, progress=False),
    "part": lambda store: run(made(), store=store, limit=4, progress=False),
    "another study": lambda store: run(made(name="second", repeats=1), store=store, progress=False),
    "fresh": lambda store: run(made(), store=store, fresh=True, progress=False),
    "rescored": lambda store: evaluate(made(), [exact(), wordy], store=store),
    "anchors": lambda store: run(made(name="third", anchors=4), store=store, progress=False),
    "discard": discard,
    "break": lambda store: os.environ.update({BROKEN: "1"}),
    "mend": lambda store: os.environ.pop(BROKEN, None),
}


TABLES: list[tuple[tuple[str, ...], str | None]] = [((), None), (("style", "case"), "exact")]


class Counting:
    """Results of a run with a memory, and how often their trials were read."""

    def __init__(self, store: Path, run: str) -> None:
        self.plain = Opened(store).results(run)
        self.read = 0
        self.results = self._with(self._load, RunTableCache(store, run))
        self.computed = self._with(self.plain._load, None)

    def _with(self, load: Any, memory: RunTableCache | None) -> Results:
        return Results(
            load,
            run_id=self.plain.run_id,
            study=self.plain.study,
            status=self.plain.status,
            counts=self.plain.counts,
            notes=self.plain.notes,
            memory=memory,
            conditions=self.plain._conditions,
        )

    def _load(self) -> Any:
        self.read += 1
        return self.plain._load()


@pytest.fixture(autouse=True)
def mended() -> Iterator[None]:
    yield
    os.environ.pop(BROKEN, None)


def said(results: Results, by: tuple[str, ...], score: str | None) -> str:
    try:
        return repr(results.table(*by, score=score))
    except Unknown as problem:
        return str(problem)


@example(["discard", "all", "discard"])
@example(["break", "fresh", "mend", "fresh", "all"])
@given(st.lists(st.sampled_from(sorted(ACTS)), min_size=2, max_size=4))
@settings(deadline=None, max_examples=12)
def test_a_remembered_table_is_the_table(acts: list[str]) -> None:
    os.environ.pop(BROKEN, None)
    with tempfile.TemporaryDirectory() as folder:
        store = Path(folder) / "s.db"
        ACTS["all"](store)
        for act in acts:
            ACTS[act](store)
            for found in Opened(store).runs():
                counting = Counting(store, found.id)
                for number, (by, score) in enumerate(TABLES, 1):
                    wanted = said(counting.computed, by, score)
                    assert said(counting.plain, by, score) == wanted  # remembered by its trials
                    assert said(counting.results, by, score) == wanted
                    assert said(counting.results, by, score) == wanted
                    assert counting.read <= number or wanted.startswith("no score")


@pytest.fixture
def kept(tmp_path: Path) -> Counting:
    store = tmp_path / "s.db"
    run(made(), store=store, progress=False)
    return Counting(store, Opened(store).run().id)


def test_looking_again_reads_no_trial(kept: Counting, tmp_path: Path) -> None:
    first = kept.results.table("style")
    assert (kept.results.table("style"), kept.read) == (first, 1)
    assert (Counting(tmp_path / "s.db", kept.plain.run_id).results.table("style"), kept.read) == (first, 1)
    kept.results.table("style", level=0.9)
    assert kept.read == 2


def test_notes_of_the_run_are_said_beside_a_remembered_table(kept: Counting) -> None:
    kept.results.table()
    kept.results.notes = ("new",)
    assert kept.results.table().notes[-1] == "new"
    assert kept.read == 1


@pytest.mark.parametrize("harm", [b"", b"x" * 200, None])
def test_a_damaged_memory_is_made_again(kept: Counting, tmp_path: Path, harm: bytes | None) -> None:
    first = kept.results.table()
    [file] = (tmp_path / "s.db.tables").iterdir()
    data = file.read_bytes()
    file.write_bytes(data[:-1] + bytes([data[-1] ^ 1]) if harm is None else harm)
    assert kept.results.table() == first
    assert kept.read == 2
    assert file.read_bytes() == data


def test_a_memory_that_cannot_be_written_is_not_used(kept: Counting, tmp_path: Path) -> None:
    (tmp_path / "s.db.tables").write_text("a file stands where the folder would")
    assert kept.results.table() == kept.results.table()
    assert kept.read == 2


def test_what_is_written_meanwhile_is_not_remembered(tmp_path: Path) -> None:
    store = tmp_path / "s.db"
    run(made(), store=store, progress=False)
    found = Counting(store, Opened(store).run().id)

    def load() -> Any:
        run(made(name="beside"), store=store, progress=False)
        return found.plain._load()

    found._load = load  # type: ignore[method-assign]
    found.results._load = load
    found.results.table()
    assert not (tmp_path / "s.db.tables").exists()


def test_it_holds_no_more_than_the_newest(kept: Counting, tmp_path: Path) -> None:
    folder = tmp_path / "s.db.tables"
    folder.mkdir()
    for number in range(MOST_FILES + 5):
        (folder / f"old{number}").write_bytes(b"")
        os.utime(folder / f"old{number}", (number, number))
    kept.results.table()
    assert len(list(folder.iterdir())) == MOST_FILES
    kept.results.table()
    assert kept.read == 1


def test_runs_of_medium_size_and_stores_in_memory_have_no_cache(tmp_path: Path) -> None:
    assert table_cache_of(tmp_path / "s.db", "r", FEWEST - 1, list) is None
    assert table_cache_of(MemoryStore(), "r", FEWEST, list) is None
    assert table_cache_of(tmp_path / "s.db", "r", FEWEST, list) is not None


def test_a_small_table_is_remembered_by_its_trials_in_any_store(kept: Counting, tmp_path: Path) -> None:
    folder, trials = tmp_path / "tables", list(kept.plain._load())
    query = TableQuery(("style",), "exact", 0.95, "", "")
    made = []

    def make() -> TableWithDrift:
        made.append(1)
        return kept.computed._compute_table(query)

    first = SmallTableCache(lambda: trials, folder).table(query, make)
    assert SmallTableCache(lambda: list(kept.plain._load()), folder).table(query, make) == first
    assert len(made) == 1
    for other in (trials[1:], [msgspec.structs.replace(trials[0], scores={}), *trials[1:]]):
        SmallTableCache(lambda found=other: found, folder).table(query, make)  # type: ignore[misc]
    SmallTableCache(lambda: trials, folder).table(replace(query, level=0.9), make)
    assert len(made) == 4


def test_a_damaged_small_table_is_made_again(kept: Counting) -> None:
    first = kept.plain.table("style")
    folder = Path(os.environ["XDG_CACHE_HOME"]) / "peira" / "tables"
    for file in folder.iterdir():
        file.write_bytes(file.read_bytes()[:-1])
    assert kept.plain.table("style") == first
    shutil.rmtree(folder)
    folder.write_text("a file stands where the folder would")
    assert kept.plain.table("style") == first
    folder.unlink()
