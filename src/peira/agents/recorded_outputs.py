"""An agent that stands for outputs made elsewhere and imported; it is never executed."""

from __future__ import annotations

from typing import NoReturn

from peira.core.context import SeenCase
from peira.core.ids import Json
from peira.errors import Invalid


def recorded(case: SeenCase, **condition: Json) -> NoReturn:
    """Takes every factor; raises Invalid, because the output of this case was not imported."""
    under = ", ".join(f"{name}={value}" for name, value in condition.items())
    raise Invalid(
        f"no output of case {case.id!r}{f' under {under}' if under else ''} was imported, and nobody here "
        "can make one: import it with `peira import`"
    )
