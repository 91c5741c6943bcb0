"""Every problem of a study at once, one line each: `path: what is wrong; did you mean ...?`."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from peira.errors import Invalid
from peira.spec.load import load
from peira.spec.rules import broken_rules
from peira.spec.study import Study


def check(study: Study | Mapping[str, Any] | str | Path, base: Path | None = None) -> list[str]:
    """The problems of a study, of what would become one, or of a file; relative files lie under `base`."""
    if isinstance(study, Study):
        return list(broken_rules(study))
    try:
        if isinstance(study, Mapping):
            Study.assemble(study, [base or Path()])
        else:
            load(study, base)
    except Invalid as error:
        return list(error.problems)
    return []
