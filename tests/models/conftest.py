"""Tests that send over HTTP do it both ways: on direct connections and by plain sessions."""

from __future__ import annotations

import pytest

SENDING = ("test_anthropic", "test_batches", "test_hostile", "test_openai", "test_send", "test_suite")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if metafunc.module.__name__.rpartition(".")[2] in SENDING:
        metafunc.parametrize("way", ["direct", "session"], indirect=True)


@pytest.fixture(autouse=True)
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str | None:
    """How requests are sent; None where the test leaves the choice to peira."""
    chosen: str | None = getattr(request, "param", None)
    if chosen is not None:
        monkeypatch.setenv("PEIRA_HTTP", chosen)
    return chosen
