"""Who may ask what: foreign hosts and origins, missing tokens, paths that lead elsewhere, slow clients."""

from __future__ import annotations

import asyncio
import hashlib
import os
import shutil
import socket
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import pytest
from aiohttp import web
from hypothesis import given
from hypothesis import strategies as st

from peira.errors import Invalid
from peira.web.connections import ConnectionGuard, allow_many_connections
from peira.web.security import AccessCheck, Credentials, credentials_from
from peira.web.server import ServerOptions

from .conftest import Server, copy_store, serving

PAGES = ["/", "/runs", "/runs.json", "/calls", "/api/v1/runs", "/api/v1/openapi.json", "/live", "/nothing"]


@pytest.mark.parametrize("host", ["evil.example", "evil.example:80", "127.0.0.1", "127.0.0.1:1", "", "[::1]"])
def test_a_foreign_host_is_refused_before_all_else(server: Server, host: str) -> None:
    for path in [*PAGES, "/static/peira.css", f"/?token={server.token}"]:
        assert server.ask(path, Host=host or " ").status in (403, 400), path


@pytest.mark.parametrize("name", ["localhost", "127.0.0.1", "[::1]"])
def test_its_own_names_are_served(server: Server, name: str) -> None:
    port = server.host.rpartition(":")[2]
    assert server.ask("/api/v1/runs", Host=f"{name}:{port}").status == 200


@pytest.mark.parametrize("authorization", ["", "Bearer", "Bearer wrong", "Basic dG9rZW46", "Bearer \u00fc"])
def test_without_the_token_nothing_is_told(server: Server, authorization: str) -> None:
    for path in PAGES:
        found = server.ask(path, Authorization=authorization)
        assert found.status == 401, path
        assert b"sums" not in found.body


def test_the_printed_address_gives_a_cookie_and_hides_the_token(server: Server) -> None:
    found = server.ask(f"/runs?study=sums&token={server.token}", Authorization="")
    assert (found.status, found.headers["location"]) == (303, "/runs?study=sums")
    cookie = found.headers["set-cookie"]
    assert "HttpOnly" in cookie
    assert "SameSite=Strict" in cookie
    assert server.token not in cookie
    named = cookie.partition(";")[0]
    assert server.ask("/runs", Authorization="", Cookie=named).status == 200
    assert server.ask("/runs", Authorization="", Cookie=named[:-4] + "0000").status == 401
    assert server.ask("/runs?token=wrong", Authorization="").status == 401


@pytest.mark.parametrize(
    "path", ["//evil.example/", "/\\evil.example", "/%2f%2fevil.example", "///evil.example/x"]
)
def test_the_token_leads_nowhere_else(server: Server, path: str) -> None:
    found = server.ask(f"{path}?token={server.token}", Authorization="")
    location = found.headers.get("location", "/")
    assert location.startswith("/")
    assert not location.startswith(("//", "/\\"))


def test_headers_are_not_injected(server: Server) -> None:
    for path in ("/runs%0d%0aSet-Cookie:x=1?token=", "/runs?a=%0d%0aX-Evil:1&token="):
        found = server.ask(f"{path}{server.token}", Authorization="")
        assert "x-evil" not in found.headers
        assert "x=1" not in found.headers.get("set-cookie", "")


WRITES = ["/api/v1/runs", "/api/v1/runs/abcd/cancel", "/runs"]


@pytest.mark.parametrize("path", WRITES)
def test_a_cookie_alone_writes_nothing(server: Server, path: str) -> None:
    cookie = (
        server.ask(f"/runs?token={server.token}", Authorization="").headers["set-cookie"].partition(";")[0]
    )
    own = f"http://{server.host}"
    asked = {"Authorization": "", "Cookie": cookie}
    page = server.ask("/runs", **asked).text
    csrf = page.partition('name="csrf" content="')[2].partition('"')[0]
    assert len(csrf) == 64
    for origin, said in (
        ("", csrf),
        ("http://evil.example", csrf),
        ("null", csrf),
        (own, ""),
        (own, "0" * 64),
    ):
        found = server.ask(path, "POST", b"{}", **asked, Origin=origin, X_Peira_CSRF=said)
        assert found.status == 403, (origin, said)
    assert server.ask(path, "POST", b"{}", **asked, Origin=own, X_Peira_CSRF=csrf).status not in (401, 403)


