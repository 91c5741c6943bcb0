"""What is wrong with a plan is said at once, before anything runs."""

from __future__ import annotations

import pytest

from peira import unit
from peira.errors import Invalid
from peira.spec.work.files import read_plan
from peira.spec.work.problems import Dependencies, topological


def problems(units: object, **fields: object) -> list[str]:
    with pytest.raises(Invalid) as raised:
        read_plan({"units": units, **fields})
    return list(raised.value.problems)


def command(*needs: str, **fields: object) -> dict[str, object]:
    return {"run": ["true"], "needs": list(needs), **fields}


def test_every_problem_is_said_at_once() -> None:
    found = problems(
        {
            "api": command("shcema", may_write=["src"]),
            "schema": command(may_write=["src/schema", "../out", "/etc"]),
            "a": command("b"),
            "b": command("c"),
            "c": command("a"),
            "words": {"run": "echo hi"},
            "late": command(tme="3m", time="soon"),
        },
        parallel=0,
        bas=".",
    )
    text = "\n".join(found)
    assert "units.api.needs: there is no unit 'shcema'; did you mean 'schema'?" in found
    assert "units: these need each other: a -> b -> c -> a" in found
    assert "units.schema.may_write: '../out' leads out of the base" in found
    assert "units.schema.may_write: '/etc' leads out of the base" in found
    assert "units: api and schema may both write src/schema, and neither needs the other; " in text
    assert "parallel: must be between 1 and 10,000, not 0" in found
    assert "bas: is not a part of a work plan; did you mean 'base'?" in found
    assert "units.late.tme: is not known here; did you mean 'time'?" in found
    assert any(line.startswith("units.late.time: ") for line in found)
    assert "units.words.run: write its words as a list: ['echo', 'hi']" in found


def test_units_may_write_the_same_place_if_one_needs_the_other() -> None:
    read_plan(
        {"units": {"a": command(may_write=["x"]), "b": command("a"), "c": command("b", may_write=["."])}}
    )
    assert problems({"a": command(may_write=["x/y"]), "c": command(may_write=["."])})
    assert problems({"a": command(may_write=["x"]), "c": command(may_write=["./x/"])})
    read_plan({"units": {"a": command(may_write=["x"]), "b": command(may_write=["xy"])}})


def test_nothing_of_git_and_no_patterns_may_be_written() -> None:
    assert problems({"a": command(may_write=[".git/hooks"])}) == [
        "units.a.may_write: '.git/hooks' is in a git folder, which no unit may change"
    ]
    assert problems({"a": command(may_write=["src/*"])}) == [
        "units.a.may_write: 'src/*' is a pattern; name folders and files"
    ]


def test_units_in_python_have_unique_names_and_a_function_has_no_files() -> None:
    with pytest.raises(Invalid) as raised:
        read_plan([unit("a", len), unit("a", len), unit("b", len, may_write=["x"])])
    assert raised.value.problems == (
        "units.a: is given 2 times",
        "units.b.may_write: a function has none",
    )


def test_what_a_unit_may_propose_counts_as_written() -> None:
    grower = command(grows=3, grows_into=["src"])
    assert problems({"plan": grower, "a": command(may_write=["src/a"])})
    found = problems({"plan": grower, "a": command("plan", may_write=["src/a"])})
    assert found == ['units: a may write src/a, and so may what plan proposes; let it need "plan/*"']
    read_plan({"units": {"plan": grower, "a": command("plan/*", may_write=["src/a"])}})
    assert problems({"a": command(), "b": command("a/*")}) == [
        "units.b.needs: 'a' proposes no units; write 'a'"
    ]


def test_the_identity_of_a_unit_counts_what_it_does_and_not_its_limits() -> None:
    one = unit("a", ["true"], may_write=["x"], time="5m", priority=3)
    assert one.digest == unit("a", ["true"], may_write=["x"]).digest
    others = [
        unit("b", ["true"], may_write=["x"]),
        unit("a", ["false"], may_write=["x"]),
        unit("a", ["true"], may_write=["y"]),
        unit("a", ["true"], may_write=["x"], task="more"),
        unit("a", ["true"], may_write=["x"], check=["true"]),
        unit("a", ["true"], may_write=["x"], env={"A": "1"}),
    ]
    assert len({one.digest, *(other.digest for other in others)}) == 7


def test_a_plan_of_10000_units_is_checked_without_comparing_all_with_all() -> None:
    units = {f"u{n}": command(*([f"u{n - 1}"] if n else []), may_write=[f"d/{n}"]) for n in range(10_000)}
    plan = read_plan({"units": units})
    assert topological({one.name: one.needs for one in plan.units})[-1] == "u9999"
    assert len(Dependencies({one.name: one.needs for one in plan.units})["u500"]) == 500
