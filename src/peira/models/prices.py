"""What models cost: the table that comes with genai-prices, or what the project file says instead.

Nothing is fetched: the table is as old as the installed package, and says so. A model that is not in it
has no price, which is not the same as costing nothing; models on this machine do cost nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date
from functools import lru_cache
from importlib.metadata import version
from typing import Any

from peira.core.models import Price, Usage
from peira.core.registry import nearest
from peira.errors import Invalid

MILLION = 1_000_000
KNOWN_AS: Mapping[str, str] = {"gemini": "google", "xai": "x-ai"}
"""Providers that the table knows by another name."""
HERE = ("local", "ollama", "scripted", "replay")
"""Providers that send no bill."""
RATES = ("input", "output", "cached", "written", "request", "batch")
HALF = ("openai", "anthropic", "google", "groq", "mistral")
"""Providers that take half the price for what is handed in as a batch."""


@dataclass(frozen=True, slots=True)
class Rates:
    """US dollars for a million tokens (of input, output, input read from and written to the provider's
    cache), and for each request; `batch` is the share of it that is paid in a batch."""

    input: float = 0.0
    output: float = 0.0
    cached: float | None = None
    written: float | None = None
    request: float = 0.0
    batch: float = 0.5
    source: str = "peira.toml"

    def cost(self, usage: Usage) -> float | None:
        if (self.input and usage.input is None) or (self.output and usage.output is None):
            return None
        cached, written = usage.cached or 0, usage.written or 0
        tokens = (
            ((usage.input or 0) - cached - written) * self.input
            + cached * (self.input if self.cached is None else self.cached)
            + written * (self.input if self.written is None else self.written)
            + (usage.output or 0) * self.output
        )
        return tokens / MILLION + self.request


FREE = Rates(source="runs on this machine")


@dataclass(frozen=True, slots=True)
class Listed:
    """A model of the table."""

    provider: str
    model: str

    @property
    def source(self) -> str:
        return table()

    @property
    def batch(self) -> float:
        return 0.5 if self.provider in HALF else 1.0

    def cost(self, usage: Usage) -> float | None:
        if usage.input is None or usage.output is None:
            return None
        from genai_prices import Usage as Tokens  # a quarter of a second to import
        from genai_prices import calc_price

        tokens = Tokens(
            input_tokens=usage.input,
            output_tokens=usage.output,
            cache_read_tokens=usage.cached or 0,
            cache_write_tokens=usage.written or 0,
        )
        return float(calc_price(tokens, self.model, provider_id=self.provider).total_price)


@lru_cache(1)
def table() -> str:
    """Which table it is. It carries no date: the newest change of a price in it stands for one."""
    from genai_prices.data import providers

    today = date.today()
    changes = [
        constraint.start_date
        for provider in providers
        for model in provider.models
        if isinstance(model.prices, list)
        for price in model.prices
        if (constraint := price.constraint) is not None and hasattr(constraint, "start_date")
    ]
    newest = max((change for change in changes if change <= today), default=None)
    return f"genai-prices {version('genai-prices')}" + (f", changes up to {newest}" if newest else "")


def price_of(provider: str, model: str, given: object = None) -> Price | None:
    """The price of a model: as given, or of the table; None if it is in neither."""
    if given is not None:
        return _given(f"{provider}:{model}", given)
    return FREE if provider in HERE else _listed(KNOWN_AS.get(provider, provider), model)


@lru_cache(1024)
def _listed(provider: str, model: str) -> Listed | None:
    from genai_prices import Usage as Tokens
    from genai_prices import calc_price

    if provider == "litellm":
        provider, _, model = model.partition("/")
    try:
        calc_price(Tokens(input_tokens=1, output_tokens=1), model, provider_id=provider)
    except LookupError:
        return None
    return Listed(provider, model)


def _given(who: str, given: object) -> Rates:
    if not isinstance(given, Mapping):
        raise Invalid(f"{who}: price: give dollars for a million tokens, like {{input = 0.25, output = 2}}")
    problems = [f"{who}: price: no {key!r}{nearest(key, RATES)}" for key in given if key not in RATES]
    problems += [f"{who}: price.{key}: not {said!r}" for key, said in given.items() if not _amount(said)]
    if problems:
        raise Invalid(problems)
    amounts: dict[str, Any] = {key: float(value) for key, value in given.items()}
    return Rates(**amounts)


def _amount(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and 0 <= value < 1e9
