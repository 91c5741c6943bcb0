"""`template` is an agent."""

from __future__ import annotations

import pytest
from peira_extras.agent import TemplateAgent

from peira.errors import Invalid
from peira.testing import AgentSuite

TEXT = "{greeting}: {input}"


class TestTemplateAgent(AgentSuite):
    condition = {"greeting": "Good day"}  # noqa: RUF012

    @pytest.fixture
    def agent(self) -> TemplateAgent:
        return TemplateAgent("template", TEXT)

    @pytest.fixture
    def twin(self) -> TemplateAgent:
        return TemplateAgent("template", TEXT)

    def test_it_fills_its_text(self, agent: TemplateAgent) -> None:
        assert self.output(agent, self.trial()) == "Good day: What is the answer?"


def test_wrong_options_are_refused() -> None:
    with pytest.raises(Invalid, match="template: '0' is no name of a factor"):
        TemplateAgent("template", "{0}")
