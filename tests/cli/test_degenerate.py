"""Every command that says what results mean, on runs that say little: a sentence, never a traceback."""

from __future__ import annotations

import json
import shlex

import pytest

STUDY = """
from peira import exact, study

@study(cases=[(str(n), "yes") for n in range({cases})], factors={{"model": ["a", "b"], "size": [1, 2, 3]}},
       evaluators=[exact()],
       hypotheses=[{{"id": "h", "factor": "model", "levels": ["b", "a"], "direction": "greater"}}])
def quiz(case, model, size):
    {body}
"""
STUDIES = {
    "one case": (1, 'return "yes" if model == "b" else "no"'),
    "all equal": (5, 'return "yes"'),
    "perfect separation": (5, 'return "yes" if model == "b" else "no"'),
    "everything failed": (3, 'raise ValueError("no")'),
}
COMMANDS = (
    "show --by model",
    "show --failures",
    "show --interval bootstrap",
    "show --across size",
    "compare --by model",
    "compare --by model --margin 0.1 --effect 'cliffs delta' --interval bootstrap",
    "compare --by size --correction tukey",
    "effects",
    "effects --model linear",
    "effects --model linear --random size",
    "effects --model logistic",
    "effects --model marginal",
    "effects --model anova2",
    "effects --model anova3",
    "effects --model split-plot",
    "surface",
    "leaderboard --wins",
    "slices",
    "quantiles",
    "ratio took/exact",
    "hypotheses",
    "power --by model",
    "gate --min exact=0.5",
)


@pytest.mark.parametrize("name", STUDIES)
def test_commands_say_what_they_cannot(peira, folder, name):
    cases, body = STUDIES[name]
    (folder / "quiz.py").write_text(STUDY.format(cases=cases, body=body))
    assert peira("run", "quiz.py").code == (1 if "failed" in name else 0)
    for line in COMMANDS:
        done = peira(*shlex.split(line))
        assert done.code in ((0, 1) if line.startswith("gate") else (0, 2)), (line, done.err)
        assert (done.out + done.err).strip(), line
        assert "Traceback" not in done.err, line
        assert "nan" not in done.out.split(), line
        if done.code == 2:
            assert done.err.startswith("peira: "), line


def test_documents_stay_documents(peira, folder):
    cases, body = STUDIES["everything failed"]
    (folder / "quiz.py").write_text(STUDY.format(cases=cases, body=body))
    peira("run", "quiz.py")
    for line in ("compare --by model", "effects", "surface", "quantiles", "ratio took/exact", "slices"):
        done = peira(*line.split(), "--json")
        assert done.code == 2 or json.loads(done.out)
