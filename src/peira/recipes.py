"""Recipes: ready-made studies for common questions, with design, hypotheses and analysis plan.

    from peira.recipes import ab_comparison
    study = ab_comparison(answer, "capitals.jsonl", factor="style", a="plain", b="think first")

Each takes the agent and the cases, then the arguments of its question, then any field of a `Study`, which
overrides the recipe's default; further factors are crossed with the recipe's own. Conditions are run in
rounds (`order="interleaved"`), so that drift during a run affects all of them alike. The first evaluator
gives the primary outcome; the default evaluator is `match`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import msgspec

from peira.core.ids import Json
from peira.core.registry import nearest
from peira.errors import Invalid
from peira.perturbations import PERTURBATIONS, perturbed
from peira.spec.aims import AnalysisPlan, Hypothesis, Outcome
from peira.spec.case import Case, as_cases
from peira.spec.factors import Factor, Level
from peira.spec.modules import is_reference
from peira.spec.plugins import as_evaluator
from peira.spec.study import Study

__all__ = [
    "ab_comparison",
    "ablation",
    "agent_architectures",
    "chance_baseline",
    "human_comparison",
    "interaction",
    "judge_calibration",
    "model_comparison",
    "optimisation",
    "paraphrase_robustness",
    "perturbation_robustness",
    "prompt_sensitivity",
    "scaling",
]

Agent = Callable[..., Any] | str
Claim = dict[str, Any]


def ab_comparison(
    agent: Agent, cases: Any, *, factor: str, a: Json, b: Json, direction: str = "different", **fields: Any
) -> Study:
    """Is `b` better than `a`? Two levels of one factor, on the same cases.

    The hypothesis is about b minus a, in the given `direction`; there are 5 repeats.
    """
    claim = _claim(f"{factor}_b_against_a", factor, (b, a), direction)
    return _study(
        fields, [claim], **_one(agent), cases=cases, factors=[Factor(factor, [a, b], baseline=a)], repeats=5
    )


def ablation(agent: Agent, cases: Any, *, parts: Sequence[str], **fields: Any) -> Study:
    """Which parts does the agent need? The complete agent, and the agent without each part.

    `parts` are the names of the agent's boolean arguments, one factor each, in a one-factor-at-a-time design.
    Raises Invalid if there are none.
    """
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
    """Which model is best? With a `baseline`, each of the others is compared with it.

    Without one, the hypothesis is that the models differ at all.
    """
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
    """What does more of it bring? One numeric factor: tokens, samples, steps, examples.

    The hypothesis compares the largest level with the smallest. Raises Invalid for fewer than two levels.
    """
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
    """Does the agent answer a question in the same way, however it is worded?

    Each of `paraphrases` is (wordings, expected). The wordings of a question are one cluster, because they
    are not independent evidence.
    """
    cases = [
        Case(wording, expected=expected, id=f"{n}-{nth}", cluster=str(n), slice=f"wording {nth}")
        for n, (wordings, expected) in enumerate(paraphrases, 1)
        for nth, wording in enumerate(wordings, 1)
    ]
    return _study(fields, [], **_one(agent), cases=cases, repeats=3)


def agent_architectures(
    agents: Mapping[str, Agent], cases: Any, *, baseline: str | None = None, **fields: Any
) -> Study:
    """Which agent is best? With a `baseline`, each of the others is compared with it."""
    return _study(
        fields, _against("agent", list(agents), baseline), agents=dict(agents), cases=cases, repeats=3
    )


def chance_baseline(agent: Agent, cases: Any, *, answers: Sequence[Json], **fields: Any) -> Study:
    """Is the agent better than chance? The agent, and one that gives one of `answers` at random.

    Chance is seeded: it answers each trial alike in every run. Raises Invalid for fewer than two answers.
    """
    if len(answers) < 2:
        raise Invalid("answers: chance needs two or more to choose from")
    agents = {"agent": agent, "chance": {"kind": "random", "answers": list(answers)}}
    claim = _claim("better_than_chance", "agent", ("agent", "chance"), "greater")
    return _study(fields, [claim], **_named(agent), agents=agents, cases=cases, repeats=3)


def human_comparison(agent: Agent, cases: Any, *, margin: float | None = None, **fields: Any) -> Study:
    """Is the agent as good as people? What people answered stands in each case's metadata, as `people`.

    Their answers are judged like the agent's, on the same cases. With a `margin`, the hypothesis is that the
    agent is not worse by that much; without one, that they differ. Repeats are the agent's: give `repeats`.
    """
    direction = "different" if margin is None else "not_less"
    claim = _claim("agent_against_people", "agent", ("agent", "people"), direction)
    claim |= {} if margin is None else {"margin": margin}
    agents = {"agent": agent, "people": people}
    return _study(fields, [claim], **_named(agent), agents=agents, cases=cases, repeats=3)


def people(case: Any) -> Json:
    """The answer that people gave to a case: its metadata's `people`."""
    if "people" not in case.metadata:
        raise Invalid(f"case {case.id!r} has no answer of people: metadata.people")
    return case.metadata["people"]


def interaction(agent: Agent, cases: Any, *, factors: Mapping[str, Sequence[Json]], **fields: Any) -> Study:
    """What do two things do together? Two factors of two levels each, crossed.

    There is a hypothesis for each factor, and one that the effect of the first depends on the second. Raises
    Invalid unless there are two factors of two levels.
    """
    if len(factors) != 2 or any(len(levels) != 2 for levels in factors.values()):
        raise Invalid("factors: an interaction needs two factors, each with two levels")
    claims = [_claim(f"{name}_matters", name, (), "different") for name in factors]
    claims.append(_claim("together", ":".join(factors), (), "different"))
    return _study(
        fields,
        claims,
        **_one(agent),
        cases=cases,
        factors=[Factor(name, list(levels)) for name, levels in factors.items()],
        repeats=5,
    )


