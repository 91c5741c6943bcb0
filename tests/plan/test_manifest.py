"""What a run keeps of its plan is enough: to read it, and to run it with the code it had."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from peira import Case, evaluate, run, study
from peira.core.codec import encode
from peira.core.ids import digest_bytes
from peira.errors import Invalid
from peira.plan.expansion import Plan, expand
from peira.plan.manifest import keep, layout_of, read
from peira.plan.order import shuffled
from peira.plan.rebuild import rebuild
from peira.plan.stored_cases import StoredCases
from peira.spec.study import Study
from peira.spec.study_files import load
from peira.stores.memory import MemoryStore

Make = Callable[..., Study]

VARIANTS: dict[str, dict[str, Any]] = {
    "plain": {},
    "repeats, seed": {"repeats": 3, "seed": 9},
    "case sets": {"cases": {"x": ["1", "2"], "y": [{"input": 1e20, "metadata": {"é": [1.5, None]}}]}},
    "equal cases": {"cases": ["same", "same", ("same", "expected")]},
    "constraints": {"constraints": ["style != 'a'"]},
    "blocks": {"blocks": {"day": [1, 2]}},
    "levels of all kinds": {"factors": {"style": [None, True, 1, 1.5, "x", [1, {"a": 2}], {"value": 3}]}},
    "a range": {"factors": {"style": {"low": 0, "high": 1}}, "design": {"name": "sobol", "runs": 4}},
    "a budget": {"budget": {"trials": 2, "excess": "subset"}},
    "evaluators": {"evaluators": ["exact", {"name": "numeric", "tolerance": 0.5}]},
    "a case's own evaluators": {"cases": [{"input": "one", "evaluators": ["exact"]}, "two"]},
}


@pytest.fixture
def blobs() -> dict[str, bytes]:
    return {}


@pytest.fixture
def kept(blobs: dict[str, bytes]) -> Callable[[Plan], Any]:
    """The manifest of a plan, as it is read back."""

    def put(data: bytes) -> str:
        blobs[digest_bytes(data)] = data
        return digest_bytes(data)

    return lambda plan: read(keep(plan, put), blobs.__getitem__)


def trials(plan: Plan) -> list[tuple[str, Any, Any, int]]:
    layout = plan.layout
    return [(layout.trial_id(p), p.condition.shown, p.case, p.repeat) for p in layout.places()]


@pytest.mark.parametrize("fields", VARIANTS.values(), ids=VARIANTS.keys())
def test_the_layout_is_in_the_manifest_alone(
    make: Make, kept: Any, blobs: dict[str, bytes], fields: dict[str, Any]
) -> None:
    for options in ({}, {"generation": 2}, {"limit": 2}, {"where": "repeat == 0"}):
        plan = expand(make(**fields), **options)
        layout = layout_of(kept(plan), blobs.__getitem__)
        assert [(layout.trial_id(p), p.case, p.repeat) for p in layout.places()] == [
            (id, case, repeat) for id, _, case, repeat in trials(plan)
        ]
        assert list(layout.in_run_order()) == list(plan.layout.in_run_order())


@pytest.mark.parametrize("fields", VARIANTS.values(), ids=VARIANTS.keys())
def test_a_plan_is_rebuilt_as_it_was(
    make: Make, kept: Any, blobs: dict[str, bytes], folder: Path, fields: dict[str, Any]
) -> None:
    plan = expand(make(**fields), generation=1)
    again = rebuild(kept(plan), blobs.__getitem__, folder / "code")
    assert trials(again) == trials(plan)
    assert again.common == plan.common
    assert again.evaluators.keys() == plan.evaluators.keys()
    assert [c.shown for c in again.refused] == [c.shown for c in plan.refused]
    assert trials(expand(again.study, generation=1)) == trials(plan)
    assert not (folder / "code").exists()  # nothing had changed, so nothing was laid out


def test_equal_plans_are_kept_once(make: Make, kept: Any, blobs: dict[str, bytes]) -> None:
    kept(expand(make()))
    before = dict(blobs)
    kept(expand(make()))
    assert blobs == before


def test_a_manifest_reads_back_as_it_was_written(make: Make, kept: Any) -> None:
    manifest = kept(expand(make(repeats=2), limit=3, where="style == 'a'"))
    assert (manifest.study, manifest.repeats, manifest.limit, manifest.where) == ("s", 2, 3, "style == 'a'")
    assert encode(manifest) == encode(manifest)
    assert [part.label for part in manifest.agents] == ["answer"]


@pytest.mark.parametrize("gone", [False, True])
def test_the_code_is_as_it_was_though_the_file_is_not(
    make: Make, kept: Any, blobs: dict[str, bytes], folder: Path, gone: bool
) -> None:
    plan = expand(make())
    manifest = kept(plan)
    file = folder / "agent.py"
    if gone:
        file.unlink()
    else:
        file.write_text(file.read_text().replace('"> "', '"changed "'))
    again = rebuild(manifest, blobs.__getitem__, folder / "code")
    assert trials(again) == trials(plan)
    answer = again.study.function
    place = next(again.layout.places())
    assert answer(place.case.as_seen(), "!") == "> one!"


def test_a_run_goes_on_with_its_old_code_by_its_id(folder: Path) -> None:
    source = """
