"""The recipes of examples/cluster, as far as a machine without a cluster executes them."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

RECIPES = Path(__file__).parents[2] / "examples" / "cluster"


@pytest.fixture
def submitted(folder: Path, postgres_url: str, peira: Any, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """The environment of a worker of a run that was submitted."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(folder / "cache"))
    assert peira("run", "capitals.py", "--workers", "0", "--store", postgres_url).code == 0
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    return {**os.environ, "PATH": path, "PEIRA_STORE": postgres_url}


def executed(command: list[str], env: dict[str, str], peira: Any) -> None:
    """A command of a recipe executes the run to its end."""
    done = subprocess.run(command, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    [run] = peira("runs", "--store", env["PEIRA_STORE"], "--json").document["runs"]
    assert run["status"] == "completed"


def test_the_script_of_a_slurm_array_is_a_worker(submitted, peira) -> None:
    executed(["bash", str(RECIPES / "slurm.sh")], {**submitted, "SLURM_CPUS_PER_TASK": "2"}, peira)


def test_the_command_of_a_kubernetes_job_is_a_worker(submitted, peira) -> None:
    job = yaml.safe_load((RECIPES / "kubernetes.yaml").read_text())
    pod = job["spec"]["template"]["spec"]
    assert (job["kind"], pod["restartPolicy"]) == ("Job", "Never")
    [container] = pod["containers"]
    executed(container["command"], submitted, peira)


@pytest.mark.parametrize("name", ["slurm.sh", "ssh.sh"])
def test_a_script_says_what_it_needs(name: str) -> None:
    env = {name: value for name, value in os.environ.items() if name != "PEIRA_STORE"}
    done = subprocess.run(["bash", str(RECIPES / name)], env=env, capture_output=True, text=True, check=False)
    assert done.returncode != 0
    assert "PEIRA_STORE: is the address of the store" in done.stderr
