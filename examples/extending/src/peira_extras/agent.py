"""`template`: an agent that fills a text with the input of the case and with factors."""

from __future__ import annotations

from string import Formatter

from peira.core.context import Trial
from peira.core.ids import Json
from peira.core.registry import Registry
from peira.errors import Invalid


class TemplateAgent:
    """It takes the factors that its text names."""

    asynchronous = False

    def __init__(self, label: str, text: str) -> None:
        fields = {name for _, name, _, _ in Formatter().parse(text) if name is not None}
        if wrong := [name for name in sorted(fields) if not name.isidentifier()]:
            raise Invalid(f"template: {wrong[0]!r} is no name of a factor")
        self.label, self.text = label, text
        self.takes = frozenset(fields - {"input"})

    @property
    def identity(self) -> Json:
        """Trials are generated again when this changes."""
        return {"agent": "template", "label": self.label, "text": self.text, "version": 1}

    def invoke(self, trial: Trial) -> str:
        return self.text.format(input=trial.case.input, **trial.condition)


def register(registry: Registry) -> None:
    registry.add("agent", "template", TemplateAgent)
