"""The Ray runner, in a network and a namespace of processes of its own: Ray listens on all addresses."""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from peira.errors import Invalid

SUITE = Path(__file__).with_name("ray_cluster.py")
APART = [
    "bwrap",
    "--unshare-net",
    "--unshare-pid",
    "--die-with-parent",
    "--dev-bind",
    "/",
    "/",
    "--proc",
    "/proc",
]


@pytest.mark.timeout(600)
def test_the_whole_suite_on_a_cluster() -> None:
    if importlib.util.find_spec("ray") is None:
        pytest.skip("Ray is not installed: pip install 'peira[ray]'")
    if not shutil.which("bwrap") or subprocess.run([*APART, "true"], check=False).returncode:
        pytest.skip("no network of its own can be made here (bwrap), and Ray listens on all addresses")
    command = [
        *APART,
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-p",
        "no:cacheprovider",
        "-o",
        "filterwarnings=",
    ]
    env = {name: value for name, value in os.environ.items() if not name.startswith(("RAY_", "PYTEST_"))}
    # Whoever would tidy up is killed with the namespace, whose process numbers are always the same.
    folder = tempfile.mkdtemp(prefix="pr-", dir="/tmp")
    Path(folder).chmod(0o755)
    try:
        done = subprocess.run(
            [*command, str(SUITE)],
            env={**env, "TMPDIR": folder},
            capture_output=True,
            text=True,
            check=False,
        )
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    assert done.returncode == 0, done.stdout[-20_000:] + done.stderr[-5_000:]


def test_without_a_cluster_it_says_what_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if importlib.util.find_spec("ray") is None:
        pytest.skip("Ray is not installed: pip install 'peira[ray]'")
    from peira.runners.ray import RayRunner

    monkeypatch.setenv("RAY_TMPDIR", str(tmp_path))
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    with pytest.raises(Invalid, match=r"no cluster runs on this machine: start one \(ray start --head\)"):
        RayRunner({"agent": "file.py:agent"}, "label")
