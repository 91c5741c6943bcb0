"""MLflow and Weights & Biases: one tracker run per run, with means, intervals and trials.

MLflow gets a parent run, and a child run for each condition with its factors as parameters and its means as
metrics. Weights & Biases gets one run with a table of the means. Both get the trials as a file. The target is
the named folder, or MLflow's tracking URI. Weights & Biases is written offline, for `wandb sync`, unless
WANDB_MODE says otherwise.
"""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any, Literal

from peira.analysis.results import Results
from peira.analysis.table.value import TRACKED, Table, TableRow
from peira.core.ids import short
from peira.core.registry import Registry
from peira.core.text import grid as layout
from peira.errors import Invalid
from peira.report.exports.jsonl import JsonLines
from peira.results.rows import text

LONGEST = 500
"""The length limit of MLflow's parameters and tags."""
_ODD = re.compile(r"[^A-Za-z0-9_\-. /]")


class Mlflow:
    """Records results in MLflow."""

    makes: Literal["entry"] = "entry"
    suffixes: tuple[str, ...] = ()

    def record(self, results: Results, where: str) -> None:
        """Create a parent run and one child run per condition; raises Invalid if MLflow fails."""
        mlflow, table = _library("mlflow"), _means(results)
        try:
            self._record(mlflow.MlflowClient(_tracking(where)), results, table, where)
        except mlflow.exceptions.MlflowException as problem:
            raise Invalid(f"mlflow: {str(problem).splitlines()[0]}") from None

    def _record(self, client: Any, results: Results, table: Table, where: str) -> None:
        """Create the experiment if necessary, then the parent run, its children and artifacts."""
        found = client.get_experiment_by_name(results.study)
        beside = None if "://" in where else (Path(where).resolve() / "artifacts").as_uri()
        experiment = found.experiment_id if found else client.create_experiment(results.study, beside)
        tags = {"peira.run": results.run_id, "peira.status": results.status}
        for earlier in _same_run(client, experiment, results.run_id):  # this export takes their place
            client.delete_run(earlier.info.run_id)
        parent = client.create_run(experiment, tags=tags, run_name=short(results.run_id)).info.run_id
        for group in _groups(table):
            name = ", ".join(map(layout.cell, group[0].labels))[:LONGEST] or "all"
            child = client.create_run(experiment, tags=tags | {"mlflow.parentRunId": parent}, run_name=name)
            _condition(client, child.info.run_id, table.by, group)
        with _files(results, table) as files:
            for file in files:
                client.log_artifact(parent, str(file))
        client.set_terminated(parent, "FINISHED" if results.ok else "FAILED")


def _same_run(client: Any, experiment: str, run: str) -> list[Any]:
    """What earlier exports of this run left in the experiment: the parent and its children."""
    found: list[Any] = []
    page = None
    while page is None or page.token:
        page = client.search_runs(
            [experiment], f"tags.`peira.run` = '{run}'", page_token=page.token if page else None
        )
        found += page
    return found


def _tracking(where: str) -> str:
    """The tracking URI; for a folder, a SQLite database in it.

    MLflow's file store accepts no new runs.
    """
    if "://" in where:
        return where
    Path(where).mkdir(parents=True, exist_ok=True)
    return f"sqlite:///{Path(where).resolve() / 'mlflow.db'}"


def _condition(client: Any, run: str, by: Sequence[str], group: list[TableRow]) -> None:
    """Log the parameters and metrics of a condition."""
    for key, level in _unique(dict(zip(by, group[0].labels, strict=True))).items():
        client.log_param(run, key, (text(level) or "")[:LONGEST])
    for key, number in _unique(_numbers(group)).items():
        client.log_metric(run, key, number)
    client.set_terminated(run)


