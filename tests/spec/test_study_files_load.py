from __future__ import annotations

import json
import tempfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from peira.core.ids import canonical, digest
from peira.errors import Invalid
from peira.evaluators import exact, match, numeric
from peira.evaluators.function import from_function
from peira.spec.case import Case, case_ids, seen_digest
from peira.spec.constraints import Constraint
from peira.spec.factors import Factor, Level
from peira.spec.modules import load_file
from peira.spec.study import Study, study
from peira.spec.study_files import dump, load, restore, save, snapshot

CODE = """
from peira.spec.case import Case
from peira.spec.study import study

def answer(case, model, style):
    return model

def close(output, expected):
    return output == expected

def sensible(model, style):
    return model != "b" or style != "long"

capitals = study(
    name="capitals", agent=answer,
    cases=[Case("Capital of France?", expected="Paris"), ("Capital of Japan?", "Tokyo")],
    factors={"model": ["a", "b"], "style": ["plain", "long"]}, constraints=[sensible],
    repeats=5, seed=7, evaluators=["exact", close], policy={"timeout": "90s"},
)
"""
TOML = """
name = "capitals"
agent = "capitals.py:answer"
cases = "capitals.jsonl"
evaluators = ["exact", "capitals.py:close"]
constraints = ["capitals.py:sensible"]
repeats = 5
seed = 7
[factors]
model = ["a", "b"]
style = ["plain", "long"]
[policy]
timeout = 90
"""
YAML = """
name: capitals
agent: capitals.py:answer
cases: [["Capital of France?", Paris], {input: "Capital of Japan?", expected: Tokyo}]
evaluators: [exact, "capitals.py:close"]
constraints: ["capitals.py:sensible"]
repeats: 5
seed: 7
factors: {model: [a, b], style: {levels: [plain, {value: long}]}}
policy: {timeout: 1.5m}
"""


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "capitals.py").write_text(CODE)
    (tmp_path / "capitals.toml").write_text(TOML)
    (tmp_path / "capitals.yaml").write_text(YAML)
    rows = [("Capital of France?", "Paris"), ("Capital of Japan?", "Tokyo")]
    (tmp_path / "capitals.jsonl").write_text(
        "".join(json.dumps({"input": q, "expected": a}) + "\n" for q, a in rows)
    )
    (tmp_path / "capitals.json").write_text(json.dumps(dump(load(tmp_path / "capitals.py"), tmp_path)))
    return tmp_path


def identities(study):
    cases = study.case_sets[""]
    return (
        study.agents,
        {factor.name: [digest(v) for v in factor.values] for factor in study.factors},
        [seen_digest(case, id) for case, id in zip(cases, case_ids(cases), strict=True)],
        [digest(e.identity) for e in study.resolved_evaluators()],
    )


def test_every_format_gives_the_same_study(folder):
    studies = [load(f"capitals.{kind}", folder) for kind in ("py", "toml", "yaml", "json")]
    assert all(one == studies[0] for one in studies)
    assert all(identities(one) == identities(studies[0]) for one in studies)


def test_relative_files_are_relative_to_the_study_file(folder, monkeypatch, tmp_path_factory):
    monkeypatch.chdir(tmp_path_factory.mktemp("elsewhere"))
    assert load(folder / "capitals.toml").agents == load(folder / "capitals.py").agents


@pytest.mark.parametrize("kind", ["toml", "yaml", "yml", "json"])
def test_saving_and_loading_gives_the_same_study(folder, kind):
    original = load("capitals.toml", folder)
    (folder / "deep").mkdir()
    save(original, folder / "deep" / f"saved.{kind}")
    saved = load(f"deep/saved.{kind}", folder)
    assert saved == original
    assert saved.sources == original.sources, "cases in a file stay there"


def test_a_study_in_a_python_file_is_named_or_alone(folder):
    assert load("capitals.py:capitals", folder) is load("capitals.py", folder)
    (folder / "two.py").write_text(
        CODE + "\nother = study(agent=answer, cases=['q'], factors=capitals.factors)\n"
    )
    (folder / "none.py").write_text("x = 1\n")
    with pytest.raises(Invalid, match=r"several studies in two.py: write two.py:capitals or two.py:other"):
        load("two.py", folder)
    with pytest.raises(Invalid, match=r"there is no study in none.py"):
        load("none.py", folder)
    with pytest.raises(Invalid, match=r"answer in capitals.py is not a study; decorate it with @study"):
        load("capitals.py:answer", folder)
    with pytest.raises(Invalid, match="did you mean 'capitals'"):
        load("capitals.py:capitls", folder)
    with pytest.raises(Invalid, match=r"is no study; use file.py"):
        load("capitals.txt", folder)


