"""`peira serve`, `peira view` and `peira endpoint`: over HTTP, the pages of a store, and models."""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

import peira.app as app
from peira.app.endpoint import EndpointOptions, ServedEndpoint, routed, serve_endpoint
from peira.app.session import Session
from peira.app.streams.host import Host
from peira.cli import run_summary
from peira.cli.options import Json, Store, Wait
from peira.cli.output import CommandOutput, encoded, note
from peira.core.ids import short
from peira.core.log.events import Status
from peira.errors import Invalid
from peira.spec.streams.files import read_streams
from peira.spec.streams.stream import Stream
from peira.spec.streams.triggers import Webhook

ANY_PORT = "127.0.0.1:0"
LOOK = 0.2
"""Seconds between two looks whether streams are still served."""

Listen = Annotated[
    str,
    typer.Option("--listen", metavar="HOST:PORT", help="Where to listen; port 0 is any that is free."),
]
HostNames = Annotated[
    list[str] | None,
    typer.Option(
        "--host", metavar="NAME", help="Another name of this machine that browsers may use; repeatable."
    ),
]


def serve(
    streams: Annotated[
        str, typer.Argument(metavar="[FILE]", help="Serve the streams of this file: .py or .toml.")
    ] = "",
    store: Store = None,
    listen: Listen = "",
    host: HostNames = None,
    read_only: Annotated[
        bool, typer.Option("--read-only", help="Only show: nothing can be started, stopped or written.")
    ] = False,
    open_: Annotated[bool, typer.Option("--open", help="Open the page in a browser.")] = False,
    parallel: Annotated[
        int | None,
        typer.Option("--parallel", metavar="N", help="At most this many jobs of all streams at once."),
    ] = None,
    wait: Wait = False,
    as_json: Json = False,
) -> None:
    """Serve the streams of a file, or web pages of a store.

    With a file, the streams in it are served until Ctrl-C or SIGTERM: what runs then is finished, and what is
    queued is done by the next host. Web pages (runs as they happen, trials, comparisons) are served without a
    file, or beside the streams if --listen is given.

    Prints the address, with a token that only this terminal knows. Programs send it as Authorization: Bearer
    TOKEN to /api/v1; the environment variable PEIRA_TOKEN sets it, so that it stays the same after a restart.
    Ctrl-C ends the server, and no run.

    \b
    Examples:
      peira serve
      peira serve support.py --store live.db
      peira serve --store capitals.db --listen 127.0.0.1:7360
      peira serve --listen 0.0.0.0:7360 --host lab.example.org:7360
    """
    given = {"--parallel": parallel is not None, "--wait": wait}
    if not streams and (vain := [name for name, is_given in given.items() if is_given]):
        raise Invalid([f"{name}: is for streams; name their file" for name in vain])
    if not streams:
        _serve(store, listen or ANY_PORT, tuple(host or ()), read_only, open_, as_json)
        return
    if read_only:
        raise Invalid("--read-only: streams cannot be served without writing")
    pages = bool(listen or open_)
    if pages:
        _check_server(listen or ANY_PORT, tuple(host or ()))
    session, served = Session.find(store), read_streams(Path(streams))
    for line in _webhook_notices(served, pages):
        note(line)
    with Host(served, session, None, None if wait else 0.0, note, parallel) as hosting:
        if pages:
            note(f"streams: {', '.join(one.name for one in served)}")
            _serve(store, listen or ANY_PORT, tuple(host or ()), False, open_, as_json)
            return
        names, out = [one.name for one in served], CommandOutput(as_json)
        out.document({"store": str(session.store), "streams": names})
        out.text(f"peira serves {', '.join(names)} in {session.store}")
        note("Ctrl-C ends it: what runs is finished, what is queued stays queued")
        sys.stdout.flush()
        _until_signal(hosting)


def _webhook_notices(streams: Sequence[Stream], pages: bool) -> Iterator[str]:
    """Webhooks that will get no requests, or refuse them all, with what to do about it."""
    for stream in streams:
        for trigger in stream.triggers:
            if not isinstance(trigger, Webhook):
                continue
            where = f"{stream.name}: webhook {trigger.name}"
            if not pages:
                yield f"{where}: nothing listens for its requests; add --listen HOST:PORT"
            if not os.environ.get(trigger.webhook):
                yield f"{where}: ${trigger.webhook} is not set, so all its requests are refused"


