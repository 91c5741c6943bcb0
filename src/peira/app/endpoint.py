"""The recording endpoint by hand: a run of one trial that serves models over HTTP until it is stopped.

Its calls are those of any trial: recorded, replayed, limited and paid from a budget. A later session of the
same name asks nothing again that is recorded.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, NoReturn, cast

from peira.app.models import problems_of
from peira.app.run import RunOptions, RunOutcome, execute
from peira.app.session import Session
from peira.core.context import Trial
from peira.endpoint.server import EndpointServer, new_token
from peira.endpoint.session import EndpointSession, ModelRoutes
from peira.engine.execution import Execution
from peira.errors import Abandoned, Invalid
from peira.spec.study import Study

LOOK = 0.1
"""Seconds between two looks whether it is to stop."""
MOST_INTERRUPTIONS = 1_000_000


@dataclass(frozen=True)
class ServedEndpoint:
    """An endpoint that is being served: where programs find it."""

    base: str
    token: str

    @property
    def variables(self) -> dict[str, str]:
        """The environment variables by which programs find it."""
        return {
            "OPENAI_BASE_URL": f"{self.base}/v1",
            "OPENAI_API_KEY": self.token,
            "ANTHROPIC_BASE_URL": self.base,
            "ANTHROPIC_API_KEY": self.token,
        }


@dataclass(frozen=True)
class EndpointOptions:
    """What is served: models by the names that programs say, under which name, where, with what budget."""

    models: Mapping[str, str]
    name: str = "endpoint"
    port: int = 0
    token: str = ""
    budget: Mapping[str, Any] = field(default_factory=dict)
    wait: float | None = 0.0


def routed(given: list[str]) -> dict[str, str]:
    """The models by name: NAME=MODEL, or a model by its own name; one alone stands for all names."""
    found: dict[str, str] = {}
    for text in given:
        name, equals, model = text.partition("=")
        if equals and not (name and model):
            raise Invalid(f"--model: {text!r} is neither a model nor NAME=MODEL")
        found[name if equals else text] = model if equals else text
        if not equals and ":" in text:
            found.setdefault(text.partition(":")[2], text)
    if not found:
        raise Invalid("--model: say which model is served, as provider:name")
    return {**found, "*": given[0]} if len(given) == 1 and "=" not in given[0] else found


def serve_endpoint(
    session: Session, options: EndpointOptions, ready: Callable[[ServedEndpoint], None]
) -> RunOutcome:
    """Serve until interrupted; `ready` is called once it can be reached. Raises Invalid with all problems."""
    session.project.load_plugins()
    if problems := problems_of(session.project, options.models.values()):
        raise Invalid(problems)
    begun: list[Execution] = []

    def serve(trial: Trial) -> NoReturn:
        """Serve as the agent of a trial that is never done."""
        server, token = EndpointServer(), options.token or new_token()
        calls = EndpointSession(token, trial.channel, ModelRoutes(options.models), lasting=True)
        try:
            server.open(calls)
            port = server.listen_loopback(options.port)
            ready(ServedEndpoint(f"http://127.0.0.1:{port}/{token}", token))
            while not (trial.channel.closed or any(one.state.stop for one in begun)):
                time.sleep(LOOK)
        except OSError as problem:
            raise Invalid(f"port {options.port}: {problem.strerror or problem}") from None
        finally:
            server.close(calls)
            server.stop()
        raise Abandoned("the endpoint was stopped")

    study = Study.assemble(
        {
            "name": options.name,
            "agent": serve,
            "version": "1",
            "cases": [{"input": options.name, "id": f"endpoint {options.name}"}],
            "budget": dict(options.budget),
            "policy": {"interruptions": MOST_INTERRUPTIONS},
        },
        [],
    )
    chosen = RunOptions(store=session, parallel=1, runner="local", progress=False, wait=options.wait)
    return execute(study, chosen, lambda one: begun.append(cast("Execution", one.execution)))
