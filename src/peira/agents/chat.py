"""A chat model as agent: the case is rendered into a prompt, and the model is asked once."""

from __future__ import annotations

from typing import Any

from peira.core.ask import ask
from peira.core.chat.templates import Template, is_template
from peira.core.context import SeenCase
from peira.core.ids import Json
from peira.core.models import Reply
from peira.core.registry import Registry


def chat(case: SeenCase, model: str, prompt: dict[str, Any]) -> Reply:
    """Ask the model the rendered prompt; its reply is the output.

    The prompt is a level of a factor and so, as a whole, part of the trial's identity.
    """
    system = prompt.get("system")
    if system and is_template(system):
        system = Template(system).render(_values(case, prompt))
    return ask(model, rendered(case, prompt), system=system, **prompt.get("parameters", {}))


def rendered(case: SeenCase, prompt: dict[str, Any]) -> str | list[dict[str, Json]]:
    """The text of the request, or its messages."""
    values = _values(case, prompt)
    if "messages" not in prompt:
        return Template(prompt["template"]).render(values)
    return [{**one, "content": Template(one["content"]).render(values)} for one in prompt["messages"]]


def _values(case: SeenCase, prompt: dict[str, Any]) -> dict[str, Json]:
    """What templates may use; the case itself is never among its examples."""
    others = [example for example in prompt.get("solved", ()) if example["input"] != case.input]
    return {
        **prompt.get("variables", {}),
        "input": case.input,
        "id": case.id,
        "slice": case.slice,
        "metadata": case.metadata,
        "examples": others[: prompt.get("shots", 0)],
    }


def register(registry: Registry) -> None:
    """Register the agent of benchmarks."""
    registry.add("prompted", "chat", chat)
