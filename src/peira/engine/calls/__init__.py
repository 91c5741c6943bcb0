"""Calls of models: the ledger, the purchase of one answer, rate limits, budgets.

Imported at a run's first call: most of it is of no use to a run that asks no model.
"""

from __future__ import annotations

from peira.core.lazy import lazy_imports

with lazy_imports(__name__):
    from peira.engine.calls.budget import LIMITS as LIMITS
    from peira.engine.calls.budget import Account as Account
    from peira.engine.calls.budget import stated_output as stated_output
    from peira.engine.calls.ledger import Ledger as Ledger
    from peira.engine.calls.open_calls import CallState as CallState
    from peira.engine.calls.open_calls import QueueTime as QueueTime
    from peira.engine.calls.purchase import CallRequest as CallRequest
