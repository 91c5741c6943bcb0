"""Contests: a study in which a judge compares the outputs of another study in pairs.

It is a study of its own, chained to the first: its cases are pairs of outputs of the same case, its agent
asks the judge, and the factor `order` presents every pair in both orders. Its calls are recorded, budgeted
and resumed like any others, and verdicts that depend on the order are detected.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from itertools import combinations
from typing import Any

from peira.analysis.ranking.tournament import CONTEST, ORDERS
from peira.analysis.results import Results
from peira.analysis.table.groups import check_names, key_of, label_of
from peira.core.chat.templates import Template
from peira.core.context import SeenCase
from peira.core.ids import Json, digest
from peira.core.log.events import State
from peira.core.people.questions import ask_person
from peira.core.text.grid import cell
from peira.core.verdicts import KEY, REASON, VALUE, NoVerdict
from peira.errors import Invalid
from peira.evaluators.judges.pairwise import WINS, Preference, preference
from peira.evaluators.judges.prompts import PromptedModel
from peira.results.cases import ID_DIGITS
from peira.results.trials import TrialResult
from peira.spec.case import Case
from peira.spec.factors import Factor, Level
from peira.spec.study import Study

PEOPLE = "people"
"""The judge of a contest that is no model."""
SKIPPED = "cannot say"


def contest(
    results: Results | Iterable[TrialResult],
    by: str,
    model: str | Sequence[str],
    criteria: str | None = None,
    *,
    ties: bool = True,
    prompt: str | None = None,
    system: str | None = None,
    repairs: int = 2,
    parameters: Mapping[str, Any] | None = None,
    **fields: Any,
) -> Study:
    """A study in which a judge says which level of `by` gave the better output.

    `by` is a factor, or "agent".

    Every two outputs of the same case and repeat, under conditions that differ only in `by`, form a pair.
    `model` is the judge, or several judges; "people" are asked by `ask_person`. `criteria` says what makes an
    answer better. Further keyword arguments are those of `Study`. The results of its run have `standings()`.
    Raises Invalid without a judge or without pairs.
    """
    trials = [one for one in results if one.state is State.succeeded and not one.anchor]
    named = results.study if isinstance(results, Results) else "outputs"
    judges = [model] if isinstance(model, str) else list(model)
    if not judges:
        raise Invalid("contest: model: there is none; name a judge")
    asked = [
        preference("contest", one, criteria, ties, prompt, system, repairs, parameters) for one in judges
    ]  # of people, too: their criteria are those of models
    rules = Level(_rules(asked[0]), "rules")
    recipe = {
        "name": f"{named} by {by}",
        "agent": prefer,
        "cases": _cases(trials, by),
        "factors": [Factor("order", list(ORDERS)), Factor("model", judges), Factor("rules", [rules])],
        "evaluators": [preferred],
    }
    return Study(**{**recipe, **fields})


def _rules(prefers: Preference) -> dict[str, Json]:
    """Everything that determines the judge's prompt, so that it is part of a trial's identity."""
    asked = {key: value for key, value in prefers.asking.identity.items() if key != "model"}
    return {**asked, "criteria": prefers.criteria, "ties": prefers.ties}


async def prefer(case: SeenCase, order: str, model: str, rules: dict[str, Any]) -> Json:
    """The agent of a contest: {"won": 1, 0.5 or 0 for the first side, "reason"}, or {"no_verdict"}."""
    one, two = case.input["one"], case.input["two"]
    if key_of(one) == key_of(two):
        return {"won": 0.5, REASON: "the answers are the same"}
    if model == PEOPLE:
        return _preferred_by_people(case, order == "swapped", rules)
    templates = {name: Template(rules[name]) for name in ("prompt", "system")}
    asking = PromptedModel(model, **templates, repairs=rules["repairs"], parameters=rules["parameters"])
    said = await Preference(asking, rules["criteria"], rules["ties"]).between(
        case.input["question"], one, two, order == "swapped"
    )
    return {KEY: said.reason} if isinstance(said, NoVerdict) else asdict(said)


def _preferred_by_people(case: SeenCase, swapped: bool, rules: Mapping[str, Any]) -> Json:
    """What people say of a pair; they may skip it."""
    first, second = ("two", "one") if swapped else ("one", "two")
    pair = case.input
    shown: Json = {"question": pair["question"], "first": pair[first], "second": pair[second]}
    options: list[Json] = ["first", "second", *(["tie"] if rules["ties"] else [])]
    said = ask_person(f"Which is better? {rules['criteria']}", show=shown, options=[*options, SKIPPED])
    if said == SKIPPED:
        return {KEY: "a person could not say"}
    won = WINS[str(said)]
    return {"won": 1 - won if swapped else won, REASON: "a person said so"}


def preferred(output: Mapping[str, Any]) -> Any:
    """The evaluator of a contest: 1, 0.5 or 0 for the first side."""
    if KEY in output:
        return NoVerdict(output[KEY])
    return {VALUE: output["won"], REASON: output[REASON]}


def _cases(trials: Sequence[TrialResult], by: str) -> list[Case]:
    """One case for every pair of outputs to compare."""
    check_names([by], {name for one in trials for name in one.condition}, set())
    cells: dict[bytes | str, list[TrialResult]] = {}
    for one in trials:
        cells.setdefault(key_of([one.case_id, _rest(one, by), one.repeat]), []).append(one)
    ranks: dict[str | bytes, int] = {}
    for one in trials:
        ranks.setdefault(key_of(label_of(one, by)), len(ranks))
    ordered = (sorted(cell, key=lambda one: ranks[key_of(label_of(one, by))]) for cell in cells.values())
    found = [_case(*pair, by) for sides in ordered for pair in combinations(sides, 2)]
    if not found:
        raise Invalid(f"contest: no case has outputs of two levels of {by} to compare")
    return found


def _rest(trial: TrialResult, by: str) -> Json:
    """What two outputs must have in common to be compared."""
    rest = {name: value for name, value in trial.condition.items() if name != by}
    return [rest, None if by == "agent" else trial.agent]


def _case(one: TrialResult, two: TrialResult, by: str) -> Case:
    """The contest case of two outputs."""
    sides: Json = [label_of(one, by), label_of(two, by)]
    origin = {"by": by, "sides": sides, "case": one.case_id, "rest": _rest(one, by), "repeat": one.repeat}
    return Case(
        {"question": one.input, "one": one.output, "two": two.output},
        id=f"{one.case_id}-{digest(origin)[:ID_DIGITS]}",
        cluster=one.cluster if one.cluster is not None else one.case_id,
        slice=f"{cell(sides[0])} against {cell(sides[1])}",
        metadata={CONTEST: origin},
    )
