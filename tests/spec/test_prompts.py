"""Prompt variants: families with shared parts, variables, messages; and what their levels are grouped by."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from peira import Benchmark, run
from peira.agents.chat import rendered
from peira.core.context import SeenCase
from peira.errors import Invalid
from peira.spec.benchmark import Prompt

COT = {
    "family": "cot",
    "template": "{{ lead }} {{ input }}",
    "system": "Be {{ tone }}.",
    "parameters": {"temperature": 0},
    "variables": {"tone": "kind"},
    "variants": {
        "short": {"lead": "Think."},
        "long": {"lead": "Think step by step.", "tone": "terse", "parameters": {"max_tokens": 9}},
    },
}
TALK = {
    "name": "talk",
    "messages": [{"role": "assistant", "content": "Ask."}, {"role": "user", "content": "{{ input }}"}],
}


def made(*prompts: Any) -> Benchmark:
    rows = [{"q": f"{n}?", "a": str(n)} for n in range(4)]
    return Benchmark(
        name="b",
        data={"rows": rows, "input": "q", "expected": "a"},
        prompts=list(prompts),
        evaluators=["includes"],
    )


def test_a_family_shares_what_it_states_and_variants_add_to_it() -> None:
    short, long = made(COT).prompts
    assert (short.name, long.name, long.family) == ("cot/short", "cot/long", "cot")
    assert short.variables == {"tone": "kind", "lead": "Think."}
    assert long.variables == {"tone": "terse", "lead": "Think step by step."}
    assert (short.parameters, long.parameters) == ({"temperature": 0}, {"temperature": 0, "max_tokens": 9})
    case = SeenCase("2 + 2?", "c")
    assert rendered(case, {"template": short.template, "variables": short.variables}) == "Think. 2 + 2?"


def test_messages_are_rendered_one_by_one() -> None:
    (talk,) = made(TALK).prompts
    assert rendered(SeenCase("2 + 2?", "c"), {"messages": list(talk.messages)}) == [
        {"role": "assistant", "content": "Ask."},
        {"role": "user", "content": "2 + 2?"},
    ]


def test_families_are_chosen_grouped_and_compared(tmp_path: Path) -> None:
    bench = made({"name": "plain", "family": "bare", "template": "{{ input }}"}, COT, TALK)
    whole = bench.compile("scripted:echo", variants=["cot", "plain", "talk"])
    results = run(whole, store=tmp_path / "s.db", progress=False)
    rows = {row.labels: row.n for row in results.table("prompt.family").body}
    assert rows == {("bare",): 4, ("cot",): 8, (None,): 4}
    assert {row.labels for row in results.table("prompt.tone").body} == {("kind",), ("terse",), (None,)}
    assert len(results.compare("prompt.family", "cot", "bare").contrasts) == 1
    assert len(results.where("prompt.family == 'cot'").trials) == 8
    asked = {trial.output for trial in results.where("prompt == 'cot/long'").trials}
    assert "Think step by step. 0?" in asked


def test_a_family_changes_no_trial(tmp_path: Path) -> None:
    plain = {"name": "plain", "template": "{{ input }}"}
    run(made(plain).compile("scripted:echo"), store=tmp_path / "s.db", progress=False)
    again = run(
        made({**plain, "family": "bare"}).compile("scripted:echo"),
        store=tmp_path / "s.db",
        progress=False,
    )
    assert again.counts["reused"] == 4


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"name": "p"}, "give either a template or messages"),
        ({"name": "p", "template": "x", "messages": TALK["messages"]}, "give either a template or"),
        ({"name": "p", "template": "{{ tone }}"}, "template: there is no 'tone'"),
        ({"name": "p", "template": "x", "system": "{{ tone }}"}, "system: there is no 'tone'"),
        ({"name": "p", "template": "x", "variables": {"input": 1}}, "'input' is given by the case"),
        ({"name": "p", "messages": [{"role": "user"}]}, r"messages\[0\]: needs a role"),
        ({"name": "p", "messages": [{"role": "dog", "content": "x"}]}, r"messages\[0\]: needs a role"),
    ],
)
def test_what_cannot_be_asked_is_refused(given: dict[str, Any], said: str) -> None:
    with pytest.raises(Invalid, match=said):
        Prompt(**given)


def test_families_without_a_name_or_variants_are_refused() -> None:
    for wrong in ({"template": "x", "variants": {"a": {}}}, {"family": "f", "variants": []}):
        with pytest.raises(Invalid, match="needs a family, and a table of variants"):
            made(wrong)
    with pytest.raises(Invalid, match=r"variants\.a: must be a table"):
        made({"family": "f", "template": "x", "variants": {"a": 1}})
