"""Settings of the whole test suite, and the endpoint that stands for a provider.

Properties have no deadline, because a shared machine stalls at random, and draw 40 examples unless they say
otherwise (`make torture`: 500); on CI they draw the same ones every time, so that a red build is a change in
the code and not in the luck. The endpoint is a
process, one for the whole session, with a model of its own for each test.
"""

from __future__ import annotations

import faulthandler
import gc
import json
import os
import shutil
import subprocess
import sys
import tempfile
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass
from functools import cache
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings

from peira.core.garbage_collector import SELDOM

from .postgres import CuttingProxy, SharedServer
from .warm import LAST_WORDS, Warm, beginning, end_started

# Matrices are small here, and tests run side by side: threads of BLAS would only wait for each other.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
CACHE = tempfile.TemporaryDirectory(prefix="peira-test-cache-")
"""The user's cache folder of these tests and of the processes they start."""
os.environ["XDG_CACHE_HOME"] = CACHE.name
os.environ.pop("PYTHONUNBUFFERED", None)  # set on some machines, and it hides output that nobody flushes

settings.register_profile("local", deadline=None, max_examples=40)
settings.register_profile("ci", deadline=None, max_examples=40, derandomize=True, print_blob=True)
settings.register_profile("thorough", deadline=None, max_examples=500)
settings.load_profile("ci" if os.environ.get("CI") else "local")


ON_DISK = ("agents", "faults", "field", "sandbox", "stores", "work")
"""Folders of tests whose files are on the disk: of kills and crashes, and of sandboxes, which hide /dev."""


@cache
def _memory() -> Path | None:
    """A folder in memory for this process; None if there is none with room, or the disk is asked for."""
    root = Path("/dev/shm")
    if os.environ.get("PEIRA_TEST_DISK") or not root.is_dir() or shutil.disk_usage(root).free < 2 << 30:
        return None
    return Path(tempfile.mkdtemp(prefix="peira-test-", dir=root))


def pytest_unconfigure() -> None:
    """Leave nothing in memory; called once in each process of pytest, and not in those that tests fork."""
    if _memory.cache_info().currsize and (folder := _memory()) is not None:
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
def tmp_path(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Path]:
    """A folder of the test alone: in memory, where syncing costs nothing, unless it is about the disk.

    It is removed after the test; `PEIRA_TEST_DISK=1` leaves all of them where pytest keeps them.
    """
    of = Path(request.node.path).relative_to(Path(__file__).parent.parent).parts
    memory = None if of[0] != "tests" or of[1] in ON_DISK else _memory()
    if memory is None:
        yield tmp_path
        return
    folder = memory / tmp_path.name
    folder.mkdir()
    yield folder
    shutil.rmtree(folder, ignore_errors=True)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """What may take longer than others begins first, so that nobody waits for it alone at the end."""
    items.sort(key=lambda item: item.get_closest_marker("timeout") is None)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers() -> int | None:
    """Three for two cores, because many tests wait; PYTEST_XDIST_AUTO_NUM_WORKERS may say otherwise."""
    if os.environ.get("PYTEST_XDIST_AUTO_NUM_WORKERS"):
        return None
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return cores + cores // 2


def pytest_collection_finish() -> None:
    """Bytecode is that of a file by its size and second, and tests write the same module twice in one: what
    they and their processes compile is not kept. Modules and tests live to the end: to search these million
    objects for garbage takes a second every time, so the collector leaves them out."""
    sys.dont_write_bytecode = True
    os.environ["PYTHONDONTWRITEBYTECODE"] = "1"
    gc.collect()
    gc.freeze()
    gc.set_threshold(SELDOM, 10, 10)  # so nobody counts what is left out, to hold the collector back


_stderr = -1
"""Standard error of this process, beside what pytest captures."""


def pytest_configure() -> None:
    global _stderr
    _stderr = os.dup(2)