def optimisation(
    agent: Agent, cases: Any, *, ranges: Mapping[str, tuple[float, float]], **fields: Any
) -> Study:
    """Which setting is best? Numeric factors over `ranges`, in a central composite design.

    `peira surface` then says where the score is best within what was run, and how sure that is. Whole numbers
    as ends make a factor of whole numbers. Raises Invalid for fewer than two factors.
    """
    if len(ranges) < 2:
        raise Invalid("ranges: an optimum is looked for over two or more factors; see `scaling` for one")
    factors = [
        Factor(
            name,
            low=low,
            high=high,
            scale="integer" if type(low) is int and type(high) is int else "continuous",
        )
        for name, (low, high) in ranges.items()
    ]
    return _study(
        fields,
        [],
        **_one(agent),
        cases=cases,
        factors=factors,
        design={"name": "central_composite", "center": 3},
        repeats=3,
    )


def perturbation_robustness(agent: Agent, cases: Any, *, kinds: Sequence[str] = (), **fields: Any) -> Study:
    """Do small changes of the input change the answer? Each input as it is, and perturbed in each way.

    `kinds` are names of `peira.perturbations`, by default all; they are made from the study's seed. Each kind
    is a set of cases, and the hypotheses compare it with the inputs as they are, case by case.
    """
    chosen = tuple(kinds) or tuple(PERTURBATIONS)
    problems: list[str] = []
    given = tuple(as_cases(cases, lambda i: f"cases[{i}]", problems))
    if problems:
        raise Invalid(problems)
    plain = [msgspec.structs.replace(case, id=case.id or str(n)) for n, case in enumerate(given, 1)]
    sets = {"as_it_is": plain}
    for kind in chosen:
        seeds = [f"{fields.get('seed', 0)}/{case.id}" for case in plain]
        sets[kind] = [
            msgspec.structs.replace(case, input=perturbed(case.input, kind, seed))
            for case, seed in zip(plain, seeds, strict=True)
        ]
    claims = [_claim(f"{kind}_matters", "cases", (kind, "as_it_is"), "different") for kind in chosen]
    return _study(fields, claims, **_one(agent), cases=sets, repeats=3)


def judge_calibration(judge: Agent, labelled: Any, **fields: Any) -> Study:
    """Does a judge agree with people? The judge is the agent under test.

    The cases are pairs of what is judged and the label that people gave; the repeats show whether the judge
    agrees with itself.
    """
    return _study(fields, [], **_one(judge), cases=labelled, evaluators=["exact"], repeats=3)


def _one(agent: Agent) -> dict[str, Any]:
    """The study fields for a single agent: the agent, and a name taken from it."""
    return {"agent": agent, **_named(agent)}


def _named(agent: Agent) -> dict[str, Any]:
    """The name of a study, taken from its agent."""
    return {"name": getattr(agent, "__name__", "study")}


def _claim(id: str, factor: str, levels: tuple[Json, ...], direction: str) -> Claim:
    """The fields of a hypothesis, without its outcome."""
    return {"id": id, "factor": factor, "levels": levels, "direction": direction}


def _against(factor: str, levels: Sequence[str], baseline: str | None) -> list[Claim]:
    """A hypothesis for each level against the baseline; without a baseline, one that the levels differ."""
    if baseline is None:
        return [_claim(f"{factor}_matters", factor, (), "different")]
    if baseline not in levels:
        raise Invalid(f"baseline: {baseline!r} is none of them{nearest(baseline, levels)}")
    others = [level for level in levels if level != baseline]
    return [_claim(f"{level}_against_{baseline}", factor, (level, baseline), "different") for level in others]


def _study(fields: Mapping[str, Any], claims: Sequence[Claim], **recipe: Any) -> Study:
    """The study of a recipe, overridden by the caller's fields; the caller's factors are added."""
    order = (
        {} if "stop" in fields else {"order": "interleaved"}
    )  # a study with a stopping rule runs case by case
    settings = {"evaluators": ["match"], **order, **recipe, **fields}
    if factors := {**_by_name(fields.get("factors", {})), **_by_name(recipe.get("factors", ()))}:
        settings["factors"] = factors
    primary = _primary(settings["evaluators"])
    ids = tuple(claim["id"] for claim in claims)
    main = AnalysisPlan(name="main", hypotheses=ids, correction="holm" if len(ids) > 1 else "")
    aims = {
        "outcomes": [Outcome(name=name, primary=True) for name in primary],
        "hypotheses": [Hypothesis(outcome="".join(primary), **claim) for claim in claims],
        "analysis_plans": [main.model_copy(update={"outcomes": primary})],
    }
    return Study(**{**aims, **settings})


def _by_name(factors: Any) -> dict[str, Any]:
    """Factors as a mapping from name to factor."""
    return dict(factors) if isinstance(factors, Mapping) else {factor.name: factor for factor in factors}


def _primary(evaluators: Any) -> tuple[str, ...]:
    """The name of the first evaluator, in a tuple; empty if there are no evaluators."""
    given = evaluators if isinstance(evaluators, (list, tuple)) else [evaluators]
    if given and isinstance(given[0], str) and is_reference(given[0]):
        return (given[0].rpartition(":")[2],)
    return (as_evaluator(given[0]).name,) if given else ()
