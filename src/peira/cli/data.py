"""`peira data`: the benchmarks there are, and what the cases of a benchmark, a file or a study are like."""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import msgspec
import typer

from peira.api.finding import is_run_id
from peira.api.look import Opened
from peira.api.stores import StoreLike
from peira.cli.benchmarks import Data, known
from peira.cli.options import Json, Store, chosen, stored
from peira.cli.output import Output, encoded, fitted, grid
from peira.core.registry import nearest, registry
from peira.core.words import counted
from peira.data.describe import Stats, stats
from peira.data.reading import read
from peira.errors import Invalid
from peira.plan.manifest import cases_of
from peira.spec.benchmark import Benchmark, benchmark, local
from peira.spec.case import Case, case_ids
from peira.spec.load import load
from peira.spec.project import Project
from peira.spec.query import DATA_FILES, Query, ask_for

FEW = 5


class Action(StrEnum):
    list = "list"
    show = "show"
    stats = "stats"


def data(
    action: Annotated[
        Action, typer.Argument(metavar="ACTION", help="list, show (the first cases) or stats.")
    ] = Action.list,
    name: Annotated[
        str, typer.Argument(metavar="[NAME]", help="A benchmark, a data file, a folder, a study or a run id.")
    ] = "",
    copy: Data = None,
    field: Annotated[
        list[str] | None,
        typer.Option("--map", metavar="PART=FIELD", help="Of a data file: input=question. Several."),
    ] = None,
    few: Annotated[
        int, typer.Option("--few", metavar="N", min=1, help="How many cases, or groups of them, to show.")
    ] = FEW,
    store: Store = None,
    as_json: Json = False,
) -> None:
    """List benchmarks, or show and describe what cases there are.

    `stats` counts cases, slices and clusters, and finds those whose inputs are the same but for case, blanks
    and punctuation, or nearly the same (four fifths of their word triples in common).

    \b
    Examples:
      peira data list
      peira data show gsm8k --data gsm8k/test.jsonl
      peira data stats questions.csv --map input=question
    """
    out = Output(as_json)
    Project.find().load_plugins()
    if action is Action.list:
        _list(out)
        return
    if not name:
        raise Invalid(f"name: say of what; a benchmark ({', '.join(registry.names('benchmark'))}) or a file")
    bench = known(name)
    cases = _cases(name, bench, copy, field or (), store)
    if action is Action.stats:
        found = stats(cases)
        out.document(msgspec.to_builtins(found))
        out.text(_described(found, few))
    else:
        out.document({"benchmark": _about(bench) if bench else None, "cases": _documents(cases[:few])})
        out.text(_shown(bench, cases, few))


def _list(out: Output) -> None:
    every = [benchmark(name) for name in registry.names("benchmark")]
    out.document({"benchmarks": list(map(_about, every))})
    rows = [[b.name, b.title, ", ".join(p.name for p in b.prompts), b.licence] for b in every]
    out.text(grid(["benchmark", "what it is", "prompt variants", "licence"], rows))


def _about(bench: Benchmark) -> dict[str, Any]:
    said = ("name", "title", "description", "homepage", "licence", "slices", "transform", "evaluators")
    source = {key: getattr(bench.data, key) for key in ("dataset", "config", "split", "revision", "file")}
    prompts = [prompt.model_dump() for prompt in bench.prompts]
    return {**{key: getattr(bench, key) for key in said}, "source": source, "prompts": prompts}


def _cases(
    name: str, bench: Benchmark | None, copy: str | None, mapped: Iterable[str], store: StoreLike
) -> tuple[Case, ...]:
    if bench is not None:
        query = bench.data if copy is None else local(bench.data, Path(copy))
        return ask_for(query, bench.folders).cases
    fields = dict(_pairs(mapped))
    path = Path(name)
    if path.is_dir():
        return read(Query(folder=name, **fields), [Path()]).cases
    if name.lower().endswith(DATA_FILES) and (fields or not _is_study(path)):
        return read(Query(file=name, **fields), [Path()]).cases
    if is_run_id(name):
        return _of_run(stored(name, store), store)
    if not (path.suffix or ".py:" in name):
        raise Invalid(f"{name!r} is no benchmark, file or run{nearest(name, registry.names('benchmark'))}")
    study = load(chosen(name, store))
    return tuple(case for cases in study.case_sets.values() for case in cases)


def _is_study(path: Path) -> bool:
    """Of the files that may be either: one that says which agent it is about."""
    return path.suffix in (".toml", ".yaml", ".yml", ".json") and "agent" in path.read_text(errors="replace")


def _of_run(run: str, store: StoreLike) -> tuple[Case, ...]:
    opened = Opened(store)
    blobs = opened.manifest(run).case_sets.values()
    return tuple(Case(**fields) for blob in blobs for fields in cases_of(blob, opened.blob))


def _pairs(given: Iterable[str]) -> Iterable[tuple[str, str]]:
    for text in given:
        part, equals, value = text.partition("=")
        if not equals:
            raise Invalid(f"map: write PART=FIELD, like input=question, not {text!r}")
        yield part.strip(), value.strip()


def _documents(cases: Iterable[Case]) -> list[dict[str, Any]]:
    parts = ("input", "expected", "id", "cluster", "slice", "metadata")
    return [{part: getattr(case, part) for part in parts} for case in cases]


def _shown(bench: Benchmark | None, cases: tuple[Case, ...], few: int) -> str:
    lines = []
    if bench:
        lines += [bench.title, *([bench.description] if bench.description else [])]
        lines += [f"homepage  {bench.homepage}", f"licence   {bench.licence}"]
        lines += [f"prompts   {', '.join(prompt.name for prompt in bench.prompts)}", ""]
    lines.append(f"{counted(len(cases), 'case')}, of which the first {min(few, len(cases))}:")
    for case, name in zip(cases[:few], case_ids(cases), strict=False):
        lines += ["", fitted(f"id        {name}")]
        lines += [fitted(f"slice     {case.slice}")] if case.slice else []
        lines += [_whole("input", case.input), _whole("expected", case.expected)]
    return "\n".join(lines)


def _whole(name: str, value: Any) -> str:
    """A value, all of it, its lines under each other."""
    text = value if isinstance(value, str) else encoded(value, indent=0)
    return f"{name:<10}" + text.strip().replace("\n", "\n" + " " * 10)


def _described(found: Stats, few: int) -> str:
    least, median, most = found.length
    lines = [
        f"cases     {found.cases:,} ({found.expected:,} with an expected value)",
        f"digest    {found.digest}",
        f"inputs    {least:,} to {most:,} characters, median {median:,}",
    ]
    if found.slices:
        lines.append(f"slices    {', '.join(f'{name} {n:,}' for name, n in found.slices.items())}")
    if found.clusters:
        lines.append(f"clusters  {found.clusters:,}")
    lines.append(f"repeats   {found.same_count:,} (the same but for case, blanks and punctuation)")
    lines += [f"          {' = '.join(group)}" for group in found.same[:few]]
    lines.append(f"near      {counted(found.near_count, 'pair')} (four fifths of word triples in common)")
    lines += [f"          {a} ~ {b} ({share:.0%})" for a, b, share in found.near[:few]]
    return "\n".join(lines)
