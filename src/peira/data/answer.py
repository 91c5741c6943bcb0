"""The evaluator `answer`: another one, of the answer that a transform finds in the output.

The output itself stays what the model said; what is found in it is found anew whenever it is judged.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from peira.core.contracts import Evaluator
from peira.core.ids import Json
from peira.core.transforms import Transform, as_transform
from peira.errors import Invalid
from peira.spec.evaluators import as_evaluator


@dataclass(frozen=True)
class Answer:
    """Judges what a transform finds; no answer is judged as the evaluator judges none."""

    transform: Transform
    evaluator: Evaluator
    name = "answer"

    @property
    def asynchronous(self) -> bool:
        return self.evaluator.asynchronous

    @property
    def takes(self) -> frozenset[str]:
        return self.evaluator.takes

    @property
    def identity(self) -> Json:
        """With a config that a file can hold, if both parts have one."""
        parts = {"transform": self.transform.identity, "evaluator": self.evaluator.identity}
        written = {role: _written(getattr(self, role)) for role in parts}
        config = {} if None in written.values() else {"config": written}
        return {"evaluator": self.name, "parts": parts, **config}

    def judge(self, facts: Mapping[str, Any]) -> Any:
        return self.evaluator.judge({**facts, "output": self.transform.apply(facts["output"])})


def _written(part: Transform | Evaluator) -> Json:
    config = part.identity.get("config") if isinstance(part.identity, Mapping) else None
    return {"name": part.name, **config} if isinstance(config, Mapping) else None


def answer(transform: Any, evaluator: Any) -> Answer:
    """`answer("last_number", "numeric")`: the last number in the output is the one that is expected."""
    judge = as_evaluator(evaluator)
    if "output" not in judge.takes:
        raise Invalid(f"answer: {judge.name} does not look at the output")
    return Answer(as_transform(transform), judge)
