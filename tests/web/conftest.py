"""A store with runs in it, and `peira serve` in a process of its own."""

from __future__ import annotations

import http.client
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

STUDY = """
import time
from peira import Case, ask, current_trial, match, step, study

HOSTILE = [
    "<script>window.pwned=1</script>",
    '<img src=x onerror="window.pwned=2">',
    "<svg onload=window.pwned=3><a href='javascript:window.pwned=4'>x</a></svg>",
    "[click](javascript:window.pwned=5) ![x](http://example.org/x.png) **bold** `code`",
    "\\u202eright to left\\u202c \\x1b[31mred\\x1b[0m \\x07",
    "w" * 10_000_000,
    "</script></pre></main><iframe src=//example.org></iframe>",
    "a **word**\\n\\n- one\\n- two\\n\\n| a | b |\\n|---|---|\\n| 1 | <b>2</b> |\\n",
]

@study(title="Do shots <b>help</b>?", description="Adds numbers.", cases=[
        Case(f"What is {a}+{b}?", expected=str(a + b), id=f"sum-{a}-{b}", slice="small" if a < 3 else "large")
        for a in range(6) for b in (1, 2)],
       factors={"shots": [0, 2], "style": ["plain", "think first"]}, evaluators=[match()])
def sums(case, shots, style):
    trial = current_trial()
    a, b = map(int, case.input.removeprefix("What is ").rstrip("?").split("+"))
    step("add", lambda: a + b)
    trial.log("adding", a=a, b=b)
    trial.attach("notes.html", "<script>window.pwned=9</script>")
    if a == 5 and shots == 0:
        raise ValueError(f"the tool broke at {a}{b}")
    if a == 4:
        return HOSTILE[(2 * b + shots + (style != "plain")) % len(HOSTILE)]
    return str(a + b) if shots or b == 1 else f"It is {a + b + 1}."
"""

LIVE = """
import time
from peira import match, study

@study(cases=[(f"q{n}", "a") for n in range(4000)],
       factors={"model": ["small", "large"]}, evaluators=[match()])
def slow(case, model):
    time.sleep(0.05)
    if case.input.endswith("7"):
        raise OSError("no luck")
    return "a" if model == "large" or int(case.input[1:]) % 2 else "b"
"""

URL = re.compile(r"http://([\w.:\[\]]+)/\?token=(\S+)")


@dataclass
class Answer:
    """What a server answered."""

    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def text(self) -> str:
        return self.body.decode()


@dataclass
class Server:
    """A server that was started, and how to ask it."""

    process: subprocess.Popen[str]
    host: str
    token: str
    errors: Path
    said: list[str] = field(default_factory=list)

    @property
    def url(self) -> str:
        return f"http://{self.host}/?token={self.token}"

    def ask(self, path: str, method: str = "GET", body: bytes | None = None, **headers: str) -> Answer:
        """One request, with the token unless another Authorization (or none: "") is given."""
        given = {name.replace("_", "-"): value for name, value in headers.items()}
        given.setdefault("Authorization", f"Bearer {self.token}")
        connection = http.client.HTTPConnection(self.host, timeout=50)
        try:
            connection.request(method, path, body, {name: value for name, value in given.items() if value})
            found = connection.getresponse()
            return Answer(found.status, {k.lower(): v for k, v in found.getheaders()}, found.read())
        finally:
            connection.close()

    def api(self, path: str) -> Any:
        found = self.ask(f"/api/v1{path}")
        assert found.status == 200, found.text
        return found.json


@contextmanager
def serving(folder: Path, *options: str, **environment: str) -> Iterator[Server]:
    """`peira serve` with these options; it must end by SIGTERM, and have logged no error."""
    errors = folder / "serve.err"
    with errors.open("a") as error:
        process = subprocess.Popen(
            [sys.executable, "-P", "-m", "peira.cli", "serve", *options],
            cwd=folder,
            stdout=subprocess.PIPE,
            stderr=error,
            text=True,
            env={**os.environ, **environment},
        )
    assert process.stdout is not None
    line = process.stdout.readline()
    found = URL.search(line)
    assert found, f"{line!r} {errors.read_text()}"
    try:
        yield Server(process, found[1], found[2], errors)
    finally:
        if process.poll() is None:
            process.send_signal(signal.SIGTERM)
        process.wait(20)
        process.stdout.close()
    assert "Traceback" not in errors.read_text()


@pytest.fixture(scope="session")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project with a study that was run twice."""
    folder = tmp_path_factory.mktemp("project")
    (folder / "peira.toml").write_text('store = "s.db"\n')
    (folder / "sums.py").write_text(STUDY)
    (folder / "live.py").write_text(LIVE)
    for extra in ([], ["--fresh"]):
        subprocess.run(
            [sys.executable, "-P", "-m", "peira.cli", "run", "sums.py", "-p", "2", "--quiet", *extra],
            cwd=folder,
            check=False,
            capture_output=True,
        )
    return folder


def copy_store(project: Path, folder: Path) -> None:
    """Copy the store of a project, with the files beside it."""
    for file in project.glob("s.db*"):
        if file.is_dir():
            shutil.copytree(file, folder / file.name)
        elif not file.name.endswith("-shm"):  # shared memory: any reader makes it anew
            shutil.copy(file, folder / file.name)


@pytest.fixture(scope="session")
def server(project: Path) -> Iterator[Server]:
    """A server of that project's store, for those who only look."""
    with serving(project) as started:
        yield started


@pytest.fixture(scope="session")
def run(server: Server) -> str:
    """The id of the newest run."""
    return str(server.api("/runs")["runs"][0]["id"])


class Tab:
    """A page of a browser, and all that it said or asked for while it was looked at."""

    def __init__(self, chromium: Any, server: Server, width: int = 1280, scheme: str = "light") -> None:
        self.context = chromium.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme)
        self.page = self.context.new_page()
        self.server = server
        self.said: list[str] = []
        self.asked: list[str] = []
        self.page.on("console", lambda message: self.said.append(message.text))
        self.page.on("pageerror", lambda error: self.said.append(str(error)))
        self.page.on("request", lambda request: self.asked.append(request.url))
        self.page.goto(server.url)

    def go(self, path: str) -> Any:
        return self.page.goto(f"http://{self.server.host}{path}")

    def see(self, script: str) -> Any:
        return self.page.evaluate(script)

    def until(self, script: str, patience: float = 60.0) -> None:
        """Wait until a script is true; pages allow no eval, which playwright's own waiting needs."""
        from playwright.sync_api import Error

        deadline = time.monotonic() + patience
        while True:
            with suppress(Error):  # the page is just being left for another one
                if self.see(script):
                    return
            assert time.monotonic() < deadline, script
            self.page.wait_for_timeout(100)

    def serious(self) -> list[tuple[str, str]]:
        """What axe-core finds wrong with the page that is serious: the rule, and the first element."""
        axe = pytest.importorskip("axe_playwright_python.sync_playwright", reason="axe is missing")
        found = axe.Axe().run(self.page).response["violations"]
        grave = [one for one in found if one["impact"] in ("serious", "critical")]
        return [(one["id"], one["nodes"][0]["html"][:150]) for one in grave]

    def close(self) -> None:
        self.context.close()


@pytest.fixture
def tab(chromium: Any, server: Server) -> Iterator[Callable[..., Tab]]:
    """Opens tabs, and closes them again."""
    opened: list[Tab] = []

    def open_tab(width: int = 1280, scheme: str = "light", of: Server | None = None) -> Tab:
        opened.append(Tab(chromium, of or server, width, scheme))
        return opened[-1]

    yield open_tab
    for one in opened:
        one.close()
