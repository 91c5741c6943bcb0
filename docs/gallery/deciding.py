"""A run that goes on, under a stopping rule and a budget; some of it fails."""

import time

from peira import ask, current_trial, exact, study

RIGHT = {("clerk", "plain"): 0.50, ("clerk", "think first"): 0.56}


@study(
    title="Does thinking first help?",
    description="Two styles on the same questions, until the difference is clear.",
    cases=[(f"Question {n}", "right") for n in range(4000)],
    factors={"style": ["plain", "think first"]},
    evaluators=[exact()],
    hypotheses=[{"id": "H1", "factor": "style", "levels": ["think first", "plain"], "direction": "greater"}],
    stop="when decided",
    budget={"money": 25.0},
)
def deciding(case, style):
    """Ask once, and be right by chance."""
    time.sleep(0.03)
    luck = current_trial().rng.random()
    ask("clerk", f"{case.input} ({style})")
    if luck > 0.985:
        raise TimeoutError(f"the search did not answer within {1 + int(case.id[-1], 36) % 3} s")
    if luck > 0.97:
        raise ValueError(f"no JSON in the answer of try {int(100 * luck)}")
    return "right" if luck < RIGHT["clerk", style] else "wrong"
