"""Server-sent events: each once and in order, through reconnects, and whoever lags harms nobody."""

from __future__ import annotations

import http.client
import json
import random
import socket
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from .conftest import Server, serving
from .test_browser import begin, living  # noqa: F401 - a fixture

CLIENTS = 20


class Listener:
    """A client that reads events, and is cut off again and again."""

    def __init__(self, server: Server, run: str, seed: int, cuts: bool = True, most: int = 400) -> None:
        self._server, self._run, self._random, self._cuts = server, run, random.Random(seed), cuts
        self._most = most
        self.seen: list[int] = []
        self.kinds: list[str] = []
        self.connections = 0

    def listen(self) -> None:
        over = False
        while not over:
            over = self._once(self._random.randint(20, self._most) if self._cuts else 1 << 30)

    def _once(self, most: int) -> bool:
        """Read so many events, and be gone; says whether the stream had ended."""
        self.connections += 1
        connection = http.client.HTTPConnection(self._server.host, timeout=60)
        headers = {"Authorization": f"Bearer {self._server.token}", "Accept": "text/event-stream"}
        if self.seen:
            headers["Last-Event-ID"] = str(self.seen[-1])
        try:
            connection.request("GET", f"/api/v1/runs/{self._run}/events", headers=headers)
            answer = connection.getresponse()
            assert answer.status == 200
            number, kind = 0, ""
            while most:
                line = answer.readline().decode().rstrip("\n")
                name, _, value = line.partition(": ")
                if name == "id":
                    number = int(value)
                elif name == "event":
                    kind = value
                elif name == "data" and kind == "end":
                    return True
                elif name == "data":
                    assert json.loads(value)["seq"] == number
                    self.seen.append(number)
                    self.kinds.append(kind)
                    most -= 1
            return False
        finally:
            connection.close()


def heard(listeners: list[Listener], patience: float = 50.0) -> None:
    threads = [threading.Thread(target=one.listen) for one in listeners]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(patience)
        assert not thread.is_alive()


def test_every_client_gets_every_event_once_and_in_order(server: Server, run: str) -> None:
    listeners = [Listener(server, run, seed) for seed in range(CLIENTS)]
    heard(listeners)
    last = max(one["seq"] for one in server.api(f"/runs/{run}/events?limit=1000")["events"])
    for one in listeners:
        assert one.seen == list(range(1, last + 1))
    assert max(one.connections for one in listeners) > 1


MANY = """
from peira import exact, study

@study(cases=[(f"q{n}", "a") for n in range(40_000)], evaluators=[exact()])
def many(case):
    return "a"
"""


@pytest.mark.torture
def test_twenty_clients_get_forty_thousand_events_each(tmp_path: Path) -> None:
    (tmp_path / "many.py").write_text(MANY)
    with serving(tmp_path, "--store", "s.db") as server:
        words = [
            sys.executable,
            "-P",
            "-m",
            "peira.cli",
            "run",
            "many.py",
            "--store",
            "s.db",
            "--detach",
            "--json",
        ]
        began = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, check=True)
        run = json.loads(began.stdout)["run"]
        listeners = [Listener(server, run, seed, most=8_000) for seed in range(CLIENTS)]
        heard(listeners, 1_000)
        for one in listeners:
            assert one.seen == list(range(1, len(one.seen) + 1))
            assert len(one.seen) >= 40_000
            assert one.kinds[-1] == "run.finished"
        assert min(one.connections for one in listeners) > 2


@pytest.mark.timeout(180)
def test_a_living_run_is_heard_by_all_while_one_never_reads(living: Path) -> None:  # noqa: F811
    _, run = begin(living, "--limit", "600")
    with serving(living, "--store", "s.db") as server:
        host, port = server.host.rsplit(":", 1)
        deaf = socket.create_connection((host, int(port)))
        asked = (
            f"GET /api/v1/runs/{run}/events HTTP/1.1\r\nHost: {server.host}\r\nAccept: text/event-stream\r\n"
        )
        deaf.sendall(f"{asked}Authorization: Bearer {server.token}\r\n\r\n".encode())
        listeners = [Listener(server, run, seed, cuts=seed % 2 == 0) for seed in range(8)]
        heard(listeners)
        deaf.close()
        assert server.api(f"/runs/{run}")["run"]["status"] == "completed with failures"
        for one in listeners:
            assert one.seen == list(range(1, len(one.seen) + 1))
            assert one.kinds[-1] == "run.finished"


def test_kinds_are_chosen(server: Server, run: str) -> None:
    connection = http.client.HTTPConnection(server.host, timeout=30)
    headers = {"Authorization": f"Bearer {server.token}", "Accept": "text/event-stream"}
    connection.request("GET", f"/api/v1/runs/{run}/events?kinds=run.finished", headers=headers)
    text = connection.getresponse().read().decode()
    connection.close()
    assert [line for line in text.splitlines() if line.startswith("event")] == [
        "event: run.finished",
        "event: end",
    ]
