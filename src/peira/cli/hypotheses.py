"""`peira hypotheses`: what became of what the study declared."""

from __future__ import annotations

from peira.api.look import Opened
from peira.cli.asked import show
from peira.cli.options import Json, RunName, Store


def hypotheses(run: RunName = "", store: Store = None, as_json: Json = False) -> None:
    """Say what became of the hypotheses that a study declared.

    Each is supported, rejected or undecided: by the declared test, at the declared alpha, with the declared
    correction over its plan. What a stopping rule followed is told as that rule saw it.

    \b
    Examples:
      peira hypotheses
      peira hypotheses 3f2a91 --json
    """
    opened = Opened(store)
    show(opened.results(run).hypotheses(), as_json)
