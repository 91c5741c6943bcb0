"""Multiple-choice benchmarks: the input is the question with lettered choices, a letter is expected.

If a data set does not letter its choices, they are sorted alphabetically, so that their order does not depend
on which one is right.
"""

from __future__ import annotations

from typing import Any

from peira.spec.benchmark import Benchmark, Prompt
from peira.spec.query import Query

LETTERS = "ABCDEFGHIJ"


def _listed(question: str, choices: str) -> str:
    """A template of a question and its lettered choices."""
    return (
        f"{{{{ {question} }}}}\n{{% for choice in {choices} %}}\n"
        f"{{{{ '{LETTERS}'[loop.index0] }}}}) {{{{ choice }}}}{{% endfor %}}"
    )


def _place(right: str, choices: str) -> str:
    """A template of the letter of the right choice among sorted choices."""
    return (
        f"{{% for choice in {choices} %}}{{% if choice == {right} %}}"
        f"{{{{ '{LETTERS}'[loop.index0] }}}}{{% endif %}}{{% endfor %}}"
    )


def _prompts(letters: str) -> tuple[Prompt, ...]:
    """The prompts of multiple-choice benchmarks: step by step, letter only, few-shot."""
    among = f"{', '.join(letters[:-1])} or {letters[-1]}"
    shown = "{% for example in examples %}{{ example.input }}\n\nAnswer: {{ example.output }}\n\n{% endfor %}"
    return (
        Prompt(
            name="steps",
            template="{{ input }}\n\nThink step by step. Then write a last line: Answer: "
            f"and one of {among}.",
        ),
        Prompt(name="plain", template=f"{{{{ input }}}}\n\nAnswer with one letter only: {among}."),
        Prompt(name="few_shot", template=shown + "{{ input }}\n\nAnswer:", shots=5),
    )


def _choices(name: str, title: str, letters: str, **fields: Any) -> Benchmark:
    """A multiple-choice benchmark with these letters."""
    return Benchmark(
        name=name,
        title=title,
        prompts=_prompts(letters),
        transform={"name": "choice_letter", "letters": letters},
        evaluators=({"name": "choice", "letters": letters},),
        **fields,
    )


def gpqa() -> Benchmark:
    """GPQA Diamond: graduate-level questions that are hard to answer by searching."""
    wrong = ", ".join(f"row['Incorrect Answer {n}']" for n in (1, 2, 3))
    four = f"([row['Correct Answer'], {wrong}] | map('trim') | sort)"
    return _choices(
        "gpqa",
        "GPQA Diamond: questions for graduates that searching does not answer",
        "ABCD",
        data=Query(
            dataset="Idavidrein/gpqa",
            config="gpqa_diamond",
            split="train",
            input=_listed("row['Question']", four),
            expected=_place("row['Correct Answer'] | trim", four),
            id="Record ID",
            slice="High-level domain",
        ),
        homepage="https://github.com/idavidrein/gpqa",
        licence="CC BY 4.0; its authors ask that it is not put on the web in the clear",
    )


def super_gpqa() -> Benchmark:
    """SuperGPQA: graduate-level questions of 285 disciplines."""
    return _choices(
        "super_gpqa",
        "SuperGPQA: graduate questions of 285 disciplines",
        LETTERS,
        data=Query(
            dataset="m-a-p/SuperGPQA",
            split="train",
            input=_listed("question", "options"),
            expected="answer_letter",
            id="uuid",
            slice="discipline",
            metadata=["difficulty", "field"],
        ),
        slices={level: f"difficulty == '{level}'" for level in ("easy", "middle", "hard")},
        homepage="https://supergpqa.github.io",
        licence="ODC-BY",
    )


def mmlu_pro() -> Benchmark:
    """MMLU-Pro: ten choices in fourteen subjects."""
    source = {
        "dataset": "TIGER-Lab/MMLU-Pro",
        "revision": "527feea0afed1de15a8c115abf7be4c912123315",
        "input": _listed("question", "options"),
        "expected": "answer",
    }
    return _choices(
        "mmlu_pro",
        "MMLU-Pro: ten choices in fourteen subjects",
        LETTERS,
        data=Query(**source, id="question_id", slice="category"),
        examples=Query(**source, split="validation"),
        homepage="https://github.com/TIGER-AI-Lab/MMLU-Pro",
        licence="MIT",
    )


