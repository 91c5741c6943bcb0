# ruff: noqa: E501
"""Makes the recorded files of other tools, each in an environment of its own that has that tool.

    pip install inspect-ai openai && python make.py inspect
    pip install lm-eval           && python make.py lm_eval
    npm install promptfoo         && python make.py promptfoo     # in the folder that has node_modules
    pip install deepeval          && python make.py deepeval

No model is asked: replies are scripted. Each writes into the folder of this file.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent


def inspect() -> None:
    """`sums.eval` and `sums.json`: the same task, logged in both formats."""
    from inspect_ai import Task, eval, task
    from inspect_ai.dataset import Sample
    from inspect_ai.log import write_eval_log
    from inspect_ai.model import (
        ChatCompletionChoice,
        ChatMessageAssistant,
        ChatMessageTool,
        ContentReasoning,
        ContentText,
        ModelOutput,
        ModelUsage,
    )
    from inspect_ai.scorer import Score, Target, accuracy, match, mean, scorer
    from inspect_ai.solver import Generate, TaskState, solver
    from inspect_ai.tool import ToolCall

    @scorer(metrics=[mean()])
    def verdict():  # type: ignore[no-untyped-def]
        async def score(state: TaskState, target: Target) -> Score:
            if state.sample_id == "unscored":
                return Score.unscored(explanation="the judge did not answer")
            return Score(value="C", answer=state.output.completion, explanation=f"says {target.text}")

        return score

    @scorer(metrics={"*": [mean()]})
    def parts():  # type: ignore[no-untyped-def]
        async def score(state: TaskState, target: Target) -> Score:
            return Score(value={"short": 1, "polite": 0.5})

        return score

    @scorer(metrics=[])
    def label():  # type: ignore[no-untyped-def]
        async def score(state: TaskState, target: Target) -> Score:
            return Score(value="friendly", metadata={"by": "rule"})

        return score

    @scorer(metrics=[])
    def several():  # type: ignore[no-untyped-def]
        async def score(state: TaskState, target: Target) -> Score:
            return Score(value=[1, 0, 1])

        return score

    @solver
    def scripted():  # type: ignore[no-untyped-def]
        async def solve(state: TaskState, generate: Generate) -> TaskState:
            if state.sample_id == "broken":
                raise RuntimeError("the tool is broken")
            call = ToolCall(id="call-1", function="add", arguments={"a": 1, "b": 2})
            state.messages.append(ChatMessageAssistant(content="", tool_calls=[call]))
            state.messages.append(ChatMessageTool(content="3", tool_call_id="call-1", function="add"))
            thought = ContentReasoning(reasoning="one and two are three", signature="sig")
            said = ChatMessageAssistant(content=[thought, ContentText(text="The sum is 3.")])
            state.messages.append(said)
            usage = ModelUsage(
                input_tokens=10,
                output_tokens=7,
                total_tokens=17,
                input_tokens_cache_read=4,
                input_tokens_cache_write=2,
                reasoning_tokens=3,
            )
            choice = ChatCompletionChoice(message=said, stop_reason="max_tokens")
            state.output = ModelOutput(model="mockllm/model", choices=[choice], usage=usage)
            return state

        return solve

    @task
    def sums() -> Task:
        samples = [
            Sample(input="What is 1 + 2?", target="3", id="plain", metadata={"level": 1}),
            Sample(input="Which is 3?", target="B", id="choice", choices=["2", "3"]),
            Sample(input="What is 0 + 3?", target="3", id="unscored"),
            Sample(input="What is 4 - 1?", target="3", id="broken"),
        ]
        scorers = [match(numeric=True), verdict(), parts(), label(), several()]
        return Task(dataset=samples, solver=scripted(), scorer=scorers, metrics=[accuracy()])

    [log] = eval(
        sums(), model="mockllm/model", log_dir="/tmp/inspect-logs", fail_on_error=False, display="none"
    )
    told = log.model_dump_json().replace(str(HERE), "/files").replace(sys.prefix, "/environment")
    for form in ("eval", "json"):
        write_eval_log(type(log).model_validate_json(told), str(HERE / f"sums.{form}"))


GSM = """\
task: sums
dataset_path: json
dataset_kwargs: {{data_files: {{test: {folder}/sums.jsonl}}}}
test_split: test
output_type: generate_until
doc_to_text: "Question: {{{{question}}}}\\nAnswer:"
doc_to_target: "{{{{answer}}}}"
generation_kwargs: {{until: ["Question:"], do_sample: false}}
metric_list: [{{metric: exact_match, aggregation: mean, higher_is_better: true}}]
filter_list:
  - {{name: strict-match, filter: [{{function: regex, regex_pattern: "#### (\\\\d+)"}}, {{function: take_first}}]}}
  - {{name: flexible-extract, filter: [{{function: regex, group_select: -1, regex_pattern: "(\\\\d+)"}}, {{function: take_first}}]}}
