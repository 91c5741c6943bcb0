from __future__ import annotations

import asyncio
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from peira.core.contracts import Evaluator
from peira.core.ids import digest
from peira.core.transforms import NoAnswer
from peira.errors import Invalid
from peira.evaluators import cascade, conditional, exact, fuzzy, gated, includes, match, pick, rouge, weighted
from peira.spec.plugins import as_evaluator


def judged(evaluator: Evaluator, output: object, expected: object = None) -> Any:
    return evaluator.judge({"output": output, "expected": expected})


def said(output: Any) -> Any:
    return output


def twice(output: float) -> float:
    return 2 * output


def never(output: Any) -> Any:
    raise AssertionError("it was asked")


async def slow(output: Any) -> Any:
    await asyncio.sleep(0)
    return output


@given(st.lists(st.floats(0.1, 10), min_size=1, max_size=5), st.floats(0, 1))
def test_a_weighted_mean_lies_between_its_parts(weights: list[float], score: float) -> None:
    parts = [said if i % 2 else twice for i in range(len(weights))]
    found = judged(weighted(parts, weights), score)
    assert score - 1e-9 <= found <= 2 * score + 1e-9
    meant = sum(w * (score if i % 2 else 2 * score) for i, w in enumerate(weights)) / sum(weights)
    assert found == pytest.approx(meant)


def test_without_weights_all_count_alike() -> None:
    assert judged(weighted([exact(), includes()]), "it is paris", "paris") == 0.5


def test_what_does_not_pass_the_gate_scores_nothing_and_is_not_asked() -> None:
    assert judged(gated(said, said, at_least=0.5), 0.5) == 0.5
    assert judged(gated(said, never, at_least=0.5), 0.4) == 0.0
    assert judged(gated(exact(), never), "a", "b") == 0.0


def test_a_condition_chooses_who_judges() -> None:
    assert judged(conditional(said, said, never, at_least=0.5), 0.7) == 0.7
    assert judged(conditional(said, never, twice, at_least=0.5), 0.2) == 0.4
    assert judged(conditional(exact(), "rouge", match()), "the cat", "the cat") == {
        "rouge1": 1.0,
        "rouge2": 1.0,
        "rougeL": 1.0,
    }


def test_a_cascade_ends_where_the_question_is_decided() -> None:
    assert judged(cascade([said, never], accept=0.9, reject=0.1), 0.9) == {"value": 0.9, "by": "said"}
    assert judged(cascade([said, never], accept=0.9, reject=0.1), 0.1) == {"value": 0.1, "by": "said"}
    assert judged(cascade([said, twice], accept=0.9, reject=0.1), 0.5) == {"value": 1.0, "by": "twice"}
    assert judged(cascade([exact(), never]), "a", "a") == {"value": 1.0, "by": "exact"}
    assert judged(cascade([exact(), fuzzy()]), "a", "b") == {"value": 0.0, "by": "fuzzy"}


def test_combinations_combine() -> None:
    inner = cascade([exact(), fuzzy()])
    assert judged(weighted([inner, pick(rouge(), "rouge1")]), "the cat", "the dog") == pytest.approx(
        (judged(fuzzy(), "the cat", "the dog") + 0.5) / 2
    )


def test_the_whole_is_awaited_if_a_part_is() -> None:
    made = cascade([exact(), slow])
    assert made.asynchronous
    assert asyncio.run(judged(made, 0.5, 1)) == {"value": 0.5, "by": "slow"}
    assert not cascade([exact(), said]).asynchronous


def test_it_takes_what_its_parts_take() -> None:
    assert weighted([said, never]).takes == {"output"}
    assert weighted([said, exact()]).takes == {"output", "expected"}


def test_a_part_that_fails_fails_the_whole() -> None:
    with pytest.raises(AssertionError, match="it was asked"):
        judged(weighted([exact(), never]), "a", "a")
    with pytest.raises(Invalid, match="needs an expected value"):
        judged(weighted([exact(), said]), 1)


def test_no_answer_is_what_it_is_to_the_parts() -> None:
    assert judged(weighted([exact(), fuzzy()]), NoAnswer("empty"), "a") == 0.0
    assert judged(cascade([exact(), fuzzy()]), NoAnswer("empty"), "a") == {"value": 0.0, "by": "fuzzy"}


def test_a_score_that_is_no_number_cannot_be_weighed() -> None:
    with pytest.raises(
        Invalid, match=r"rouge gives rouge1, rouge2, rougeL: pick one, as in pick\(rouge, 'rouge1'\)"
    ):
        judged(weighted([rouge()]), "a", "a")
    with pytest.raises(Invalid, match="said gives the text 'good', which is no number"):
        judged(weighted([said]), "good")
    with pytest.raises(Invalid, match="rouge gives no 'rouge9'"):
        judged(pick(rouge(), "rouge9"), "a", "a")


def test_labels_name_scores() -> None:
    assert (weighted(["exact"]).name, weighted(["exact"], label="quality").name) == ("weighted", "quality")
    assert digest(weighted(["exact"], label="a").identity) != digest(weighted(["exact"], label="b").identity)


def test_parts_options_and_code_are_the_identity() -> None:
    def other(output: Any) -> Any:
        return output

    known = [
        weighted([exact(), match()]),
        weighted([match(), exact()]),
        weighted([exact(), match("end")]),
        weighted([exact(), match()], [1, 2]),
        cascade([exact(), match()]),
        weighted([exact(), said]),
        weighted([exact(), other]),
    ]
    assert len({digest(one.identity) for one in known}) == len(known)
    assert digest(weighted(["exact", "match"]).identity) == digest(known[0].identity)


@pytest.mark.parametrize(
    "made",
    [
        weighted([exact(), fuzzy("token_sort_ratio")], [1, 2], label="quality"),
        gated(exact(), includes(ignore_case=False), at_least=0.5),
        conditional("exact", "match", cascade(["exact", "fuzzy"], 0.9, 0.1)),
        pick(rouge(["rouge1"]), "rouge1"),
    ],
    ids=lambda made: made.kind,
)
def test_what_is_made_of_built_ins_can_be_written_and_read_again(made: Any) -> None:
    again = as_evaluator({"name": made.kind, **made.identity["config"]})
    assert again == made
    assert digest(again.identity) == digest(made.identity)


def test_what_has_a_function_in_it_has_no_config() -> None:
    assert "config" not in weighted([exact(), said]).identity


@pytest.mark.parametrize(
    "make",
    [
        lambda: weighted([]),
        lambda: weighted("exact"),
        lambda: weighted(["nope"]),
        lambda: weighted(["exact"], [1, 2]),
        lambda: weighted(["exact"], [0]),
        lambda: weighted(["exact"], ["1"]),  # type: ignore[list-item]
        lambda: weighted(["exact"], label=" "),
        lambda: gated("exact", "match", at_least="high"),  # type: ignore[arg-type]
        lambda: cascade(["exact"], accept=0.5, reject=0.5),
        lambda: cascade(["exact"], accept=float("nan")),
        lambda: pick("rouge", 5),  # type: ignore[arg-type]
        lambda: conditional("exact", "match", None),
    ],
)
def test_wrong_options_are_refused(make: Any) -> None:
    with pytest.raises(Invalid):
        make()