@pytest.mark.parametrize(
    "path",
    [
        "/static/../security.py",
        "/static/..%2fsecurity.py",
        "/static/vendor/../../security.py",
        "/static/%2e%2e/security.py",
        "/static//etc/passwd",
        "/static/peira.css%00.js",
        "/runs/../../etc/passwd",
        "/runs/..%2f..%2fetc%2fpasswd/report",
        "/runs/abcd/trials/../../../etc/passwd",
    ],
)
def test_paths_lead_nowhere_else(server: Server, path: str) -> None:
    found = server.ask(path)
    assert found.status in (400, 404), found.text[:200]
    assert b"root:" not in found.body
    assert b"import" not in found.body


def test_every_answer_has_the_headers(server: Server, run: str) -> None:
    for path in ("/runs", f"/runs/{run}", "/api/v1/runs", "/static/peira.js", "/nothing", "/runs?x=1"):
        found = server.ask(path, Accept="text/html")
        assert found.headers["x-content-type-options"] == "nosniff"
        policy = found.headers["content-security-policy"]
        assert policy.startswith("default-src 'self'")
        assert "unsafe" not in policy
        assert "frame-ancestors 'none'" in policy


def test_a_report_is_shut_in(server: Server, run: str) -> None:
    first, kept = (server.ask(f"/runs/{run}/report") for _ in range(2))
    assert kept.body == first.body
    policy = kept.headers["content-security-policy"]
    assert policy == first.headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "sandbox allow-scripts" in policy
    assert "script-src 'sha256-" in policy


def test_attached_files_are_downloads(server: Server, run: str) -> None:
    trial = server.api(f"/runs/{run}/trials?limit=1")["trials"][0]["id"]
    [file] = server.api(f"/trials/{trial}?run={run}")["artifacts"]
    found = server.ask(f"/runs/{run}/trials/{trial}/files/{file['digest']}")
    assert found.status == 200
    assert found.headers["content-disposition"] == 'attachment; filename="notes.html"'
    assert found.headers["content-type"] == "application/octet-stream"
    assert server.ask(f"/runs/{run}/trials/{trial}/files/{'0' * 64}").status == 404


def test_a_thousand_slow_clients_harm_nobody(server: Server, run: str) -> None:
    """Half of them never end their request, the others never read the events they asked for."""
    allow_many_connections()
    host, port = server.host.rsplit(":", 1)
    events = f"GET /api/v1/runs/{run}/events HTTP/1.1\r\nHost: {server.host}\r\n"
    deaf = f"{events}Accept: text/event-stream\r\nAuthorization: Bearer {server.token}\r\n\r\n".encode()
    slow = []
    try:
        for number in range(1000):
            one = socket.create_connection((host, int(port)), timeout=30)
            one.sendall(deaf if number % 2 else b"GET /runs HTTP/1.1\r\nHost: ")
            slow.append(one)
        assert server.ask("/api/v1/runs").status == 200
        assert server.ask(f"/runs/{run}", Accept="text/html").status == 200
        large = server.ask("/api/v1/runs", "POST", b"x" * (2 << 20))
        assert large.status in (404, 405, 413)
    finally:
        for one in slow:
            one.close()
    assert server.ask("/api/v1/runs").status == 200


def test_a_connection_that_asks_nothing_is_closed() -> None:
    asyncio.run(_ask_nothing())