"""
CHOICE = """\
task: which
dataset_path: json
dataset_kwargs: {{data_files: {{test: {folder}/which.jsonl}}}}
test_split: test
output_type: multiple_choice
doc_to_text: "{{{{question}}}}"
doc_to_choice: "{{{{choices}}}}"
doc_to_target: label
metric_list: [{{metric: acc, aggregation: mean, higher_is_better: true}}, {{metric: acc_norm, aggregation: mean, higher_is_better: true}}]
"""
ROLLING = """\
task: prose
dataset_path: json
dataset_kwargs: {{data_files: {{test: {folder}/prose.jsonl}}}}
test_split: test
output_type: loglikelihood_rolling
doc_to_text: ""
doc_to_target: "{{{{text}}}}"
metric_list: [{{metric: word_perplexity}}, {{metric: bits_per_byte}}]
"""


def lm_eval() -> None:
    """Samples of three tasks (two filters, choices, perplexity), and the results beside them."""
    import tempfile

    from lm_eval import simple_evaluate
    from lm_eval.api.model import LM
    from lm_eval.loggers import EvaluationTracker
    from lm_eval.tasks import TaskManager

    class Scripted(LM):
        def generate_until(self, requests: Any, disable_tqdm: bool = False) -> list[str]:
            return ["It is 3." if "1 + 2" in one.args[0] else "So #### 9" for one in requests]

        def loglikelihood(self, requests: Any, disable_tqdm: bool = False) -> list[tuple[float, bool]]:
            return [(-0.5 * len(one.args[1]), len(one.args[1]) < 4) for one in requests]

        def loglikelihood_rolling(self, requests: Any, disable_tqdm: bool = False) -> list[float]:
            return [-2.0 * len(one.args[0].split()) for one in requests]

    data = {
        "sums": [{"question": "1 + 2?", "answer": "3"}, {"question": "4 + 5?", "answer": "9"}],
        "which": [{"question": "Colder?", "choices": ["ice", "steam"], "label": 0}],
        "prose": [{"text": "a few plain words"}],
    }
    with tempfile.TemporaryDirectory() as folder:
        for name, rows in data.items():
            text = "".join(json.dumps(row) + "\n" for row in rows)
            (Path(folder) / f"{name}.jsonl").write_text(text)
        for name, written in {"sums": GSM, "which": CHOICE, "prose": ROLLING}.items():
            (Path(folder) / f"{name}.yaml").write_text(written.format(folder=folder))
        manager = TaskManager(include_path=folder, include_defaults=False)
        found = simple_evaluate(
            Scripted(), tasks=list(data), task_manager=manager, log_samples=True, bootstrap_iters=0
        )
        tracker = EvaluationTracker(output_path=str(HERE / "lm_eval"))
        tracker.general_config_tracker.model_name = "org/scripted"
        tracker.general_config_tracker.model_name_sanitized = "org__scripted"
        samples = found.pop("samples")
        tracker.save_results_aggregated(results=found, samples=samples)
        for name in data:
            tracker.save_results_samples(task_name=name, samples=samples[name])
        for path in (HERE / "lm_eval" / "org__scripted").glob("results_*.json"):
            path.write_text(path.read_text().replace(folder, "/files"))


PROVIDER = """\
module.exports = class {
  id() { return 'scripted'; }
  async callApi(prompt) {
    if (prompt.includes('nowhere')) return { error: 'no route' };
    const tokenUsage = { total: 12, prompt: 9, completion: 3 };
    const output = prompt.includes('France') ? 'Paris' : 'It is Lima.';
    return { output, tokenUsage, cost: 0.001, finishReason: 'stop' };
  }
};
"""
CONFIG = {
    "description": "capitals",
    "prompts": [
        "Capital of {{country}}?",
        {"id": "brief", "label": "brief", "raw": "Only {{country}}'s capital:"},
    ],
    "providers": [{"id": "file://scripted.js", "label": name} for name in ("small", "large")],
    "tests": [
        {
            "description": "france",
            "vars": {"country": "France"},
            "assert": [
                {"type": "equals", "value": "Paris"},
                {"type": "icontains", "value": "x", "metric": "says"},
            ],
        },
        {"vars": {"country": "Peru"}, "assert": [{"type": "contains", "value": "Lima"}]},
        {"vars": {"country": "nowhere"}, "assert": [{"type": "equals", "value": "x"}]},
    ],
}


def promptfoo() -> None:
    """`promptfoo.json`: two providers, two prompts, three tests, two repeats."""
    Path("scripted.js").write_text(PROVIDER)
    Path("config.json").write_text(json.dumps(CONFIG))
    quiet = {
        "PROMPTFOO_DISABLE_TELEMETRY": "1",
        "PROMPTFOO_DISABLE_UPDATE": "1",
        "PROMPTFOO_CONFIG_DIR": ".state",
    }
    command = [
        "npx",
        "promptfoo",
        "eval",
        "-c",
        "config.json",
        "-o",
        "out.json",
        "--no-cache",
        "--repeat",
        "2",
    ]
    subprocess.run(command, env={**os.environ, **quiet}, check=False)  # it fails because a test does
    written = Path("out.json").read_text().replace(str(Path.cwd()), "/files")
    (HERE / "promptfoo.json").write_text(written)


def deepeval() -> None:
    """`deepeval.json`: a test run of two cases, with a metric that scores and one that fails."""
    from deepeval.evaluate.utils import create_metric_data
    from deepeval.metrics import BaseMetric
    from deepeval.test_case import LLMTestCase, ToolCall
    from deepeval.test_case.api import create_api_test_case
    from deepeval.test_run.test_run import TestRun

    class Short(BaseMetric):
        threshold, async_mode, error = 0.5, False, None
        evaluation_model, strict_mode, evaluation_cost, verbose_logs = None, False, None, None
        include_reason, skipped = True, False

        def measure(self, case: Any, *args: Any, **kwargs: Any) -> float:
            self.score = 1.0 if len(case.actual_output) < 8 else 0.25
            self.success, self.reason = self.score >= 0.5, f"{len(case.actual_output)} characters"
            return self.score

        def is_successful(self) -> bool:
            return bool(self.success)

        @property
        def __name__(self) -> str:
            return "Short"

    class Broken(Short):
        @property
        def __name__(self) -> str:
            return "Broken"

    cases = [
        LLMTestCase(
            input="Capital of France?", actual_output="Paris", expected_output="Paris", name="france"
        ),
        LLMTestCase(
            input="Capital of Peru?",
            actual_output="It is Lima, of course.",
            expected_output="Lima",
            name="peru",
            retrieval_context=["Lima is the capital of Peru."],
            tools_called=[ToolCall(name="search", input_parameters={"q": "Peru"})],
            token_cost=0.002,
            completion_time=1.5,
        ),
    ]
    run = TestRun(testCases=[], hyperparameters={"model": "scripted", "temperature": "0"})
    for index, case in enumerate(cases):
        made = create_api_test_case(test_case=case, index=index)
        for metric in (Short(), Broken()):
            metric.measure(case)
            if isinstance(metric, Broken):
                metric.error, metric.score = "the judge timed out", None
            made.update_metric_data(create_metric_data(metric))
        run.add_test_case(made)
    with (HERE / "deepeval.json").open("w") as file:
        run.save(file)


if __name__ == "__main__":
    tools = {"inspect": inspect, "lm_eval": lm_eval, "promptfoo": promptfoo, "deepeval": deepeval}
    tools[sys.argv[1]]()
