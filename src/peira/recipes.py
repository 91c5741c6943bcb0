"""Recipes: studies for common questions, each with the design, the hypotheses and the plan that fit it.

    from peira.recipes import ab_comparison
    study = ab_comparison(answer, "capitals.jsonl", factor="style", a="plain", b="think first")

Each takes the agent and the cases, then what the question is about, then anything that a `Study` takes, which
stands instead of what the recipe says; further factors are crossed with the recipe's own. Conditions are run
in rounds (`order="interleaved"`), so that what drifts during a run meets them all alike. The first evaluator
gives the primary outcome; it is `match` if there is none.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from peira.core.ids import Json
from peira.core.registry import nearest
from peira.errors import Invalid
from peira.spec.aims import AnalysisPlan, Hypothesis, Outcome
from peira.spec.case import Case
from peira.spec.evaluators import as_evaluator
from peira.spec.factors import Factor, Level
from peira.spec.modules import is_reference
from peira.spec.study import Study

__all__ = [
    "ab_comparison",
    "ablation",
    "agent_architectures",
    "judge_calibration",
    "model_comparison",
    "paraphrase_robustness",
    "prompt_sensitivity",
    "scaling",
]

Agent = Callable[..., Any] | str
Claim = dict[str, Any]


def ab_comparison(
    agent: Agent, cases: Any, *, factor: str, a: Json, b: Json, direction: str = "different", **fields: Any
) -> Study:
    """Is `b` better than `a`? Two levels of one factor, on the same cases."""
    claim = _claim(f"{factor}_b_against_a", factor, (b, a), direction)
    return _study(
        fields, [claim], **_one(agent), cases=cases, factors=[Factor(factor, [a, b], baseline=a)], repeats=5
    )


def ablation(agent: Agent, cases: Any, *, parts: Sequence[str], **fields: Any) -> Study:
    """Which parts does it need? The whole, and the whole without each one. The agent takes every part as an
    argument that is true or false."""
    if not parts:
        raise Invalid("parts: there are none; name the arguments that switch parts on and off")
    return _study(
        fields,
        [_claim(f"needs_{part}", part, (True, False), "greater") for part in parts],
        **_one(agent),
        cases=cases,
        factors=[Factor(part, [True, False], baseline=True) for part in parts],
        design="one_factor_at_a_time",
        repeats=3,
    )


def prompt_sensitivity(
    agent: Agent,
    cases: Any,
    *,
    prompts: Mapping[str, str] | Sequence[str],
    factor: str = "prompt",
    **fields: Any,
) -> Study:
    """How much does the wording of the prompt matter? `prompts` are texts, or texts by label."""
    named = isinstance(prompts, Mapping)
    levels = [Level(text, label) for label, text in prompts.items()] if named else list(prompts)  # type: ignore[union-attr]
    claim = _claim(f"{factor}_matters", factor, (), "different")
    return _study(fields, [claim], **_one(agent), cases=cases, factors=[Factor(factor, levels)], repeats=3)


def model_comparison(
    agent: Agent,
    cases: Any,
    *,
    models: Sequence[str],
    baseline: str | None = None,
    factor: str = "model",
    **fields: Any,
) -> Study:
    """Which model is best? With a `baseline`, each of the others is held against it."""
    return _study(
        fields,
        _against(factor, models, baseline),
        **_one(agent),
        cases=cases,
        factors=[Factor(factor, models, baseline=baseline)],
        repeats=3,
    )


def scaling(
    agent: Agent,
    cases: Any,
    *,
    factor: str,
    levels: Iterable[float],
    direction: str = "greater",
    **fields: Any,
) -> Study:
    """What does more of it bring? One factor of numbers: tokens, samples, steps, examples."""
    values = sorted(levels)
    if len(values) < 2:
        raise Invalid(f"levels: {factor} needs two or more numbers")
    claim = _claim(f"more_{factor}", factor, (values[-1], values[0]), direction)
    scale = "integer" if all(type(value) is int for value in values) else "continuous"
    factors = [Factor(factor, values, scale=scale)]
    return _study(fields, [claim], **_one(agent), cases=cases, factors=factors, repeats=3)


def paraphrase_robustness(
    agent: Agent, paraphrases: Iterable[tuple[Sequence[Any], Json]], **fields: Any
) -> Study:
    """Does it answer a question in the same way, however it is put? Each of `paraphrases` is (wordings,
    expected). The wordings of a question are one cluster: they are no independent evidence."""
    cases = [
        Case(wording, expected=expected, id=f"{n}-{nth}", cluster=str(n), slice=f"wording {nth}")
        for n, (wordings, expected) in enumerate(paraphrases, 1)
        for nth, wording in enumerate(wordings, 1)
    ]
    return _study(fields, [], **_one(agent), cases=cases, repeats=3)


def agent_architectures(
    agents: Mapping[str, Agent], cases: Any, *, baseline: str | None = None, **fields: Any
) -> Study:
    """Which way of building it is best? With a `baseline`, each of the others is held against it."""
    return _study(
        fields, _against("agent", list(agents), baseline), agents=dict(agents), cases=cases, repeats=3
    )


def judge_calibration(judge: Agent, labelled: Any, **fields: Any) -> Study:
    """Does a judge say what people say? The judge is the agent under test, the cases are (what is judged, the
    label that people gave), and repeats show whether it agrees with itself."""
    return _study(fields, [], **_one(judge), cases=labelled, evaluators=["exact"], repeats=3)


def _one(agent: Agent) -> dict[str, Any]:
    return {"agent": agent, "name": getattr(agent, "__name__", "study")}


def _claim(id: str, factor: str, levels: tuple[Json, ...], direction: str) -> Claim:
    return {"id": id, "factor": factor, "levels": levels, "direction": direction}


def _against(factor: str, levels: Sequence[str], baseline: str | None) -> list[Claim]:
    """Each level against the baseline; without one, that they differ at all."""
    if baseline is None:
        return [_claim(f"{factor}_matters", factor, (), "different")]
    if baseline not in levels:
        raise Invalid(f"baseline: {baseline!r} is none of them{nearest(baseline, levels)}")
    others = [level for level in levels if level != baseline]
    return [_claim(f"{level}_against_{baseline}", factor, (level, baseline), "different") for level in others]


def _study(fields: Mapping[str, Any], claims: Sequence[Claim], **recipe: Any) -> Study:
    """The study of a recipe, with what the caller says instead; the caller's factors are further ones."""
    order = {} if "stop" in fields else {"order": "interleaved"}  # what may stop goes case by case
    said = {"evaluators": ["match"], **order, **recipe, **fields}
    if factors := {**_by_name(fields.get("factors", {})), **_by_name(recipe.get("factors", ()))}:
        said["factors"] = factors
    primary = _primary(said["evaluators"])
    ids = tuple(claim["id"] for claim in claims)
    main = AnalysisPlan(name="main", hypotheses=ids, correction="holm" if len(ids) > 1 else "")
    aims = {
        "outcomes": [Outcome(name=name, primary=True) for name in primary],
        "hypotheses": [Hypothesis(outcome="".join(primary), **claim) for claim in claims],
        "analysis_plans": [main.model_copy(update={"outcomes": primary})],
    }
    return Study(**{**aims, **said})


def _by_name(factors: Any) -> dict[str, Any]:
    return dict(factors) if isinstance(factors, Mapping) else {factor.name: factor for factor in factors}


def _primary(evaluators: Any) -> tuple[str, ...]:
    """The name of the first evaluator, if there is any."""
    given = evaluators if isinstance(evaluators, (list, tuple)) else [evaluators]
    if given and isinstance(given[0], str) and is_reference(given[0]):
        return (given[0].rpartition(":")[2],)
    return (as_evaluator(given[0]).name,) if given else ()