async def _ask_nothing() -> None:
    guard = ConnectionGuard(patience=0.3)

    async def hello(request: web.Request) -> web.Response:
        guard.saw(request)
        return web.Response(text="hello")

    app = web.Application()
    app.router.add_get("/", hello)
    runner = web.AppRunner(app)
    await runner.setup()
    listening = await asyncio.get_running_loop().create_server(
        guard.connection(runner.server), "127.0.0.1", 0
    )
    try:
        port = listening.sockets[0].getsockname()[1]
        kept, gone = [await asyncio.open_connection("127.0.0.1", port) for _ in range(2)]
        kept[1].write(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
        gone[1].write(b"GET / HTTP/1.1\r\nHost:")
        assert await kept[0].readline() == b"HTTP/1.1 200 OK\r\n"
        with suppress(ConnectionResetError):
            assert await gone[0].read() == b""
        kept[1].write(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
        assert b"hello" in await kept[0].readuntil(b"hello")
        for _, writer in (kept, gone):
            writer.close()
            with suppress(ConnectionResetError):
                await writer.wait_closed()
    finally:
        listening.close()
        await runner.cleanup()


def digests(folder: Path) -> dict[str, str]:
    files = sorted(path for path in folder.rglob("*") if path.is_file() and path.suffix != ".err")
    return {str(file.relative_to(folder)): hashlib.sha256(file.read_bytes()).hexdigest() for file in files}


@pytest.mark.parametrize("killed", [False, True], ids=["at rest", "its owner was killed"])
def test_read_only_writes_nothing(project: Path, tmp_path: Path, killed: bool) -> None:
    copy_store(project, tmp_path)
    for name in ("sums.py", "peira.toml", "live.py"):
        shutil.copy(project / name, tmp_path / name)
    if killed:
        command = [sys.executable, "-P", "-m", "peira.cli", "run", "live.py", "-p", "2", "--quiet"]
        process = subprocess.Popen(command, cwd=tmp_path, stderr=subprocess.DEVNULL)
        begun = (tmp_path / "s.db").stat().st_mtime_ns
        files = [tmp_path / name for name in ("s.db-shm", "s.db-wal")]
        while not all(file.exists() and file.stat().st_mtime_ns > begun for file in files):
            assert process.poll() is None
            time.sleep(0.05)
        time.sleep(1.0)  # it is in the middle of its trials
        assert process.poll() is None
        process.kill()
        process.wait()
        assert (tmp_path / "s.db-wal").stat().st_size
        (tmp_path / "s.db-shm").unlink()  # the shared memory of the dead; any reader makes it anew
    before = digests(tmp_path)
    with serving(tmp_path, "--read-only") as started:
        found = started.api("/runs")["runs"]
        for one in found:
            for path in ("", "/table", "/trials?state=wrong", "/events"):
                started.api(f"/runs/{one['id']}{path}")
            for path in ("", "/conditions", "/trials"):
                assert started.ask(f"/runs/{one['id']}{path}").status == 200
        assert started.ask("/api/v1/runs", "POST", b"{}").status == 403
    after = digests(tmp_path)
    after.pop("s.db-shm", None)
    assert after == before


@given(st.text(max_size=200))
def test_only_the_token_is_the_token(said: str) -> None:
    known = Credentials("t" * 20)
    assert known.is_token(said) == (said == "t" * 20)
    assert known.is_cookie(said) == (said == known.cookie)
    assert known.cookie != known.csrf


def test_tokens_of_the_environment() -> None:
    assert credentials_from({}).token != credentials_from({}).token
    assert credentials_from({"PEIRA_TOKEN": "a" * 16}).token == "a" * 16
    for bad in ("short", "a b" * 9, "ü" * 20):
        with pytest.raises(Invalid, match="PEIRA_TOKEN"):
            credentials_from({"PEIRA_TOKEN": bad})


@pytest.mark.parametrize("listen", ["7360", "127.0.0.1", ":1", "127.0.0.1:x", "127.0.0.1:70000", "0.0.0.0:1"])
def test_where_it_cannot_listen_is_said(listen: str) -> None:
    with pytest.raises(Invalid, match="listen: "):
        _ = ServerOptions(listen).address
    assert ServerOptions("0.0.0.0:1", ("lab.example",)).address == ("0.0.0.0", 1)


def test_a_port_in_use_is_said_in_a_line(server: Server, project: Path) -> None:
    command = [sys.executable, "-P", "-m", "peira.cli", "serve", "--listen", server.host]
    done = subprocess.run(command, cwd=project, capture_output=True, text=True, env=dict(os.environ))
    assert done.returncode == 1
    assert done.stderr.count("\n") == 1
    assert "cannot listen" in done.stderr


def test_hosts_are_compared_without_case() -> None:
    check = AccessCheck(Credentials(), ["Lab.example:80"], False)
    assert check.hosts == {"lab.example:80"}
