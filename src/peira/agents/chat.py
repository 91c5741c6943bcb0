"""A chat model as agent: the case is put into a prompt, and the model is asked once."""

from __future__ import annotations

from typing import Any

from peira.core.asking import ask
from peira.core.context import SeenCase
from peira.core.ids import Json
from peira.core.models import Reply
from peira.core.registry import Registry
from peira.core.templates import Template


def chat(case: SeenCase, model: str, prompt: dict[str, Any]) -> Reply:
    """Ask the model what the prompt makes of the case; its reply is the output.

    The prompt is a level of a factor and so, whole, part of what the trial is.
    """
    return ask(model, rendered(case, prompt), system=prompt.get("system"), **prompt.get("parameters", {}))


def rendered(case: SeenCase, prompt: dict[str, Any]) -> str:
    """The text that the model is asked. The case itself is never among its examples."""
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
    registry.add("prompted", "chat", chat)
