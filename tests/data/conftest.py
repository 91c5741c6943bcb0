"""The shelf of data, registered even where the installed peira does not offer it yet; and real data."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from peira.core.registry import registry
from peira.data import register

registry.load_module(register)
SHARED = Path(os.environ.get("PEIRA_SHARED_DATA") or Path(__file__).parents[2].parent / "shared" / "data")


@pytest.fixture
def gsm8k() -> Path:
    """The 1,319 test problems of GSM8K."""
    path = SHARED / "gsm8k" / "test.jsonl"
    if not path.exists():
        pytest.skip(f"there is no {path}; PEIRA_SHARED_DATA names the folder that holds gsm8k/test.jsonl")
    return path
