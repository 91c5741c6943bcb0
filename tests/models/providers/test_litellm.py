"""The bridge passes the same suite, where litellm is installed."""

from __future__ import annotations

import asyncio
from importlib.util import find_spec

import openai
import pytest

from peira.core.models import Answer, Model
from peira.errors import CallFailed, Invalid
from peira.models.providers.litellm import LitellmModel, _failure
from peira.testing.models import ModelSuite

INSTALLED = find_spec("litellm") is not None


@pytest.mark.skipif(not INSTALLED, reason="not installed: litellm")
@pytest.mark.filterwarnings("default")
class TestLitellm(ModelSuite):
    @pytest.fixture
    def endpoint(self, endpoint):
        return endpoint

    @pytest.fixture
    def model(self, endpoint) -> Model:
        return LitellmModel(f"openai/{endpoint.model}", base_url=f"{endpoint.base}/v1")


@pytest.mark.skipif(INSTALLED, reason="litellm is installed")
def test_a_missing_litellm_is_named() -> None:
    with pytest.raises(Invalid, match="pip install litellm"):
        LitellmModel("vendor/m").check()


class APIConnectionError(Exception):
    """As litellm raises it for everything that it does not know."""


def raised(behind: BaseException | None) -> CallFailed:
    try:
        try:
            if behind is not None:
                raise behind
        except BaseException as cause:
            raise APIConnectionError("litellm.APIConnectionError") from cause
        raise APIConnectionError("litellm.APIConnectionError")
    except APIConnectionError as problem:
        return _failure("litellm:v/m", problem)


def test_its_own_errors_are_no_calls_in_doubt() -> None:
    assert raised(ConnectionResetError("reset")).doubt
    assert raised(None).doubt  # nothing is known
    assert not raised(KeyError("tool_call_id")).doubt
    assert not raised(ValueError("no such parameter")).doubt


class ContentPolicyViolationError(openai.OpenAIError):
    """As litellm raises it for what a content filter refuses."""


class Refusing:
    async def acompletion(self, **_: object) -> None:
        raise ContentPolicyViolationError("it violates the policy")


def test_what_a_filter_refuses_is_a_refusal() -> None:
    model = LitellmModel("azure/gpt")
    answer = asyncio.run(model._outcome(Refusing(), {}))
    assert isinstance(answer, Answer)
    reply = model.read(answer)
    assert (reply.refusal, reply.finish) == ("it violates the policy", "refusal")
