"""MLflow and Weights & Biases: a run of theirs for a run of ours, with means, their intervals and the trials.

MLflow gets a parent run, and a child for each condition with its factors as parameters and its means as
metrics. Weights & Biases gets one run with a table of the means. Both get the trials as a file. It goes into
the folder that is named, or to MLflow's tracking URI. Weights & Biases is written offline, for `wandb sync`,
unless WANDB_MODE says otherwise.
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

from peira.analysis import layout
from peira.analysis.export import text
from peira.analysis.results import Results
from peira.analysis.table import Row, Table
from peira.core.ids import short
from peira.core.registry import Registry
from peira.errors import Invalid
from peira.report.exports.lines import JsonLines

STATISTICS = ("mean", "low", "high", "n", "cases", "failed", "unscored")
LONGEST = 500
"""What a parameter or tag of MLflow holds, at least."""
_ODD = re.compile(r"[^A-Za-z0-9_\-. /]")


class Mlflow:
    makes: Literal["entry"] = "entry"
    suffixes: tuple[str, ...] = ()

    def record(self, results: Results, where: str) -> None:
        mlflow, table = _library("mlflow"), _means(results)
        try:
            self._record(mlflow.MlflowClient(_tracking(where)), results, table, where)
        except mlflow.exceptions.MlflowException as problem:
            raise Invalid(f"mlflow: {str(problem).splitlines()[0]}") from None

    def _record(self, client: Any, results: Results, table: Table, where: str) -> None:
        found = client.get_experiment_by_name(results.study)
        beside = None if "://" in where else (Path(where).resolve() / "artifacts").as_uri()
        experiment = found.experiment_id if found else client.create_experiment(results.study, beside)
        tags = {"peira.run": results.run_id, "peira.status": results.status}
        parent = client.create_run(experiment, tags=tags, run_name=short(results.run_id)).info.run_id
        for group in _groups(table):
            name = ", ".join(map(layout.cell, group[0].labels))[:LONGEST] or "all"
            child = client.create_run(experiment, tags=tags | {"mlflow.parentRunId": parent}, run_name=name)
            _condition(client, child.info.run_id, table.by, group)
        with _files(results, table) as files:
            for file in files:
                client.log_artifact(parent, str(file))
        client.set_terminated(parent, "FINISHED" if results.ok else "FAILED")


def _tracking(where: str) -> str:
    """A tracking URI as it is; in a folder MLflow keeps a database, for its file store takes no more runs."""
    if "://" in where:
        return where
    Path(where).mkdir(parents=True, exist_ok=True)
    return f"sqlite:///{Path(where).resolve() / 'mlflow.db'}"


def _condition(client: Any, run: str, by: Sequence[str], group: list[Row]) -> None:
    for key, level in _unique(dict(zip(by, group[0].labels, strict=True))).items():
        client.log_param(run, key, (text(level) or "")[:LONGEST])
    for key, number in _unique(_numbers(group)).items():
        client.log_metric(run, key, number)
    client.set_terminated(run)


class Wandb:
    makes: Literal["entry"] = "entry"
    suffixes: tuple[str, ...] = ()

    def record(self, results: Results, where: str) -> None:
        wandb, table = _library("wandb"), _means(results)
        Path(where).mkdir(parents=True, exist_ok=True)
        with _files(results, table) as files:
            run = wandb.init(
                project=_plain(results.study)[:100] or "peira",
                name=short(results.run_id),
                dir=where,
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


def _library(name: str) -> Any:
    try:
        return import_module(name)
    except ImportError:
        raise Invalid(f"this needs {name}, which is not installed: pip install {name}") from None


def _means(results: Results) -> Table:
    """By every factor that the trials have."""
    factors = dict.fromkeys(name for trial in results.stream() for name in trial.condition)
    return results.table(*factors)


def _groups(table: Table) -> list[list[Row]]:
    """The rows of each condition."""
    found: dict[str, list[Row]] = {}
    for row in table.body:
        found.setdefault(text(list(row.labels)) or "", []).append(row)
    return list(found.values())


def _numbers(rows: list[Row]) -> dict[str, float]:
    several = len({text(list(row.labels)) for row in rows}) > 1
    named = {}
    for row in rows:
        place = [*map(layout.cell, row.labels)] if several else []
        for statistic in STATISTICS:
            value = getattr(row, statistic)
            if value is not None:
                named["/".join([*place, row.score or "trials", statistic])] = float(value)
    return named


def _plain(name: str) -> str:
    return _ODD.sub("_", name).strip(" /.")


def _unique(named: Mapping[str, Any]) -> dict[str, Any]:
    """The same under names that both take; those that become equal are numbered."""
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
    return value if value is None or isinstance(value, (str, float, int)) else text(value)


@contextmanager
def _files(results: Results, table: Table) -> Iterator[list[Path]]:
    """The trials and the means, as files."""
    with tempfile.TemporaryDirectory() as folder:
        trials, means = Path(folder) / "trials.jsonl", Path(folder) / "means.json"
        JsonLines().write(results, trials)
        means.write_text(table.to_json(), encoding="utf-8")
        yield [trials, means]


def register(registry: Registry) -> None:
    registry.add("export", "mlflow", Mlflow)
    registry.add("export", "wandb", Wandb)
