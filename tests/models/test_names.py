from __future__ import annotations

import subprocess
import sys

import pytest

from peira.core.registry import Registry
from peira.errors import Invalid, Unknown
from peira.models import Timeouts, make, parse, register


@pytest.fixture
def registry() -> Registry:
    registry = Registry()
    register(registry)
    return registry


@pytest.mark.parametrize(
    ("name", "parts"),
    [
        ("openai:gpt-5-mini", ("openai", "gpt-5-mini")),
        ("openrouter:meta/llama-4:free", ("openrouter", "meta/llama-4:free")),
        ("local:/models/some.gguf", ("local", "/models/some.gguf")),
        ("scripted:", ("scripted", "")),
    ],
)
def test_a_name_has_a_provider_and_a_model(registry: Registry, name: str, parts: tuple[str, str]) -> None:
    assert parse(name, registry) == parts
    assert make(name, registry).name == name


def test_an_unknown_provider_and_the_nearest(registry: Registry) -> None:
    with pytest.raises(Unknown, match="no provider 'opnai' in model 'opnai:x'; did you mean 'openai'"):
        parse("opnai:x", registry)


def test_a_name_without_one_of_its_parts(registry: Registry) -> None:
    with pytest.raises(
        Invalid, match="names no provider; write 'openai:gpt-4o' or 'openrouter:openai/gpt-4o'"
    ):
        parse("gpt-4o", registry)
    with pytest.raises(Invalid, match="names no provider; write 'gemini:gemini-2"):
        parse("gemini-2.0-flash", registry)
    with pytest.raises(Invalid, match="names no provider; write 'provider:mine'"):
        parse("mine", registry)
    with pytest.raises(Invalid, match='write "openai:NAME"'):
        parse("openai:", registry)


def test_unknown_options_are_all_named(registry: Registry) -> None:
    with pytest.raises(Invalid) as refused:
        make("openai:m", registry, baseurl="x", steam=True)
    assert [problem.partition("; ")[2] for problem in refused.value.problems] == [
        "did you mean 'base_url'?",
        "did you mean 'stream'?",
    ]


def test_timeouts_come_as_a_table(registry: Registry) -> None:
    make("openai:m", registry, timeouts={"connect": 3})
    make("openai:m", registry, timeouts=Timeouts(connect=3))
    with pytest.raises(Invalid, match="did you mean 'first_byte'"):
        make("openai:m", registry, timeouts={"first_bite": 3})
    with pytest.raises(Invalid, match="timeouts"):
        make("openai:m", registry, timeouts={"connect": "soon"})


def test_registering_twice_is_no_quarrel(registry: Registry) -> None:
    register(registry)


def test_nothing_slow_is_imported_before_the_first_call() -> None:
    script = (
        "import sys, peira.models as m; from peira.core.registry import Registry\n"
        "r = Registry(); m.register(r)\n"
        "for name in ('openai:a', 'anthropic:b', 'local:smollm2'): m.make(name, r)\n"
        "slow = ('aiohttp', 'openai', 'anthropic', 'litellm', 'xllamacpp', 'llm', 'keyring')\n"
        "print([name for name in slow if name in sys.modules])"
    )
    said = subprocess.run([sys.executable, "-c", script], check=True, capture_output=True, text=True).stdout
    assert said == "[]\n"