def _watch(item: pytest.Item) -> None:
    """End the process of a test that its time limit does not end, showing where every thread stands.

    The limit raises an exception once: a fixture that waits after it (for a process, a thread, a lock) would
    wait for ever, with all the tests that were given to this process. A new process runs those.
    """
    marker = item.get_closest_marker("timeout")
    limit = float(marker.args[0] if marker else item.config.getini("timeout"))
    faulthandler.dump_traceback_later(2 * limit + 30, exit=True, file=_stderr)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    _watch(item)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_teardown(item: pytest.Item) -> Iterator[None]:
    _watch(item)  # once more: pytest itself ends the watch when a test fails
    end_started()
    yield
    faulthandler.cancel_dump_traceback_later()


Turn = dict[str, Any]
CANARY = "canary-7f3a91c2-key-0b5d"


@dataclass(frozen=True)
class Remote:
    """One model at the endpoint, seen from a test."""

    base: str
    model: str

    def _call(self, path: str, told: Turn | None = None) -> Any:
        data = None if told is None else json.dumps(told).encode()
        with urllib.request.urlopen(f"{self.base}{path}", data, timeout=30) as answer:
            return json.loads(answer.read())

    def script(self, *turns: Turn) -> None:
        self._call("/script", {"model": self.model, "turns": turns})

    def always(self, turn: Turn) -> None:
        self._call("/script", {"model": self.model, "always": turn})

    def allow(self, most: int) -> None:
        """More than so many at once are refused."""
        self._call("/script", {"model": self.model, "most": most})

    def other(self, name: str) -> Remote:
        """Another model at the same endpoint."""
        return Remote(self.base, f"{self.model}-{name}")

    def seen(self) -> list[Turn]:
        return self._call(f"/log?model={self.model}")["seen"]

    def sends(self) -> int:
        return len(self.seen())

    def bills(self) -> int:
        return len(self.billed())

    def billed(self) -> list[str]:
        """The last message of each request that was billed."""
        return self._call(f"/log?model={self.model}")["billed"]

    def peak(self) -> int:
        """How many it had at once at the most."""
        return self._call(f"/log?model={self.model}")["peak"]


@dataclass(frozen=True)
class Batched(Remote):
    """One model at the endpoint that takes batches, by its full name and in one of the forms."""

    form: str = "openai"

    @property
    def name(self) -> str:
        return f"{self.form}:{self.model}"

    def plan(self, **told: Any) -> None:
        self._call("/plan", {"model": self.model, **told})

    def log(self) -> Turn:
        return self._call(f"/log?model={self.model}")

    def batches(self) -> list[list[str]]:
        """What was said in each batch that was taken."""
        return [sorted(item["said"] for item in batch["items"]) for batch in self.log()["batches"]]

    def billed(self) -> list[str]:
        return sorted(said for _, said in self.log()["billed"])

    def billed_keys(self) -> list[str]:
        """The custom id of each request that was billed; "" for one that was sent alone."""
        return sorted(key for key, _ in self.log()["billed"])

    def asked(self, route: str) -> int:
        return self.log()["asked"].get(route, 0)


def _serving(script: str, *arguments: str) -> Iterator[str]:
    """A server in a process of its own: its address, as long as somebody uses it."""
    command = [sys.executable, str(Path(__file__).parent / "models" / script), *arguments]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert process.stdin is not None
    assert process.stdout is not None
    yield f"http://127.0.0.1:{int(process.stdout.readline())}"
    process.stdin.close()
    try:
        process.wait(LAST_WORDS)
    except subprocess.TimeoutExpired:
        process.kill()
        raise
    process.stdout.close()


@pytest.fixture(scope="session")
def server() -> Iterator[str]:
    yield from _serving("server.py")


@pytest.fixture(scope="session")
def batch_server() -> Iterator[str]:
    yield from _serving("batch_server.py", CANARY)


@pytest.fixture(scope="session")
def warm() -> Iterator[Warm]:
    """Starts programs that find peira imported."""
    with beginning() as started:
        yield started


_numbers = count()


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[str]:
    """The address of a real Postgres: the session's own, or the one that PEIRA_TEST_POSTGRES names."""
    if given := os.environ.get("PEIRA_TEST_POSTGRES"):
        yield given
        return
    shared = SharedServer(os.environ.get("PYTEST_XDIST_TESTRUNUID", str(os.getpid())))
    try:
        yield shared.url()
    except RuntimeError as problem:
        pytest.skip(str(problem))
    finally:
        shared.leave()


