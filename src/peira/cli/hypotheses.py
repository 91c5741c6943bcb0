"""`peira hypotheses`: what became of what the study declared."""

from __future__ import annotations

from peira.analysis.aims import Aims
from peira.analysis.hypotheses import decide
from peira.api.look import Opened
from peira.cli.asked import show
from peira.cli.options import Json, RunName, Store


def hypotheses(run: RunName = "", store: Store = None, as_json: Json = False) -> None:
    """Say what became of the hypotheses that a study declared.

    Each is supported, rejected or undecided: by the declared test, at the declared alpha, with the declared
    correction over its plan.

    \b
    Examples:
      peira hypotheses
      peira hypotheses 3f2a91 --json
    """
    opened = Opened(store)
    results = opened.results(run)
    show(decide(results, Aims.of(opened.manifest(results.run_id).snapshot)), as_json)
