"""Settings of the whole test suite, and the endpoint that stands for a provider.

Properties have no deadline, because a shared machine stalls at random, and draw 40 examples unless they say
otherwise (`make torture`: 500); on CI they draw the same ones every time, so that a red build is a change in
the code and not in the luck. The endpoint is a
process, one for the whole session, with a model of its own for each test.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import urllib.request
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings

from .postgres import CuttingProxy, SharedServer
from .warm import Warm, beginning

# Matrices are small here, and tests run side by side: threads of BLAS would only wait for each other.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
CACHE = tempfile.TemporaryDirectory(prefix="peira-test-cache-")
"""The user's cache folder of these tests and of the processes they start."""
os.environ["XDG_CACHE_HOME"] = CACHE.name

settings.register_profile("local", deadline=None, max_examples=40)
settings.register_profile("ci", deadline=None, max_examples=40, derandomize=True, print_blob=True)
settings.register_profile("thorough", deadline=None, max_examples=500)
settings.load_profile("ci" if os.environ.get("CI") else "local")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """What may take longer than others begins first, so that nobody waits for it alone at the end."""
    items.sort(key=lambda item: item.get_closest_marker("timeout") is None)


def pytest_collection_finish() -> None:
    """Bytecode is that of a file by its size and second, and tests write the same module twice in one: what
    they and their processes compile is not kept."""
    sys.dont_write_bytecode = True
    os.environ["PYTHONDONTWRITEBYTECODE"] = "1"


Turn = dict[str, Any]
CANARY = "canary-7f3a91c2-key-0b5d"


@dataclass(frozen=True)
class Remote:
    """One model at the endpoint, seen from a test."""

    base: str
    model: str

    def _call(self, path: str, told: Turn | None = None) -> Any:
        data = None if told is None else json.dumps(told).encode()
        with urllib.request.urlopen(f"{self.base}{path}", data) as answer:
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
    process.wait()
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
    with psycopg.connect(postgres_server, autocommit=True) as db:
        db.execute(f"DROP SCHEMA IF EXISTS {schema} CASCADE")


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
