"""Plans that grow, and units that call models and use tools."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import tomli_w

from peira.app.session import Session
from peira.sandbox.confinement import confinement

from .conftest import states

pytestmark = [
    pytest.mark.timeout(300),
    pytest.mark.skipif(isinstance(confinement(), str), reason=f"no sandbox here: {confinement()}"),
]


def proposal(units: dict[str, Any]) -> str:
    return f"cat > $PEIRA_UNITS <<'EOF'\n{tomli_w.dumps({'units': units})}EOF\n"


def writes(path: str, *needs: str, **fields: Any) -> dict[str, Any]:
    run = ["sh", "-c", f"mkdir -p $(dirname {path}); echo $PEIRA_UNIT > {path}"]
    return {"run": run, "may_write": ["src"], "needs": list(needs), **fields}


def test_a_unit_proposes_units_and_who_needs_all_of_them_waits(work) -> None:
    parts = {"x": writes("src/x"), "y": writes("src/y", "x")}
    plan = {
        "plan": {"run": proposal(parts), "grows": 2, "grows_into": ["src"]},
        "all": {"needs": ["plan/*"], "run": "cat src/x src/y > all/all", "may_write": ["all"]},
        "early": {"needs": ["plan"], "run": "true"},
    }
    outcome = work(plan)
    assert states(outcome) == dict.fromkeys(("plan", "plan/x", "plan/y", "all", "early"), "succeeded")
    with Session.find("w.db").reading() as store:
        assert store.get(outcome["all"].artifacts["changes/all/all"]) == b"plan/x\nplan/y\n"
    again = work(plan)
    assert states(again) == states(outcome)
    assert all(one.reused for one in again.units.values())


def test_what_is_proposed_may_propose_more_down_to_the_depth(work) -> None:
    inner = {"run": ["sh", "-c", proposal({"leaf": writes("src/leaf")})], "grows": 1, "grows_into": ["src"]}
    plan = {
        "plan": {"run": proposal({"inner": inner}), "grows": 2, "grows_into": ["src"]},
        "all": {"needs": ["plan/*"], "run": "cat src/leaf"},
    }
    deep = work(plan, depth=2)
    assert states(deep) == dict.fromkeys(("plan", "plan/inner", "plan/inner/leaf", "all"), "succeeded")
    shallow = work(plan, depth=1, store="other.db")
    assert states(shallow) == {"plan": "failed", "all": "blocked"}
    assert "the plan is as deep as it may be (depth)" in shallow["plan"].why


def test_a_bad_proposal_fails_its_proposer_with_every_problem(work) -> None:
    parts = {
        "a": {"run": ["true"], "needs": ["b"], "may_write": ["../x"]},
        "b": {"run": ["true"], "needs": ["a"], "may_write": ["docs"], "confine": False},
        "c": {"run": ["true"], "env": {"K": "$HOME"}, "mounts": ["/root"], "models": "openai:gpt"},
    }
    outcome = work(
        {
            "plan": {"run": proposal(parts), "grows": 2, "grows_into": ["src"]},
            "next": {"needs": ["plan/*"], "run": "true"},
            "wordless": {"run": "echo units = 3 > $PEIRA_UNITS", "grows": 1},
            "silent": {"run": "true", "grows": 1},
        }
    )
    assert states(outcome) == {
        "plan": "failed",
        "next": "blocked",
        "wordless": "failed",
        "silent": "succeeded",
    }
    for said in (
        "3 units, more than the 2 that it may propose (grows)",
        "units.a.may_write: '../x' leads out of the base",
        "units.b.may_write: 'docs' is not in grows_into of plan",
        "units.b.confine: must be confined as plan is",
        "units.c.env: may not take K of this process",
        "units.c.mounts: '/root' is not one of plan",
        "units.c.models: 'openai:gpt' is not one of plan",
        "units: these need each other: a -> b -> a",
    ):
        assert said in outcome["plan"].why


ASK = """
import json, os, urllib.request
def post(url, body):
    headers = {"content-type": "application/json", "authorization": "Bearer " + os.environ["OPENAI_API_KEY"]}
    request = urllib.request.Request(url, json.dumps(body).encode(), headers)
    return json.load(urllib.request.urlopen(request))
def ask(text):
    body = {"model": "any", "messages": [{"role": "user", "content": text}]}
    said = post(os.environ["OPENAI_BASE_URL"] + "/chat/completions", body)
    return said["choices"][0]["message"]["content"]
def tool(name, /, **arguments):
    call = {"name": name, "arguments": arguments}
    body = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": call}
    return post(os.environ["PEIRA_MCP_URL"], body)
"""


def python(code: str, **fields: Any) -> dict[str, Any]:
    return {"run": ["python3", "-c", ASK + code], **fields}


def test_calls_of_units_are_recorded_limited_and_replayed(work, folder: Path, endpoint: Any) -> None:
    model = {"model": f"openai:{endpoint.model}", "price": {"input": 1.0, "output": 2.0}}
    (folder / "peira.toml").write_text(tomli_w.dumps({"models": {"fast": model}}))
    asks = "print(ask('one'))\nprint(ask('two'))\n"
    plan = {
        "asks": python(asks + "import sys; sys.exit(1)", models="fast"),
        "limited": python("ask('three'); ask('four')", models="fast", calls=1),
        "none": python("ask('five')"),
    }
    outcome = work(plan)
    assert states(outcome) == {"asks": "failed", "limited": "exhausted", "none": "failed"}
    assert "its limits" in outcome["limited"].why
    assert outcome["asks"].cost
    assert outcome["asks"].cost > 0
    assert endpoint.bills() == 3
    plan = {"asks": plan["asks"]}
    assert states(work(plan)) == {"asks": "failed"}  # executed again, and its calls are replayed
    assert endpoint.bills() == 3


def test_tools_of_a_unit_give_its_value_and_only_those_it_was_given(work) -> None:
    code = (
        "tool('attach', name='n.md', text='hello'); tool('result', value={'answer': 42})\n"
        "print(json.dumps(tool('report', metrics={'x': 1})))"
    )
    outcome = work(
        {
            "a": python(code, tools=["attach", "result"]),
            "b": {"needs": ["a"], "run": "cat $PEIRA_NEEDS/needs.json"},
            "c": python("tool('result', value=1); raise SystemExit(3)", tools=["result"]),
        }
    )
    assert states(outcome) == {"a": "succeeded", "b": "succeeded", "c": "failed"}
    assert outcome["a"].value == {"answer": 42}
    with Session.find("w.db").reading() as store:
        assert store.get(outcome["a"].artifacts["n.md"]) == b"hello"
        assert b"no tool 'report'" in store.get(outcome["a"].artifacts["log.txt"])
        needs = json.loads(store.get(outcome["b"].artifacts["log.txt"]))
    assert needs["a"]["value"] == {"answer": 42}