def _until_signal(hosting: Host) -> None:
    """Wait for Ctrl-C or SIGTERM, or until no stream is served any more."""
    ended = threading.Event()
    before = {one: signal.signal(one, lambda *_: ended.set()) for one in (signal.SIGINT, signal.SIGTERM)}
    try:
        while not (ended.wait(LOOK) or hosting.wait(0)):
            pass
    finally:
        for one, handler in before.items():
            signal.signal(one, handler)


def view(
    store: Store = None,
    listen: Listen = ANY_PORT,
    open_: Annotated[
        bool, typer.Option("--open/--no-open", help="Whether to open the page in a browser.")
    ] = True,
    as_json: Json = False,
) -> None:
    """Look at a store in a browser; changes nothing.

    The same as `serve --read-only --open`.

    \b
    Examples:
      peira view
      peira view --store capitals.db
    """
    _serve(store, listen, (), True, open_, as_json)


def _check_server(listen: str, hosts: tuple[str, ...]) -> None:
    """Invalid if the pages could not be served like this: before a stream is opened."""
    from peira.web.security import credentials_from
    from peira.web.server import ServerOptions

    problems = list[str]()
    for check in (lambda: ServerOptions(listen, hosts).address, lambda: credentials_from(os.environ)):
        try:
            check()
        except Invalid as error:
            problems += error.problems
    if problems:
        raise Invalid(problems)


def _serve(
    store: str | None, listen: str, hosts: tuple[str, ...], read_only: bool, open_: bool, as_json: bool
) -> None:
    """Serve until Ctrl-C."""
    from peira.web.server import ServerOptions  # slow: a web server, which help needs not
    from peira.web.server import serve as serving

    session = Session.find(store)

    def announce(url: str) -> None:
        # Printed as it is: elsewhere a token of the environment is hidden, and here it is what one needs.
        address, _, token = url.partition("/?token=")
        document = {"store": str(session.store), "address": address, "token": token, "url": url}
        print(encoded(document) if as_json else f"peira serves {session.store} at {url}", flush=True)
        note("Ctrl-C ends it")

    serving(session, ServerOptions(listen, hosts, read_only, open_), session.store_option(store), announce)


def endpoint(
    model: Annotated[
        list[str] | None,
        typer.Option("--model", metavar="NAME", help="A model to serve, or NAME=MODEL. Repeatable."),
    ] = None,
    port: Annotated[
        int,
        typer.Option(
            "--port", metavar="N", min=0, max=65535, help="The port on the loopback interface; 0: any."
        ),
    ] = 0,
    token: Annotated[
        str, typer.Option("--token", metavar="TOKEN", help="The secret part of its address; else a new one.")
    ] = "",
    name: Annotated[
        str, typer.Option("--name", metavar="NAME", help="Sessions of one name replay each other's calls.")
    ] = "endpoint",
    money: Annotated[
        float | None, typer.Option("--money", metavar="USD", min=0, help="The most that calls may cost.")
    ] = None,
    tokens: Annotated[
        int | None, typer.Option("--tokens", metavar="N", min=1, help="The most tokens.")
    ] = None,
    calls: Annotated[int | None, typer.Option("--calls", metavar="N", min=1, help="The most calls.")] = None,
    wait: Wait = False,
    store: Store = None,
    as_json: Json = False,
) -> int:
    """Serve models over HTTP; every call is recorded, replayed and budgeted.

    Any program that can be told an address works with it: it speaks OpenAI's chat completions and responses
    and Anthropic's messages, whatever the model behind it is. It prints the variables to set, and serves
    until Ctrl-C. The keys stay here. A call that is recorded under this name is not made again.

    \b
    Examples:
      peira endpoint --model openai:gpt-5-mini --store calls.db
      peira endpoint --model local:smollm2 --port 7361 --token mine
      peira endpoint --model a=openai:gpt-5 --model b=local:smollm2 --money 2
    """
    out = CommandOutput(as_json)
    limits: dict[str, Any] = {"money": money, "tokens": tokens, "calls": calls}
    budget = {key: value for key, value in limits.items() if value is not None}
    options = EndpointOptions(routed(model or []), name, port, token, budget, None if wait else 0.0)

    def ready(served: ServedEndpoint) -> None:
        out.document({"url": served.base, "token": served.token, "env": served.variables})
        out.text("\n".join(f"export {name}={value}" for name, value in served.variables.items()))
        note("serving; Ctrl-C ends it")

    with Session.find(store) as session:
        outcome = serve_endpoint(session, options, ready)
        spent = run_summary.money(app.account_of(session, outcome.results.run_id))
        note(f"{name}: run {short(outcome.results.run_id)}, {spent or 'no call was made'}")
    return 0 if outcome.finished.status is Status.interrupted else outcome.finished.exit_code