class Wandb:
    """Records results in Weights & Biases."""

    makes: Literal["entry"] = "entry"
    suffixes: tuple[str, ...] = ()

    def record(self, results: Results, where: str) -> None:
        """Create one run with the table of means and the trials as an artifact."""
        wandb, table = _library("wandb"), _means(results)
        folder = Path(where).resolve()
        folder.mkdir(parents=True, exist_ok=True)
        with _files(results, table) as files, _kept_in(folder):
            run = wandb.init(
                project=_plain(results.study)[:100] or "peira",
                name=short(results.run_id),
                dir=str(folder),
                mode=os.environ.get("WANDB_MODE") or "offline",
                config={"study": results.study, "run": results.run_id, "status": results.status},
                settings=wandb.Settings(silent=True, console="off", disable_git=True, disable_code=True),
            )
            body = [[_shown(row[name]) for name in table.columns] for row in table.rows]
            run.log({"means": wandb.Table(columns=list(table.columns), data=body)})
            run.summary.update(_unique(_numbers(list(table.body))))
            artifact = wandb.Artifact(f"peira-{short(results.run_id)}", type="results")
            for file in files:
                artifact.add_file(str(file), policy="mutable")
            run.log_artifact(artifact)
            run.finish(exit_code=0 if results.ok else 1)


@contextmanager
def _kept_in(folder: Path) -> Iterator[None]:
    """Make Weights & Biases keep all files of a run in this folder, also those of artifacts.

    By default it copies them to the user's own data folder, and the folder alone could not be synchronised.
    """
    own = {"WANDB_DATA_DIR": str(folder / "data"), "WANDB_CACHE_DIR": str(folder / "cache")}
    before = {name: os.environ.get(name) for name in own}
    for name, path in own.items():
        Path(path).mkdir(exist_ok=True)
        os.environ[name] = path
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


def _library(name: str) -> Any:
    """Import an optional library; raises Invalid if it is not installed."""
    try:
        return import_module(name)
    except ImportError:
        raise Invalid(f"this needs {name}, which is not installed: pip install {name}") from None


def _means(results: Results) -> Table:
    """The table of means by every factor."""
    factors = dict.fromkeys(name for trial in results.stream() for name in trial.condition)
    return results.table(*factors, overall=not factors)


def _groups(table: Table) -> list[list[TableRow]]:
    """The rows of each condition."""
    found: dict[str, list[TableRow]] = {}
    for row in table.body:
        found.setdefault(text(list(row.labels)) or "", []).append(row)
    return list(found.values())


def _numbers(rows: list[TableRow]) -> dict[str, float]:
    """The tracked numbers of these rows, by name."""
    several = len({text(list(row.labels)) for row in rows}) > 1
    named = {}
    for row in rows:
        place = [*map(layout.cell, row.labels)] if several else []
        for statistic in TRACKED:
            value = getattr(row, statistic)
            if value is not None:
                named["/".join([*place, row.score or "trials", statistic])] = float(value)
    return named


def _plain(name: str) -> str:
    """A name with only the characters that trackers accept."""
    return _ODD.sub("_", name).strip(" /.")


def _unique(named: Mapping[str, Any]) -> dict[str, Any]:
    """The same values under names that trackers accept; colliding names are numbered."""
    found: dict[str, Any] = {}
    for name, value in named.items():
        plain = _plain(name)[:200] or "_"
        number, key = 1, plain
        while key in found:
            number += 1
            key = f"{plain}_{number}"
        found[key] = value
    return found


def _shown(value: Any) -> Any:
    """A value as a table cell: plain values as they are, everything else as JSON."""
    return value if value is None or isinstance(value, (str, float, int)) else text(value)


@contextmanager
def _files(results: Results, table: Table) -> Iterator[list[Path]]:
    """Temporary files with the trials and the means."""
    with tempfile.TemporaryDirectory() as folder:
        trials, means = Path(folder) / "trials.jsonl", Path(folder) / "means.json"
        JsonLines().write(results, trials)
        means.write_text(table.to_json(), encoding="utf-8")
        yield [trials, means]


def register(registry: Registry) -> None:
    """Register both trackers."""
    registry.add("export", "mlflow", Mlflow)
    registry.add("export", "wandb", Wandb)
