"""Mathematics benchmarks: the answer is a number or an expression."""

from __future__ import annotations

from typing import Any

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


BOXED_NUMBER = {"name": "first_of", "steps": [{"name": "boxed"}, {"name": "last_number"}]}


def _contest(name: str, title: str, homepage: str, licence: str, **query: Any) -> Benchmark:
    """A contest whose answers are numbers, asked for in a box."""
    return Benchmark(
        name=name,
        title=title,
        data=Query(**query),
        prompts=_boxed_prompts(),
        transform=BOXED_NUMBER,
        evaluators=("numeric",),
        homepage=homepage,
        licence=licence,
    )


def aime24() -> Benchmark:
    """AIME 2024: 30 problems; answers are whole numbers from 0 to 999."""
    return _contest(
        "aime24",
        "AIME 2024: 30 invitational problems, answers from 0 to 999",
        "https://huggingface.co/datasets/HuggingFaceH4/aime_2024",
        "not checked here: see its page",
        dataset="HuggingFaceH4/aime_2024",
        revision="2fe88a2f1091d5048c0f36abc874fb997b3dd99a",
        split="train",
        input="problem",
        expected="answer",
        id="aime24-{{ id }}",
    )


def aime25() -> Benchmark:
    """AIME 2025: 30 problems; answers are whole numbers from 0 to 999."""
    return _contest(
        "aime25",
        "AIME 2025: 30 invitational problems, answers from 0 to 999",
        "https://huggingface.co/datasets/math-ai/aime25",
        "not checked here: see its page",
        dataset="math-ai/aime25",
        revision="563bb8404243c5f09de6ec262f2db674fe5bce9b",
        input="problem",
        expected="answer",
        id="aime25-{{ id }}",
    )


def amc23() -> Benchmark:
    """AMC 2023: 40 problems with numbers as answers."""
    return _contest(
        "amc23",
        "AMC 2023: 40 contest problems, answers are numbers",
        "https://huggingface.co/datasets/math-ai/amc23",
        "not checked here: see its page",
        dataset="math-ai/amc23",
        revision="80815d37005feb82cd7f8fbc6901d5d3eff43057",
        input="question",
        expected="answer",
        id="amc23-{{ id }}",
    )


def beyondaime() -> Benchmark:
    """BeyondAIME: 100 problems harder than AIME's, with whole numbers as answers."""
    return _contest(
        "beyondaime",
        "BeyondAIME: 100 problems harder than AIME's, answers are whole numbers",
        "https://huggingface.co/datasets/ByteDance-Seed/BeyondAIME",
        "not checked here: see its page",
        dataset="ByteDance-Seed/BeyondAIME",
        input="problem",
        expected="answer",
    )


def olympiadbench() -> Benchmark:
    """OlympiadBench: the open questions in mathematics, in English and without images."""
    return Benchmark(
        name="olympiadbench",
        title="OlympiadBench: open questions of mathematical olympiads, in English, text only",
        description="Of several final answers the first is expected.",
        data=Query(
            dataset="Hothan/OlympiadBench",
            config="OE_TO_maths_en_COMP",
            revision="91184b52131e7fc9455fef848035173aea8cc01a",
            split="train",
            input="question",
            expected="{{ final_answer[0] }}",
            id="olympiad-{{ id }}",
            slice="subfield",
        ),
        prompts=_boxed_prompts(),
        evaluators=("math_equal",),
        homepage="https://github.com/OpenBMB/OlympiadBench",
        licence="Apache-2.0",
    )


ALL = (
    gsm8k,
    gsm_symbolic,
    math500,
    competition_math,
    aime24,
    aime25,
    amc23,
    beyondaime,
    olympiadbench,
)
