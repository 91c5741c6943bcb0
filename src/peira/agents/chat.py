"""A chat model as agent: the case is rendered into a prompt, and the model is asked once."""

from __future__ import annotations

from typing import Any

from peira.core.ask import ask
from peira.core.context import SeenCase
from peira.core.ids import Json
from peira.core.models import Reply
from peira.core.registry import Registry
from peira.core.templates import Template


def chat(case: SeenCase, model: str, prompt: dict[str, Any]) -> Reply:
    """Ask the model the rendered prompt; its reply is the output.

    The prompt is a level of a factor and so, as a whole, part of the trial's identity.
    """
    return ask(model, rendered(case, prompt), system=prompt.get("system"), **prompt.get("parameters", {}))


def rendered(case: SeenCase, prompt: dict[str, Any]) -> str:
    """The text of the request; the case itself is never among its examples."""
    others = [example for example in prompt.get("solved", ()) if example["input"] != case.input]
    values: dict[str, Json] = {
        "input": case.input,
        "id": case.id,
        "slice": case.slice,
        "metadata": case.metadata,
        "examples": others[: prompt.get("shots", 0)],
    }
    return Template(prompt["template"]).render(values)


def register(registry: Registry) -> None:
    """Register the agent of benchmarks."""
    registry.add("prompted", "chat", chat)