@pytest.fixture
def postgres_url(postgres_server: str) -> Iterator[str]:
    """The address of a store of this test's own, which does not exist yet."""
    schema = f"t{os.getpid()}_{next(_numbers)}"
    url = f"{postgres_server}{'&' if '?' in postgres_server else '?'}schema={schema}"
    psycopg = pytest.importorskip("psycopg")
    yield url
    with psycopg.connect(postgres_server, autocommit=True, connect_timeout=20) as db:
        db.execute("SET lock_timeout = '20s'")
        db.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_locks JOIN pg_class AS c ON c.oid = relation "
            "WHERE c.relnamespace = to_regnamespace(%s) AND pid <> pg_backend_pid()",
            (schema,),
        )
        db.execute(f"DROP SCHEMA IF EXISTS {schema} CASCADE")


@pytest.fixture
def join(warm: Warm, postgres_url: str) -> Callable[..., Any]:
    """Starts a worker (worker.py of this folder), which is killed at a failpoint if one is named."""

    def begun(*arguments: str, failpoint: str = "") -> Any:
        return warm.start(
            [sys.executable, "worker.py", postgres_url, *arguments],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            env={**os.environ, "PEIRA_FAILPOINT": failpoint},
        )

    return begun


@pytest.fixture
def proxy(postgres_server: str) -> Iterator[CuttingProxy]:
    if "host=/" not in postgres_server:
        pytest.skip("the server is not reached by a socket of this machine")
    with closing(CuttingProxy(postgres_server)) as proxy:
        yield proxy


@pytest.fixture
def endpoint(server: str, monkeypatch: pytest.MonkeyPatch) -> Remote:
    """A model of this test's own, with the keys of all providers set to the canary."""
    for name in ("OPENAI_API_KEY", "ANTHROPIC_API_KEY", "GEMINI_API_KEY", "AZURE_OPENAI_API_KEY"):
        monkeypatch.setenv(name, CANARY)
    monkeypatch.setenv("OPENAI_BASE_URL", f"{server}/v1")
    monkeypatch.setenv("ANTHROPIC_BASE_URL", server)
    return Remote(server, f"m{next(_numbers)}")


@pytest.fixture(params=["openai", "anthropic"])
def provider(request: pytest.FixtureRequest, batch_server: str, monkeypatch: pytest.MonkeyPatch) -> Batched:
    """A model of this test's own that can be asked in batches, in either form."""
    for name in ("OPENAI_API_KEY", "ANTHROPIC_API_KEY"):
        monkeypatch.setenv(name, CANARY)
    monkeypatch.setenv("OPENAI_BASE_URL", f"{batch_server}/v1")
    monkeypatch.setenv("ANTHROPIC_BASE_URL", batch_server)
    return Batched(batch_server, f"m{next(_numbers)}", request.param)


@pytest.fixture(scope="session")
def gsm8k_solutions() -> list[dict[str, Any]]:
    """What four models said to the 1,319 problems of GSM8K, and whether it was right, as published."""
    beside = Path(__file__).parents[1].parent / "shared" / "data"
    file = Path(os.environ.get("PEIRA_SHARED_DATA", beside)) / "gsm8k" / "example_model_solutions.jsonl"
    if not file.exists():
        pytest.skip("the recorded solutions of GSM8K are not here; PEIRA_SHARED_DATA names their folder")
    return [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]


WANTED = "pages are opened in a real browser where playwright and chromium are installed"


@pytest.fixture(scope="module")
def chromium() -> Iterator[Any]:
    """A real browser, for reports and pages."""
    from peira.report.writers.pdf import browser  # slow, and few tests need it

    found = browser()
    if found is None and os.environ.get("CI"):
        pytest.fail("on CI pages must be opened in a browser: install chromium")
    if found is None:
        pytest.skip(f"{WANTED}; there is no chromium")
    playwright = pytest.importorskip("playwright.sync_api", reason=WANTED)
    with playwright.sync_playwright() as started:
        opened = started.chromium.launch(executable_path=shutil.which(found), args=["--no-sandbox"])
        yield opened
        opened.close()
