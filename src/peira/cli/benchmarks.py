"""A benchmark in a study's place: its name, the models to ask, and where its data are."""

from __future__ import annotations

from typing import Annotated

import typer

from peira.api.stores import StoreLike
from peira.cli.options import chosen
from peira.errors import Invalid
from peira.spec.benchmark import Benchmark, find_benchmark
from peira.spec.project import Project
from peira.spec.study import Study

Model = Annotated[
    list[str] | None, typer.Option("--model", metavar="NAME", help="Of a benchmark: a model to ask. Several.")
]
Variant = Annotated[
    list[str] | None,
    typer.Option("--variant", metavar="NAME", help="Of a benchmark: a prompt variant, or all. Several."),
]
Data = Annotated[
    str | None,
    typer.Option("--data", metavar="PATH", help="Of a benchmark: a local copy of its data, file or folder."),
]


def known(name: str) -> Benchmark | None:
    """The benchmark of that name, the project's own included."""
    Project.find().load_plugins()
    return find_benchmark(name)


def meant(
    study: str, store: StoreLike, model: list[str] | None, variant: list[str] | None, data: str | None
) -> str | Study:
    """The study argument: a file, a run's id, or what a benchmark makes of the models."""
    if (found := known(study)) is not None:
        return found.compile(model or (), variants=variant, data=data)
    given = {"--model": model, "--variant": variant, "--data": data}
    if said := [name for name, value in given.items() if value]:
        raise Invalid(f"{name}: is for benchmarks (see `peira data list`); {study} is none" for name in said)
    return chosen(study, store)
