from __future__ import annotations

import pytest

from peira.core.registry import Registry
from peira.errors import Invalid
from peira.spec.limits import Policy
from peira.spec.project import Project
from peira.spec.study import Study
from peira.spec.study_files import snapshot


def answer(case):
    return 1


def test_the_nearest_project_upward_is_found(tmp_path):
    (tmp_path / "peira.toml").write_text(
        'seed = 7\nstore = "results/all.db"\nparallel = 4\nrunner = "process"\nprogress = false\n'
        'plugins = ["mine:register"]\n[policy]\nretries = 2\ntimeout = "5m"\n'
        '[models]\nsmall = "local:smollm2"\n'
    )
    deep = tmp_path / "a" / "b"
    deep.mkdir(parents=True)
    project = Project.find(deep)
    assert project.folder == tmp_path.resolve()
    assert (project.seed, project.parallel, project.runner, project.progress) == (7, 4, "process", "none")
    assert project.store_path == str(tmp_path.resolve() / "results" / "all.db")
    assert project.policy == Policy(retries=2, timeout=300)
    assert project.models == {"small": "local:smollm2"}
    (tmp_path / "a" / "peira.toml").write_text('store = "postgresql://host/db"\n')
    assert Project.find(deep).store_path == "postgresql://host/db"


def test_without_a_file_there_are_defaults(tmp_path):
    project = Project.find(tmp_path)
    assert project.store_path == str(tmp_path.resolve() / ".peira" / "peira.db")
    assert (project.seed, project.parallel, project.runner) == (None, None, "local")


def test_every_problem_of_the_file_at_once(tmp_path):
    (tmp_path / "peira.toml").write_text('sead = 1\nparallel = 0\nfolder = "x"\n[policy]\nretrys = 1\n')
    with pytest.raises(Invalid) as caught:
        Project.find(tmp_path)
    assert list(caught.value.problems) == [
        "peira.toml: folder: is not known here",
        "peira.toml: parallel: must be at least 1, not 0",
        "peira.toml: policy.retrys: is not known here; did you mean 'retries'?",
        "peira.toml: sead: is not known here; did you mean 'seed'?",
    ]


def test_a_runner_that_is_not_known_is_told_beside_other_problems(tmp_path):
    (tmp_path / "peira.toml").write_text('runner = "proces"\nparallel = 0\n')
    with pytest.raises(Invalid) as caught:
        Project.find(tmp_path)
    assert list(caught.value.problems) == [
        "peira.toml: parallel: must be at least 1, not 0",
        "peira.toml: runner: 'proces' is not known; did you mean 'process'?",
    ]


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("[runners.proces]\n", "runners.proces: is not known here; did you mean 'process'?"),
        ("[runners.process]\nchildren = 2\n", "runners.process: this runner has no options"),
        ("[runners]\nray = 3\n", "runners.ray: must be a table of names and values, not 3"),
        ('foldr = "x"\n', "foldr: is not known here; known: keep, models, parallel"),
    ],
)
def test_what_acts_on_nothing_is_refused(tmp_path, text, problem):
    (tmp_path / "peira.toml").write_text(text)
    with pytest.raises(Invalid) as caught:
        Project.find(tmp_path)
    (told,) = caught.value.problems
    assert told.startswith(f"peira.toml: {problem}")


def test_options_of_a_runner_of_the_projects_own(tmp_path):
    (tmp_path / "own.py").write_text(
        "def register(registry):\n    registry.add('runner', 'mine', lambda options: options)\n"
    )
    (tmp_path / "peira.toml").write_text('plugins = ["own.py"]\n[runners.mine]\nspeed = 2\n')
    assert Project.find(tmp_path).runner_options("mine") == {"speed": 2}


def test_what_the_study_says_goes_before_what_the_project_says():
    project = Project(seed=7, policy={"retries": 2, "timeout": 5})
    plain = project.apply(Study(agent=answer, cases=["q"]))
    assert (plain.seed, plain.policy) == (7, Policy(retries=2, timeout=5))
    assert plain("q") == 1
    assert snapshot(plain)["seed"] == 7
    own = project.apply(Study(agent=answer, cases=["q"], seed=0, policy={"retries": 0}))
    assert (own.seed, own.policy) == (0, Policy(retries=0, timeout=5))
    study = Study(agent=answer, cases=["q"])
    assert Project().apply(study) is study


def test_plug_ins_of_a_project_register(tmp_path):
    (tmp_path / "peira_test_plugin.py").write_text(
        "def register(registry):\n    registry.add('evaluator', 'mine', int)\n"
    )
    registry = Registry()
    Project(folder=tmp_path, plugins=["peira_test_plugin:register"]).load_plugins(registry)
    assert "mine" in registry.names("evaluator")
    with pytest.raises(Invalid) as caught:
        Project(folder=tmp_path, plugins=["peira_test_plugin:nothing", "no_such_module:f", "x"]).load_plugins(
            registry
        )
    assert [p[:24] for p in caught.value.problems] == [f"peira.toml: plugins[{i}]: " for i in range(3)]
