"""Benchmarks with text answers: reading comprehension (CoQA) and instruction following (IFEval)."""

from __future__ import annotations

from peira.spec.benchmark import Benchmark, Prompt
from peira.spec.query import Query

TURN = (
    "{{ story }}\n{% for question in questions[:nth] %}\nQ: {{ question }}\n"
    "A: {{ answers.input_text[loop.index0] }}{% endfor %}\nQ: {{ item }}"
)
ASKED = '{"ids": {{ instruction_id_list | tojson }}, "arguments": {{ kwargs | tojson }}}'


def coqa() -> Benchmark:
    """CoQA: conversations about a text; each turn is a case, each conversation a cluster."""
    return Benchmark(
        name="coqa",
        title="CoQA: conversations about a text",
        description="Each turn is a case, given the turns before it with their true answers. The turns of "
        "one conversation are a cluster. An answer is right if it includes the one expected.",
        data=Query(
            dataset="stanfordnlp/coqa",
            split="validation",
            each="questions",
            input=TURN,
            expected="{{ answers.input_text[nth] }}",
            cluster="{{ story[:200] }}",
            slice="source",
        ),
        prompts=(
            Prompt(name="short", template="{{ input }}\nA (as few words as possible):"),
            Prompt(name="plain", template="{{ input }}\nA:"),
        ),
        evaluators=("includes",),
        homepage="https://stanfordnlp.github.io/coqa",
        licence="several, by source; see the homepage",
    )


def ifeval() -> Benchmark:
    """IFEval: instructions that a program can check."""
    return Benchmark(
        name="ifeval",
        title="IFEval: instructions that a program can check",
        description="Scores: followed (all that can be checked), share, and how many are unchecked.",
        data=Query(
            dataset="google/IFEval",
            revision="966cd89545d6b6acfd7638bc708b98261ca58e84",
            split="train",
            input="prompt",
            expected=ASKED,
            id="key",
        ),
        prompts=(Prompt(name="plain", template="{{ input }}"),),
        evaluators=("instructions",),
        homepage="https://github.com/google-research/google-research/tree/master/instruction_following_eval",
        licence="Apache-2.0",
    )


ALL = (coqa, ifeval)
