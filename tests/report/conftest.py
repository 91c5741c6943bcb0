"""Results to report on: made by hand, of a published study where its data are at hand, and a hostile run."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import pytest

from peira.analysis.results import Results
from peira.core.log.events import Failure, State
from peira.report.builder import build
from peira.report.value import Report
from peira.report.writers.html import html
from peira.results.aims import Aims
from peira.results.trials import Score, TrialResult
from peira.spec.aims import AnalysisPlan, Hypothesis, Outcome

HOSTILE = (
    "<script>window.pwned=1</script>",
    '<img src=x onerror="window.pwned=2">',
    "</script></pre></details></main><script>window.pwned=3</script>",
    "\u202eright to left\u202c \x00\x07 a\u200bb",
    "w" * 30_000,
    "שלום עולם مرحبا بالعالم " * 20,
    "Z\u0301\u0302\u0303\u0304\u0305\u0306" * 300,
    "'\" onmouseover=window.pwned=4 {{ 7*7 }} {% raw %} $x^2$ \\end{document} ``` | # - *",
)


def one(case: object, scores: dict[str, Any] | None, repeat: int = 0, **more: Any) -> TrialResult:
    """A trial with these scores; None has failed. Names that are no field of a trial are factors."""
    fields = {name: more.pop(name) for name in list(more) if name in TrialResult.__struct_fields__}
    failed = scores is None
    base: dict[str, Any] = {
        "id": f"{case}/{repeat}/{sorted(more.items())}",
        "agent": "answer",
        "case_id": str(case),
        "condition": more,
        "repeat": repeat,
        "state": State.failed if failed else State.succeeded,
        "input": f"question {case}",
        "expected": "yes",
        "output": None if failed else "yes",
        "failure": Failure("OSError", "no luck") if failed else None,
        "scores": {name: _score(name, value) for name, value in (scores or {}).items()},
    }
    return TrialResult(**base | fields)


def _score(name: str, value: Any) -> Score:
    return value if isinstance(value, Score) else Score(name, State.succeeded, value)


def gathered(trials: Iterable[TrialResult], aims: Aims | None = None, **more: Any) -> Results:
    kept = list(trials)
    told: dict[str, Any] = {"run_id": "f" * 64, "study": "small", "status": "completed", "counts": {}}
    return Results(lambda: iter(kept), aims=aims, **told | more)


@pytest.fixture
def trial() -> Callable[..., TrialResult]:
    return one


@pytest.fixture
def results() -> Callable[..., Results]:
    return gathered


@pytest.fixture(scope="session")
def gsm8k(gsm8k_solutions: list[dict[str, Any]]) -> Results:
    """Two sizes of model by two methods on 1,319 problems, with what each said."""
    trials = []
    for number, row in enumerate(gsm8k_solutions):
        for size in ("6b", "175b"):
            for method in ("finetuning", "verification"):
                said = row[f"{size}_{method}"]
                told = {"input": row["question"], "output": said["solution"], "size": size, "method": method}
                trials.append(one(f"{number:04}", {"correct": said["is_correct"]}, **told))
    return gathered(trials, study="gsm8k")


@pytest.fixture(scope="session")
def built(hostile: Results) -> Report:
    return build(hostile)


@pytest.fixture(scope="session")
def page(built: Report) -> bytes:
    return html(built)


@pytest.fixture(scope="session")
def hostile() -> Results:
    """A 2 x 2 x 2 study with failures, costs, confidences and hypotheses; every text is an attack."""
    trials = []
    for n in range(24):
        for bits in range(8):
            model, style, mood = bits & 1, bits >> 1 & 1, bits >> 2
            where: dict[str, Any] = {
                "model": ("small <b>", "large")[model],
                "style": ("plain", "<i>think")[style],
                "mood": mood,
            }
            right = (n * 7 + bits * 3) % 11 < 2 + 4 * model + 4 * style
            told: dict[str, Any] = {
                "input": HOSTILE[n % 8],
                "expected": HOSTILE[(n + 1) % 8],
                "output": HOSTILE[(n + bits) % 8],
                "metrics": {"calls": 1.0, "cost": 0.001 * (1 + 2 * model) + n * 1e-5, "input_tokens": 9.0},
                "took": 0.1 * (1 + style) + n * 1e-3,
            }
            sure = {"confidence": 0.1 * ((n + bits) % 11) * 10 / 10.1, "correct": right}
            scores = {"match": right, "tone": HOSTILE[n % 2], "calibration": sure}
            if (n, bits) in ((3, 1), (9, 6)):
                why = Failure("Evil<script>", HOSTILE[2], f"File {HOSTILE[1]}")
                trials.append(one(f"c{n}", None, failure=why, **where, input=HOSTILE[n % 8]))
            else:
                trials.append(one(f"c{n}", scores, **where, **told))
    aims = Aims(
        (Outcome(name="accuracy", evaluator="match", primary=True),),
        (
            Hypothesis(
                id="H1",
                statement="Large <b>wins</b>",
                factor="model",
                levels=("large", "small <b>"),
                direction="greater",
            ),
            Hypothesis(id="H2", factor="style", levels=("plain", "<i>think"), direction="greater"),
        ),
        (AnalysisPlan(name="main", correction="holm"),),
    )
    return gathered(trials, aims, study="hostile <study>", status="completed with failures")