from peira import Case, exact, study
import words

@study(cases=[Case("a", expected="A"), Case("b", expected="B")], evaluators=[exact()])
def shout(case):
    return words.upper(case.input)
"""
    (folder / "s.py").write_text(source)
    (folder / "words.py").write_text("def upper(text):\n    return text.upper()\n")
    store = str(folder / "w.db")
    first = run("s.py", store=store, limit=1, progress=False)
    (folder / "s.py").unlink()
    (folder / "words.py").unlink()
    script = (
        "import sys; from peira import run\n"
        "results = run(sys.argv[1], store=sys.argv[2], limit=2, progress=False)\n"
        "print(sorted(t.output for t in results.trials), sum(t.reused for t in results.trials))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, first.run_id, store], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "['A', 'B'] 1"


def test_a_helper_that_changed_meanwhile_is_as_it_was(
    kept: Any, blobs: dict[str, bytes], folder: Path
) -> None:
    """Also in the process that has imported the new one under the same name."""
    (folder / "s.py").write_text(
        "import lend\nfrom peira import study\n\n@study(cases=['a'])\ndef f(case):\n    return lend.g(case)\n"
    )
    (folder / "lend.py").write_text("def g(case):\n    return 1\n")
    plan = expand(load("s.py"))
    manifest = kept(plan)
    (folder / "s.py").write_text((folder / "s.py").read_text() + "\nx = 1\n")
    (folder / "lend.py").write_text("def g(case):\n    return 2\n")
    del sys.modules["lend"]
    changed = expand(load("s.py"))
    assert trials(changed) != trials(plan)
    again = rebuild(manifest, blobs.__getitem__, folder / "code")
    assert trials(again) == trials(plan)
    assert again.study.function("x") == 1


def test_lost_code_is_said(make: Make, kept: Any, blobs: dict[str, bytes], folder: Path) -> None:
    def nameless(case: Any, style: Any) -> Any:
        return case.input

    plan = expand(make(agents={"x": nameless}))
    manifest = kept(plan)
    assert len(list(layout_of(manifest, blobs.__getitem__).places())) == 4  # it can still be read
    with pytest.raises(Invalid, match="agent x: its code as of that run cannot be had any more"):
        rebuild(manifest, blobs.__getitem__, folder / "code")


def test_a_stored_run_is_scored_anew_without_its_file(folder: Path) -> None:
    (folder / "s.py").write_text(
        "from peira import study\n\n@study(cases=[('a', 'A')])\ndef f(case):\n    return 'A'\n"
    )
    store = MemoryStore()
    results = run("s.py", store=store, progress=False)
    (folder / "s.py").unlink()
    rescored = evaluate(results, ["exact"])
    assert [row.score.value for row in rescored.scores] == [True]


value = st.recursive(
    st.one_of(
        st.none(), st.booleans(), st.integers(-9, 9), st.floats(-1e30, 1e30), st.text("aé😀\n", max_size=2)
    ),
    lambda inner: st.one_of(
        st.lists(inner, max_size=2), st.dictionaries(st.text("ab", max_size=1), inner, max_size=2)
    ),
    max_leaves=4,
)


@pytest.fixture(scope="module")
def echo(tmp_path_factory: pytest.TempPathFactory) -> str:
    file = tmp_path_factory.mktemp("echo") / "echo.py"
    file.write_text("def echo(case, level):\n    return [case.input, level]\n")
    return f"{file}:echo"


@settings(max_examples=25)
@given(st.lists(value, min_size=1, max_size=3), value, st.integers(-99, 99))
def test_any_values_survive_in_a_manifest(echo: str, inputs: list[Any], level: Any, seed: int) -> None:
    store = MemoryStore()
    cases = [{"input": given} for given in inputs]
    said = {"agent": echo, "cases": cases, "factors": {"level": [{"value": level}]}, "seed": seed}
    plan = expand(Study.assemble(said, [Path()]))
    manifest = read(keep(plan, store.put), store.get)
    layout = layout_of(manifest, store.get)
    assert [(layout.trial_id(p), p.case) for p in layout.places()] == [
        (id, c) for id, _, c, _ in trials(plan)
    ]
    assert trials(rebuild(manifest, store.get, Path("nowhere"))) == trials(plan)


def test_a_plan_stored_before_orders_had_versions_keeps_its_order(
    kept: Callable[[Plan], Any], blobs: dict[str, bytes]
) -> None:
    """The manifest of a new plan names the version; one without it resumes in the order of the first."""
    plan = expand(Study(agent=lambda case, m: m, cases=[1, 2, 3, 4], factors={"m": [1, 2, 3]}))
    manifest = kept(plan)
    assert manifest.order_version == plan.layout.order_version == 2
    assert list(layout_of(manifest, blobs.__getitem__).in_run_order()) == list(plan.layout.in_run_order())
    old = msgspec.structs.replace(manifest, order_version=1)
    assert b"order_version" not in encode(old)
    order = list(layout_of(old, blobs.__getitem__).in_run_order())
    assert order == list(shuffled(12, 0, "", 1)) != list(plan.layout.in_run_order())


def test_cases_that_are_decoded_one_by_one_are_those_decoded_together() -> None:
    texts = [f"{n} ü " + "x" * 90_000 for n in range(200)]
    cases = [Case(text, expected={"n": [n]}, metadata={"a": n}) for n, text in enumerate(texts)]
    work = study(cases=cases, evaluators=["exact"], repeats=2)(lambda case: case.input)
    small = study(cases=cases[:3], evaluators=["exact"], repeats=2)(lambda case: case.input)
    layouts = []
    for one in (work, small):
        blobs: dict[str, bytes] = {}

        def put(data: bytes, into: dict[str, bytes] = blobs) -> str:
            into[digest_bytes(data)] = data
            return digest_bytes(data)

        plan = expand(one)
        layouts.append(layout_of(read(keep(plan, put), blobs.__getitem__), blobs.__getitem__))
        assert [*map(layouts[-1].trial_id, layouts[-1].places())] == [
            *map(plan.layout.trial_id, plan.layout.places())
        ]
    stored, planned = layouts[0].case_sets[""], layouts[1].case_sets[""]
    assert isinstance(stored, StoredCases)
    assert isinstance(planned, list)
    assert stored[:3] == planned
    assert (stored[-1].metadata, stored[199].expected, len([*stored])) == ({"a": 199}, {"n": [199]}, 200)
    with pytest.raises(IndexError):
        stored[200]