def test_the_name_of_a_study_file_is_the_studys_unless_it_says_one(folder):
    (folder / "plain.toml").write_text(
        'agent = "capitals.py:close"\ncases = ["q"]\n[factors]\noutput=[1]\nexpected=[1]\n'
    )
    assert load("plain.toml", folder).name == "plain"


@pytest.mark.parametrize(
    ("name", "text", "problem"),
    [
        ("bad.toml", "a = \n", "bad.toml: Invalid value"),
        ("bad.json", "[1, 2]", "bad.json must hold the parts of a study"),
        ("bad.json", '{"seed": 1, "seed": 2}', "the key 'seed' is given twice"),
        ("bad.yaml", "a: [", "bad.yaml: while parsing"),
        ("bad.yaml", "factors: {x: [1]}\nfactors: {y: [1]}\n", "the key 'factors' is given twice"),
        ("bad.yaml", "factors: {on: [1]}\n", "line 1: the key True is not text; write it in quotes"),
        ("bad.yaml", "a: !!python/object:os.system x\n", "could not determine a constructor"),
    ],
)
def test_a_bad_file_is_told_in_one_line(tmp_path, name, text, problem):
    (tmp_path / name).write_text(text)
    with pytest.raises(Invalid) as caught:
        load(name, tmp_path)
    [found] = caught.value.problems
    assert problem in found
    assert "\n" not in found


def test_a_snapshot_needs_none_of_the_case_files(folder):
    original = load("capitals.toml", folder)
    kept = json.loads(json.dumps(snapshot(original)))
    (folder / "capitals.jsonl").unlink()
    assert restore(kept) == original
    assert restore(snapshot(original, folder), folder) == original
    assert restore(snapshot(original, cases=False)).case_sets == {"": ()}


def test_a_snapshot_outlives_the_code(folder):
    kept = snapshot(load("capitals.toml", folder))
    (folder / "capitals.py").unlink()
    restored = restore(kept)
    assert list(restored.agents) == ["answer"]
    assert [e.name for e in restored.resolved_evaluators()] == ["exact", "close"]
    with pytest.raises(Invalid, match=r"answer cannot be used: there is no file .*capitals.py"):
        restored("case", "a", "plain")
    with pytest.raises(Invalid, match="close cannot be used"):
        restored.resolved_evaluators()[1].judge({"output": 1})


def test_a_snapshot_outlives_a_change_of_the_code(folder):
    kept = snapshot(load("capitals.toml", folder))
    (folder / "capitals.py").write_text("def answer(case):\n    return 2\n")
    restored = restore(kept)
    assert restored.agents["answer"](None) == 2
    assert [factor.name for factor in restored.factors] == ["model", "style"]


def test_code_without_a_name_is_kept_as_missing():
    made = study(lambda case: 1, cases=["q"], evaluators=[lambda output: 1], constraints=[lambda **all: True])
    kept = json.loads(json.dumps(snapshot(made)))
    assert kept["agent"] == {"missing": "lambda"}
    restored = restore(kept)
    assert list(restored.agents) == ["lambda"]
    with pytest.raises(Invalid, match="lambda cannot be used: it had no name in a file"):
        restored("q")
    with pytest.raises(Invalid, match="cannot be used"):
        restored.constraints[0].admits({"a": 1})
    labelled = restore(snapshot(study(agents={"x": lambda case: 1}, cases=["q"])))
    assert labelled.labelled
    assert list(labelled.agents) == ["x"]


def test_code_without_a_name_cannot_be_saved(tmp_path):
    made = study(lambda case: 1, cases=["q"], evaluators=[lambda output: 1])
    with pytest.raises(Invalid) as caught:
        save(made, tmp_path / "x.json")
    assert [p.split(":")[0] for p in caught.value.problems] == ["agent", "evaluators[0]"]
    assert not (tmp_path / "x.json").exists()


def test_toml_has_no_null(tmp_path):
    made = study(lambda_with_a_name, cases=[{"input": {"x": None}}], factors={"y": [None, 1]})
    with pytest.raises(Invalid) as caught:
        save(made, tmp_path / "x.toml")
    assert [p.split(":")[0] for p in caught.value.problems] == ["cases[0].input.x", "factors.y[0]"]
    save(made, tmp_path / "x.json")
    assert load(tmp_path / "x.json").name == made.name


