"""Prices of models: from the table of genai-prices, or from the project file.

Nothing is fetched: the table is as old as the installed package, and its `source` says so. A model that is
not in it has no price, which is not the same as free; models on this machine are free.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
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
"""Providers that have another name in the table."""
HERE = ("local", "ollama", "scripted", "replay")
"""Providers that are free of charge."""
RATES = ("input", "output", "cached", "written", "written_long", "request", "batch")
"""Keys of a price in the project file."""
HALF = ("openai", "anthropic", "google", "groq", "mistral")
"""Providers that charge half the price for batches."""


@dataclass(frozen=True, slots=True)
class Rates:
    """A price: US dollars for a million tokens, and for each request.

    `cached` and `written` are for input tokens read from and written to the provider's cache (None: as other
    input), `written_long` for those written to be kept for long (None: LONG times `written`); `batch` is the
    fraction of the price that is paid in a batch.
    """

    input: float = 0.0
    output: float = 0.0
    cached: float | None = None
    written: float | None = None
    written_long: float | None = None
    request: float = 0.0
    batch: float = 0.5
    source: str = "peira.toml"

    def cost(self, usage: Usage) -> float | None:
        """The cost of a call in US dollars; None if the usage is not known."""
        if (self.input and usage.input is None) or (self.output and usage.output is None):
            return None
        cached, written, long = usage.cached or 0, usage.written or 0, usage.written_long or 0
        short_rate = self.input if self.written is None else self.written
        long_rate = short_rate * (1 if self.written is None else LONG)
        tokens = (
            ((usage.input or 0) - cached - written) * self.input
            + cached * (self.input if self.cached is None else self.cached)
            + (written - long) * short_rate
            + long * (long_rate if self.written_long is None else self.written_long)
            + (usage.output or 0) * self.output
        )
        return tokens / MILLION + self.request


LONG = 1.6
"""The price of writing to a cache for an hour, as a multiple of that for five minutes: 2 / 1.25."""

FREE = Rates(source="runs on this machine")


@dataclass(frozen=True, slots=True)
class Listed:
    """The price of a model in the table of genai-prices; `window` is its context window, if that is known."""

    provider: str
    model: str
    window: int | None = None

    @property
    def source(self) -> str:
        """The table's version."""
        return table()

    @property
    def batch(self) -> float:
        """The fraction of the price that is paid in a batch."""
        return 0.5 if self.provider in HALF else 1.0

    def cost(self, usage: Usage) -> float | None:
        """The cost of a call in US dollars; None if the usage is not known."""
        if usage.input is None or usage.output is None:
            return None
        from genai_prices import Usage as Tokens  # slow to import (0.25 s)
        from genai_prices import calc_price

        tokens = Tokens(
            input_tokens=usage.input,
            output_tokens=usage.output,
            cache_read_tokens=usage.cached or 0,
            cache_write_tokens=usage.written or 0,
        )
        total = float(calc_price(tokens, self.model, provider_id=self.provider).total_price)
        if not usage.written_long:
            return total
        plain, stored = (
            float(calc_price(part, self.model, provider_id=self.provider).total_price)
            for part in (
                Tokens(input_tokens=usage.written_long),
                Tokens(input_tokens=usage.written_long, cache_write_tokens=usage.written_long),
            )
        )
        return total + (LONG - 1) * stored if stored > plain else total


@lru_cache(1)
def table() -> str:
    """The table's version. It has no date: the newest price change in it stands for one."""
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


def price_of(provider: str, model: str, given: object = None, vendor: str = "") -> Price | None:
    """The price of a model: as given, or from the table (of its `vendor` first); None if it is unknown."""
    if given is not None:
        return _given(f"{provider}:{model}", given)
    if provider in HERE:
        return FREE
    names = dict.fromkeys(KNOWN_AS.get(name, name) for name in (vendor, provider) if name)
    return next((price for name in names if (price := _listed(name, model)) is not None), None)


@lru_cache(1024)
def _listed(provider: str, model: str) -> Listed | None:
    """The model's price in the table, cached; None if there is none."""
    from genai_prices import Usage as Tokens
    from genai_prices import calc_price

    if provider == "litellm":
        provider, _, model = model.partition("/")
    try:
        found = calc_price(Tokens(input_tokens=1, output_tokens=1), model, provider_id=provider)
    except LookupError:
        return None
    return Listed(provider, model, found.model.context_window)


SOLD_AS: Mapping[str, str] = {known: name for name, known in KNOWN_AS.items()}
"""Providers of the table by the names that they have here."""
OWN_MODELS = {"google": ("gemini", "gemma", "learnlm")}
"""Providers of which only models with these names can be asked here."""


def sellers(model: str, providers: Collection[str]) -> list[str]:
    """The full names ("provider:model") under which these providers sell a model, by the table.

    The provider of that very name comes first; resellers name the vendor before it ("openai/gpt-4o").
    """
    from genai_prices.data import providers as listed

    found = []
    for one in listed:
        name = SOLD_AS.get(one.id, one.id)
        if name not in providers or not model.startswith(OWN_MODELS.get(one.id, "")):
            continue
        if _listed(one.id, model) is not None:
            found.append(f"{name}:{model}")
        else:
            found += [f"{name}:{each.id}" for each in one.models if each.id.endswith(f"/{model}")]
    return sorted(found, key=lambda full: ("/" in full, full))


def _given(who: str, given: object) -> Rates:
    """A price from the project file; Invalid with every problem."""
    if not isinstance(given, Mapping):
        raise Invalid(f"{who}: price: give dollars for a million tokens, like {{input = 0.25, output = 2}}")
    problems = [f"{who}: price: no {key!r}{nearest(key, RATES)}" for key in given if key not in RATES]
    problems += [
        f"{who}: price.{key}: not {amount!r}" for key, amount in given.items() if not _amount(amount)
    ]
    if problems:
        raise Invalid(problems)
    amounts: dict[str, Any] = {key: float(value) for key, value in given.items()}
    return Rates(**amounts)


def _amount(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and 0 <= value < 1e9
