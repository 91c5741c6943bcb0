"""Contests: pairs of outputs before a judge, and who stands where after it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import peira
from peira import contest, study
from peira.analysis.ranking.tournament import Game, games, is_contest
from peira.core.models import Request
from peira.core.registry import registry
from peira.errors import Invalid, PeiraError
from peira.models import ScriptedModel
from peira.stats.models.bradley_terry import bradley_terry

QUALITY = {"weak": 1, "fair": 2, "good": 3}


def say(case, model, style="plain"):
    """Better models say more of what was asked for; now and then, a worse one does."""
    luck = (case.input * 7 + QUALITY[model] * 3) % 5
    return f"{model} {'+' * (QUALITY[model] * 2 + luck)}"


def original(**more: Any) -> peira.Results:
    asked = study(agent=say, name="models", cases=list(range(20)), factors={"model": list(QUALITY)}, **more)
    return peira.run(asked, store="first.db", progress=False)


def verdict(request: Request) -> str:
    """Prefers the most pluses; "?" makes no sense."""
    text = str(request.messages[0]["content"])
    first, second = (part.count("+") for part in text.split("The second answer:"))
    said = "tie" if first == second else "first" if first > second else "second"
    return json.dumps({"reason": "more of it", "better": said})


SAYS: dict[str, Any] = {}
registry.add("model", "contested", lambda model: ScriptedModel(model, answers=SAYS["answers"]))


@pytest.fixture
def judge(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """Lets tests say what the model "contested:judge" answers."""
    monkeypatch.chdir(tmp_path)
    SAYS["answers"] = verdict
    return SAYS


def test_every_two_outputs_of_a_case_are_a_pair_shown_both_ways(judge: Any) -> None:
    first = original(repeats=2)
    made = contest(first, "model", "contested:judge")
    assert made.name == "models by model"
    [cases] = made.case_sets.values()
    assert len(cases) == 20 * 2 * 3
    assert [factor.name for factor in made.factors] == ["order", "model", "rules"]
    assert {case.slice for case in cases} == {"weak against fair", "weak against good", "fair against good"}
    assert len({case.id for case in cases}) == len(cases)
    assert len({case.cluster for case in cases}) == 20


def test_the_judge_never_hears_who_said_what(judge: Any) -> None:
    heard: list[str] = []

    def listening(request: Request) -> str:
        heard.append(json.dumps([list(request.messages), request.system]))
        return verdict(request)

    judge["answers"] = listening
    first = peira.run(
        study(agent=lambda case, side: "+" * case.input if side == "ZEBRA" else "+", name="blind",
              cases=[2, 3], factors={"side": ["ZEBRA", "GNU"]}),
        store="first.db", progress=False,
    )  # fmt: skip
    peira.run(contest(first, "side", "contested:judge"), store="second.db", progress=False)
    assert len(heard) == 4
    assert not any(name in text for text in heard for name in ("ZEBRA", "GNU"))


def test_standings_are_those_of_bradley_and_terry(judge: Any) -> None:
    second = peira.run(contest(original(), "model", "contested:judge"), store="second.db", progress=False)
    assert second.ok
    assert is_contest(second.trials)
    played = list(games(second.trials))
    assert len(played) == 60
    found = second.standings(elo=True)
    assert [entry.label for entry in found.entries] == ["good", "fair", "weak"]
    names = ["weak", "fair", "good"]
    sides = [[names.index(game.sides[side]) for game in played] for side in (0, 1)]
    known = bradley_terry(*sides, [game.won for game in played], 3, [game.unit for game in played])
    assert known.low is not None
    for entry in found.entries:
        at = names.index(entry.label)
        assert (entry.strength, entry.low) == (pytest.approx(known.strength[at]), known.low[at])
        assert entry.won + entry.tied + entry.lost == 40
        assert entry.low < entry.strength < entry.high
    assert sum(map(sum, found.wins)) + sum(map(sum, found.ties)) // 2 == found.games == 60
    assert found.entries[0].elo > found.entries[1].elo > found.entries[2].elo
    assert found.inconsistent == found.no_verdict == 0
    text = str(found)
    assert "60 games" in text
    assert "good" in found.win_matrix()
    assert json.loads(found.to_json())["entries"][0]["label"] == "good"
    drawn = second.standings(method="bootstrap")
    assert drawn.method == "bradley-terry, bootstrap"
    assert [entry.letters for entry in drawn.entries] == [entry.letters for entry in found.entries]
    assert "won-tied-lost" in drawn.markdown()


def test_a_judge_that_takes_the_first_leaves_only_ties(judge: Any) -> None:
    judge["answers"] = lambda request: '{"reason": "it comes first", "better": "first"}'
    second = peira.run(contest(original(), "model", "contested:judge"), store="second.db", progress=False)
    found = second.standings()
    assert found.inconsistent == found.games == 60
    assert [entry.strength for entry in found.entries] == pytest.approx([0, 0, 0])
    assert "changed its mind with the order" in str(found)
    assert "cannot be told apart" in found.sentence


def test_games_without_a_verdict_are_counted_apart(judge: Any) -> None:
    judge["answers"] = lambda request: "?" if "weak" in str(request.messages[0]) else verdict(request)
    second = peira.run(
        contest(original(), "model", "contested:judge", repairs=0), store="second.db", progress=False
    )
    assert second.ok
    found = second.standings()
    assert (found.games, found.no_verdict) == (20, 40)
    assert len([row for row in second.scores if row.score.no_verdict]) == 80
    assert "40 games without a verdict" in str(found)
    silent = contest(original(), "model", "contested:judge", "Say nothing.", repairs=0)
    judge["answers"] = lambda request: "?"
    assert "nothing can be said" in str(peira.run(silent, store="third.db", progress=False).standings())


def test_equal_answers_tie_and_nobody_is_asked(judge: Any) -> None:
    judge["answers"] = lambda request: pytest.fail("asked")
    first = peira.run(
        study(agent=lambda case, side: "same", name="same", cases=[1], factors={"side": ["a", "b"]}),
        store="first.db",
        progress=False,
    )
    second = peira.run(contest(first, "side", "contested:judge"), store="second.db", progress=False)
    assert [game.won for game in games(second.trials)] == [0.5]


def test_it_goes_on_where_it_stopped_and_other_rules_are_another_contest(judge: Any) -> None:
    first = original()
    run = lambda asked: peira.run(asked, store="second.db", progress=False)  # noqa: E731
    once = run(contest(first, "model", "contested:judge"))
    assert run(contest(first, "model", "contested:judge")).counts["reused"] == 120
    assert run(once.run_id).counts["reused"] == 120
    assert run(contest(first, "model", "contested:judge", "Be kind.")).counts["succeeded"] == 120
    assert run(
        contest(first, "model", "contested:judge", prompt="{{ first }} The second answer: {{ second }}")
    ).ok


def test_what_cannot_be_a_contest(judge: Any) -> None:
    first = original()
    with pytest.raises(PeiraError, match="no factor 'modle'"):
        contest(first, "modle", "contested:judge")
    with pytest.raises(Invalid, match="two levels of model"):
        contest([one for one in first if one.condition["model"] == "weak"], "model", "contested:judge")
    with pytest.raises(Invalid, match="name a judge"):
        contest(first, "model", [])
    with pytest.raises(Invalid, match="no results of a contest"):
        first.standings()


@pytest.mark.parametrize(
    ("first", "second", "won", "consistent"),
    [(1.0, 1.0, 1.0, True), (0.0, 0.0, 0.0, True), (1.0, 0.0, 0.5, False), (0.5, 1.0, 0.5, False)],
)
def test_only_what_both_orders_say_is_a_win(
    first: float, second: float, won: float, consistent: bool
) -> None:
    game = Game(("a", "b"), ("case", "1"), first, second)
    assert (game.won, game.consistent, game.decided) == (won, consistent, True)


def test_a_side_that_never_lost_is_told_apart_by_its_own_games(judge: Any) -> None:
    judge["answers"] = best_model
    second = peira.run(contest(original(), "model", "contested:judge"), store="second.db", progress=False)
    found = second.standings()
    assert [(entry.label, entry.best, entry.worst) for entry in found.entries] == [
        ("good", 1, 1),
        ("fair", 2, 2),
        ("weak", 3, 3),
    ]
    assert {entry.low for entry in found.entries} == {None}
    assert found.sentence == "good is preferred to every other."


def best_model(request: Request) -> str:
    first, second = str(request.messages[0]["content"]).split("The second answer:")
    better = "first" if "good" in first or "weak" in second else "second"
    return json.dumps({"reason": "it is", "better": better})
