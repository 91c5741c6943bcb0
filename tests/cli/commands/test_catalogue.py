"""`peira list`: what can be named, and the keys of models in the project file."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from peira.app.catalogue import LISTED, MEANINGS, model_keys


@pytest.mark.parametrize("kind", LISTED)
def test_everything_has_a_line(kind: str, spawn: Callable[..., Any]) -> None:
    """In a process of its own: other tests register plug-ins in theirs, some of which say nothing."""
    out, _ = spawn("list", kind, "--json").communicate()
    found = json.loads(out)["items"]
    assert len(found) > 1
    for one in found:
        assert one["about"]
        assert "partial(" not in one["about"]
        assert "\n" not in one["about"]
    assert len({one["name"] for one in found}) == len(found)


def test_lists_are_for_people_and_programs(peira: Callable[..., Any], folder: Path) -> None:
    (folder / "peira.toml").write_text('[models.mine]\nmodel = "scripted:x"\n')
    items = peira("list", "models", "--json").document["items"]
    assert items[0] == {"name": "mine", "about": "scripted:x, as the project file says"}
    assert "last_number" in peira("list", "transforms").out
    assert peira("list", "--json").document["kinds"]["recipes"] == 13
    assert peira("list", "evals").problems == ["peira: 'evals' cannot be listed; did you mean 'evaluators'?"]


def test_every_key_of_a_model_is_documented() -> None:
    keys = {one.key for one in model_keys()}
    assert keys == set(MEANINGS)
    page = (Path(__file__).parents[3] / "docs" / "models.md").read_text()
    for one in model_keys():
        assert f"| `{one.key}` |" in page


def test_what_a_list_names_is_accepted(folder: Path) -> None:
    for one in model_keys():
        assert one.meaning.endswith((".", "..."))
        assert one.providers


def test_prices_of_a_model_at_all_that_sell_it(peira: Callable[..., Any], folder: Path) -> None:
    (folder / "peira.toml").write_text(
        '[models.mine]\nmodel = "openai:own"\nprice = {input = 1, output = 2, request = 0.5}\n'
    )
    found = peira("prices", "gpt-4o", "mine", "openai:other", "--input", "2000", "--json").document["models"]
    assert [one["model"] for one in found] == [
        *("openai:gpt-4o", "openrouter:openai/gpt-4o"),
        *("mine", "openai:other"),
    ]
    own, unknown = found[-2:]
    assert (own["input"], own["output"], own["source"]) == (1, 2, "peira.toml")
    assert own["call"] == pytest.approx(0.5 + 0.002 + 0.001)
    assert own["total"] == pytest.approx(503)
    assert (unknown["call"], unknown["source"]) == (None, "not known")
    assert peira("prices", "--json").document["models"][0]["model"] == "mine"
    assert (
        peira("prices", "nobodys", "nor-this").problems[1].startswith("peira: model 'nor-this': no provider")
    )


def test_a_price_cannot_be_asked_of_no_model(peira: Callable[..., Any], folder: Path) -> None:
    assert peira("prices").problems == ["peira: prices: name a model; the project file has none"]
