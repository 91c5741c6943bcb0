"""Mathematics benchmarks: the answer is a number or an expression."""

from __future__ import annotations

from peira.spec.benchmark import Benchmark, Prompt
from peira.spec.query import Query

FINAL = "{{ answer.split('####')[-1].strip() }}"
NUMBER = {
    "name": "first_of",
    "steps": [{"name": "number_after", "marker": "####"}, {"name": "last_number"}],
}


def _number_prompts() -> tuple[Prompt, ...]:
    """Prompts for answers that are numbers: step by step, number only, few-shot."""
    return (
        Prompt(
            name="steps",
            template="{{ input }}\n\nThink step by step. Then write a last line with #### and the "
            "final number alone.",
        ),
        Prompt(name="plain", template="{{ input }}\n\nAnswer with the final number only."),
        Prompt(
            name="few_shot",
            template="{% for example in examples %}Question: {{ example.input }}\n"
            "Answer: {{ example.output }}\n\n{% endfor %}Question: {{ input }}\nAnswer:",
            shots=8,
        ),
    )


def _boxed_prompts() -> tuple[Prompt, ...]:
    r"""Prompts for answers in \boxed{}: step by step, answer only."""
    return (
        Prompt(
            name="steps",
            template="{{ input }}\n\nReason step by step, and put your final answer within \\boxed{}.",
        ),
        Prompt(
            name="plain", template="{{ input }}\n\nPut your final answer, and nothing else, within \\boxed{}."
        ),
    )


def gsm8k() -> Benchmark:
    """GSM8K: grade school word problems."""
    source = {
        "dataset": "openai/gsm8k",
        "config": "main",
        "revision": "cc7b047b6e5bb11b4f1af84efc572db110a51b3c",
        "input": "question",
    }
    return Benchmark(
        name="gsm8k",
        title="GSM8K: grade school mathematics in words",
        data=Query(**source, expected=FINAL),
        examples=Query(**source, split="train", expected="answer"),
        prompts=_number_prompts(),
        transform=NUMBER,
        evaluators=("numeric",),
        homepage="https://github.com/openai/grade-school-math",
        licence="MIT",
    )


def gsm_symbolic() -> Benchmark:
    """GSM-Symbolic: GSM8K problems with other names and numbers; variations are a cluster."""
    source = {"dataset": "apple/GSM-Symbolic", "config": "main", "input": "question"}
    return Benchmark(
        name="gsm_symbolic",
        title="GSM-Symbolic: problems of GSM8K with other names and numbers",
        description="The variations of one problem are a cluster.",
        data=Query(**source, expected=FINAL, cluster="original_id", id="{{ id }}-{{ instance }}"),
        examples=Query(**source, expected="answer"),
        prompts=_number_prompts(),
        transform=NUMBER,
        evaluators=("numeric",),
        homepage="https://huggingface.co/datasets/apple/GSM-Symbolic",
        licence="CC BY-NC-ND 4.0",
    )


def math500() -> Benchmark:
    """MATH-500: a sample of 500 competition problems."""
    return Benchmark(
        name="math500",
        title="MATH-500: competition problems, a sample of 500",
        data=Query(
            dataset="HuggingFaceH4/MATH-500",
            revision="6e4ed1a2a79af7d8630a6b768ec859cb5af4d3be",
            input="problem",
            expected="${{ answer }}$",
            id="unique_id",
            slice="subject",
            metadata=["level"],
        ),
        slices={"hard": "level == 5", "easy": "level <= 2"},
        prompts=_boxed_prompts(),
        evaluators=("math_equal",),
        homepage="https://github.com/openai/prm800k",
        licence="MIT",
    )


def competition_math() -> Benchmark:
    """MATH: competition problems with worked solutions."""
    return Benchmark(
        name="competition_math",
        title="MATH: competition problems with worked solutions",
        description="What is expected is what the worked solution puts in its last box.",
        data=Query(
            dataset="qwedsacf/competition_math",
            split="train",
            input="problem",
            expected="solution",
            slice="type",
            metadata=["level"],
        ),
        slices={"hard": "level == 'Level 5'", "easy": "level in ['Level 1', 'Level 2']"},
        prompts=_boxed_prompts(),
        evaluators=("math_equal",),
        homepage="https://github.com/hendrycks/math",
        licence="MIT",
    )


ALL = (gsm8k, gsm_symbolic, math500, competition_math)