def lambda_with_a_name(case, y):
    return y


@pytest.mark.parametrize("kind", ["json", "yaml", "toml"])
@pytest.mark.parametrize(
    "value",
    [
        "\x85",
        "a\u2028b",
        "\ufeff",
        " two\n lines \n",
        "no",
        "1e5",
        "2024-01-01",
        "~",
        1e22,
        0.1,
        {"value": 1},
        [[]],
    ],
)
def test_values_that_a_format_could_mistake(tmp_path, kind, value):
    levels = [Level(value), Level({"value": {"value": value}})]
    made = study(lambda_with_a_name, cases=[(value, value)], factors=[Factor("y", levels)])
    save(made, tmp_path / f"x.{kind}")
    loaded = load(tmp_path / f"x.{kind}")
    assert loaded.case_sets == made.case_sets
    assert loaded.factors == made.factors


def polite(output):
    return "please" in output


def test_evaluators_that_were_made_are_written_with_their_options(tmp_path):
    made = study(
        lambda_with_a_name,
        cases=[Case("q", evaluators=[exact()])],
        factors={"y": [1]},
        evaluators=[numeric(tolerance=0.25), match(), from_function(polite)],
    )
    save(made, tmp_path / "x.toml")
    loaded = load(tmp_path / "x.toml")
    assert [e.identity for e in loaded.resolved_evaluators()] == [
        e.identity for e in made.resolved_evaluators()
    ]
    [case] = loaded.case_sets[""]
    assert [e.identity for e in case.resolved_evaluators()] == [exact().identity]


scalars = (
    st.booleans()
    | st.integers(-(2**53) + 1, 2**53 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text()
)
texts = st.text(st.characters(codec="utf-8"))
plain = st.recursive(
    scalars | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=6,
).filter(lambda value: _is_utf8(value))
labels = texts.filter(bool)


def _is_utf8(value):
    try:
        json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        return False
    return True


cases = st.builds(
    Case,
    plain,
    st.none() | plain,
    slice=st.none() | labels,
    cluster=st.none() | labels,
    metadata=st.dictionaries(texts, plain, max_size=2),
    evaluators=st.sampled_from([(), ("exact",), ({"name": "numeric", "tolerance": 0.5},)]),
)
levels = st.lists(
    plain.map(Level)
    | st.tuples(plain, st.dictionaries(texts, plain, max_size=1)).map(
        lambda drawn: Level(drawn[0], metadata=drawn[1])
    ),
    min_size=1,
    max_size=3,
    unique_by=lambda level: digest(level.value),
)
factors = st.tuples(levels, levels, st.booleans()).map(
    lambda drawn: (
        Factor("model", drawn[0], baseline=drawn[0][0].value if drawn[2] else None),
        Factor("style", drawn[1], description="how", kind="nuisance"),
    )
)


@given(
    cases=st.lists(cases, min_size=1, max_size=3)
    | st.dictionaries(labels, st.lists(cases, min_size=1, max_size=2), min_size=1, max_size=2).filter(
        lambda sets: "input" not in sets
    ),
    factors=factors,
    seed=st.integers(-5, 2**53 - 1),
    title=texts,
    tags=st.lists(texts, max_size=2),
    labelled=st.booleans(),
    kind=st.sampled_from(["json", "yaml", "toml"]),
)
def test_any_study_survives_its_file(cases, factors, seed, title, tags, labelled, kind):
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "code.py").write_text("def f(case, model, style):\n    return 1\n")
        fn = load_file(folder / "code.py").f
        agent = {"agents": {"the one": fn}} if labelled else {"agent": fn}
        made = Study(
            **agent,
            name="a study",
            cases=cases,
            factors=factors,
            seed=seed,
            title=title,
            tags=tags,
            constraints=[Constraint("model == style or true", message="m", severity="warning")],
            evaluators=["exact", {"name": "numeric", "tolerance": 0.25}],
            outcomes=[{"name": "exact", "primary": True}],
            hypotheses=[{"id": "h", "factor": "model", "alpha": 0.01}],
            budget={"trials": 5, "excess": "subset"},
            policy={"max_failures": 0.5, "backoff": "1s"},
        )
        save(made, folder / f"saved.{kind}")
        loaded = load(folder / f"saved.{kind}")
        assert canonical(snapshot(loaded)) == canonical(snapshot(made))
        assert loaded == made
        assert restore(json.loads(json.dumps(snapshot(made)))) == made