def medqa() -> Benchmark:
    """MedQA: questions of the United States medical licensing examination."""
    source = {
        "dataset": "GBaker/MedQA-USMLE-4-options",
        "input": _listed("question", "[options.A, options.B, options.C, options.D]"),
        "expected": "answer_idx",
    }
    return _choices(
        "medqa",
        "MedQA: questions of the United States medical licensing examination",
        "ABCD",
        data=Query(**source),
        examples=Query(**source, split="train"),
        homepage="https://github.com/jind11/MedQA",
        licence="MIT",
    )


def medmcqa() -> Benchmark:
    """MedMCQA: questions of Indian medical entrance examinations."""
    source = {
        "dataset": "openlifescienceai/medmcqa",
        "input": _listed("question", "[opa, opb, opc, opd]"),
        "expected": "{{ 'ABCD'[cop] }}",
    }
    return _choices(
        "medmcqa",
        "MedMCQA: questions of Indian medical entrance examinations",
        "ABCD",
        data=Query(**source, split="validation", id="id", slice="subject_name"),
        examples=Query(**source, split="train"),
        homepage="https://medmcqa.github.io",
        licence="Apache-2.0",
    )


def commonsense_qa() -> Benchmark:
    """CommonsenseQA: questions of common knowledge."""
    source = {
        "dataset": "tau/commonsense_qa",
        "input": _listed("question", "choices.text"),
        "expected": "answerKey",
    }
    return _choices(
        "commonsense_qa",
        "CommonsenseQA: questions that take what everybody knows",
        "ABCDE",
        data=Query(**source, split="validation", id="id", cluster="question_concept"),
        examples=Query(**source, split="train"),
        homepage="https://www.tau-nlp.org/commonsenseqa",
        licence="MIT",
    )


def piqa() -> Benchmark:
    """PIQA: physical commonsense, two choices."""
    source = {
        "dataset": "ybisk/piqa",
        "revision": "refs/convert/parquet",
        "input": _listed("goal", "[sol1, sol2]"),
        "expected": "{{ 'AB'[label | int] }}",
    }
    return _choices(
        "piqa",
        "PIQA: which of two ways works in the physical world",
        "AB",
        data=Query(**source, split="validation"),
        examples=Query(**source, split="train"),
        homepage="https://yonatanbisk.com/piqa",
        licence="AFL-3.0",
    )


def sciq() -> Benchmark:
    """SciQ: science examination questions."""
    four = "([correct_answer, distractor1, distractor2, distractor3] | sort)"
    source = {
        "dataset": "allenai/sciq",
        "revision": "2c94ad3e1aafab77146f384e23536f97a4849815",
        "input": _listed("question", four),
        "expected": _place("correct_answer", four),
    }
    return _choices(
        "sciq",
        "SciQ: science examination questions",
        "ABCD",
        data=Query(**source),
        examples=Query(**source, split="train"),
        homepage="https://allenai.org/data/sciq",
        licence="CC BY-NC 3.0",
    )


def social_i_qa() -> Benchmark:
    """Social IQa: social commonsense, three choices."""
    source = {
        "dataset": "allenai/social_i_qa",
        "revision": "refs/convert/parquet",
        "input": "{{ context }}\n" + _listed("question", "[answerA, answerB, answerC]"),
        "expected": "{{ 'ABC'[(label | int) - 1] }}",
    }
    return _choices(
        "social_i_qa",
        "Social IQa: what people do, and why",
        "ABC",
        data=Query(**source, split="validation"),
        examples=Query(**source, split="train"),
        homepage="https://leaderboard.allenai.org/socialiqa",
        licence="CC BY 4.0",
    )


ALL = (gpqa, super_gpqa, mmlu_pro, medqa, medmcqa, commonsense_qa, piqa, sciq, social_i_qa)
