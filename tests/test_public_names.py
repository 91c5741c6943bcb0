"""The public names of `peira`: pinned, sorted, and there."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Mapping
from inspect import isfunction
from pathlib import Path
from typing import Any, get_type_hints

import pytest

import peira

PUBLIC = [
    "AnalysisPlan",
    "Benchmark",
    "Block",
    "Budget",
    "Case",
    "Constraint",
    "Design",
    "Factor",
    "Hypothesis",
    "Level",
    "NoVerdict",
    "Outcome",
    "Output",
    "PeiraError",
    "Policy",
    "Reply",
    "Results",
    "Storage",
    "Stream",
    "Study",
    "after",
    "agent",
    "ask",
    "ask_async",
    "ask_person",
    "bundle_export",
    "bundle_import",
    "bundle_work",
    "cases_from",
    "command",
    "contest",
    "conversation",
    "cron",
    "current_trial",
    "diff",
    "entry_streams",
    "estimate",
    "evaluate",
    "every",
    "exact",
    "fanout",
    "files",
    "generate",
    "goal",
    "graph",
    "import_outputs",
    "includes",
    "judge",
    "match",
    "mcp",
    "numeric",
    "open",
    "pairwise",
    "panel",
    "person",
    "plan",
    "python",
    "regex",
    "run",
    "run_async",
    "script",
    "serve",
    "session",
    "shell",
    "simulated",
    "step",
    "stream",
    "study",
    "submit",
    "transform",
    "unit",
    "webhook",
]


def test_what_is_public_is_pinned_and_sorted() -> None:
    assert peira.__all__ == sorted(PUBLIC)
    assert set(PUBLIC) <= set(dir(peira))
    for name in PUBLIC:
        assert getattr(peira, name).__module__.startswith("peira"), name


def test_what_checkers_see_is_what_is_there() -> None:
    tree = ast.parse(Path(peira.__file__).read_text())
    seen = {
        alias.name: node.module
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("peira.")
        for alias in node.names
    }
    assert seen.pop("lazy_imports") == "peira.core.lazy"
    assert seen == peira.room_of


def test_the_types_that_public_functions_name_can_be_found() -> None:
    for name in PUBLIC:
        get_type_hints(getattr(peira, name))
    hints = get_type_hints(peira.run)
    assert hints["return"] is peira.Results
    assert hints["policy"] == peira.Policy | Mapping[str, Any] | None


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        _ = peira.nonsense  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    "before",
    ["import peira.plan.expansion", "from peira.plan import expansion", "import peira.app", "import peira"],
)
def test_plan_is_the_function_whatever_was_imported_before(before: str) -> None:
    code = f"{before}\nfrom peira import plan\nimport peira.plan.expansion\nimport peira\n"
    code += "assert callable(plan) and peira.plan is plan, peira.plan"
    subprocess.run([sys.executable, "-c", code], check=True)
    assert isfunction(peira.plan)


def test_importing_peira_opens_no_room_but_the_door() -> None:
    code = "import sys, peira; print([m for m in sys.modules if m.startswith(('peira.', 'pydantic'))])"
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert done.stdout.strip() == "['peira.core', 'peira.core.lazy']"
