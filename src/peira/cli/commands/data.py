"""`peira data`: the benchmarks, and the cases of a benchmark, a file or a study."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import msgspec
import typer

from peira.app.session import Session
from peira.app.store.runs import names_run
from peira.app.store.view import Opened
from peira.cli.options import Json, Store, chosen, stored
from peira.cli.output import CommandOutput, encoded, fitted, grid
from peira.cli.study_options import Data, FieldMap, benchmark_named, field_pairs
from peira.core.registry import nearest, registry
from peira.core.text.words import counted
from peira.data.cases import read
from peira.data.statistics import Stats, stats
from peira.errors import Invalid
from peira.plan.manifest import cases_of
from peira.spec.benchmark import Benchmark, benchmark, local
from peira.spec.case import Case, case_ids
from peira.spec.query import DATA_FILES, Query, ask_for
from peira.spec.study_files import load

FEW = 5
"""The default number of cases to show."""


class DataAction(StrEnum):
    """The actions of `peira data`."""

    list = "list"
    show = "show"
    stats = "stats"


def data(
    action: Annotated[
        DataAction, typer.Argument(metavar="ACTION", help="list, show (the first cases) or stats.")
    ] = DataAction.list,
    name: Annotated[
        str, typer.Argument(metavar="[NAME]", help="A benchmark, a data file, a folder, a study or a run id.")
    ] = "",
    copy: Data = None,
    field: FieldMap = None,
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
    out = CommandOutput(as_json)
    with Session.find(store) as session:
        session.project.load_plugins()
        if action is DataAction.list:
            _list(out)
            return
        if not name:
            raise Invalid(
                f"name: say of what; a benchmark ({', '.join(registry.names('benchmark'))}) or a file"
            )
        bench = benchmark_named(name, session.project)
        cases = _cases(name, bench, copy, field or (), session)
        if action is DataAction.stats:
            found = stats(cases)
            out.document(msgspec.to_builtins(found))
            out.text(_stats_text(found, few))
        else:
            out.document({"benchmark": _about(bench) if bench else None, "cases": _documents(cases[:few])})
            out.text(_cases_text(bench, cases, few))


def _list(out: CommandOutput) -> None:
    """Show all benchmarks."""
    every = [benchmark(name) for name in registry.names("benchmark")]
    out.document({"benchmarks": list(map(_about, every))})
    rows = [[b.name, b.title, ", ".join(p.name for p in b.prompts), b.licence] for b in every]
    out.text(grid(["benchmark", "what it is", "prompt variants", "licence"], rows))


def _about(bench: Benchmark) -> dict[str, Any]:
    """A benchmark as plain values."""
    names = ("name", "title", "description", "homepage", "licence", "slices", "transform", "evaluators")
    source = {key: getattr(bench.data, key) for key in ("dataset", "config", "split", "revision", "file")}
    prompts = [prompt.model_dump() for prompt in bench.prompts]
    return {**{key: getattr(bench, key) for key in names}, "source": source, "prompts": prompts}


def _cases(
    name: str, bench: Benchmark | None, copy: str | None, mapped: Iterable[str], session: Session
) -> Sequence[Case]:
    """The cases of a benchmark, a data file, a folder, a stored run or a study."""
    if bench is not None:
        query = bench.data if copy is None else local(bench.data, Path(copy))
        return ask_for(query, bench.folders).cases
    fields = field_pairs(mapped)
    path = Path(name)
    if path.is_dir():
        return read(Query(folder=name, **fields), [Path()]).cases
    if name.lower().endswith(DATA_FILES) and (fields or not _is_study(path)):
        return read(Query(file=name, **fields), [Path()]).cases
    with session.reading_if_any() as opened:
        of_run = names_run(name, opened)
    if of_run:
        return _of_run(stored(name, session), session)
    if not (path.suffix or ".py:" in name):
        raise Invalid(f"{name!r} is no benchmark, file or run{nearest(name, registry.names('benchmark'))}")
    study = load(chosen(name, session))
    return tuple(case for cases in study.case_sets.values() for case in cases)


def _is_study(path: Path) -> bool:
    """Whether a file that may be either is a study: it names an agent."""
    return path.suffix in (".toml", ".yaml", ".yml", ".json") and "agent" in path.read_text(errors="replace")


def _of_run(run: str, session: Session) -> Sequence[Case]:
    """The cases of a stored run."""
    opened = Opened(session)
    blobs = opened.manifest(run).case_sets.values()
    return tuple(Case(**fields) for blob in blobs for fields in cases_of(blob, opened.blob))


def _documents(cases: Iterable[Case]) -> list[dict[str, Any]]:
    """Cases as plain values."""
    parts = ("input", "expected", "id", "cluster", "slice", "metadata")
    return [{part: getattr(case, part) for part in parts} for case in cases]


def _cases_text(bench: Benchmark | None, cases: Sequence[Case], few: int) -> str:
    """The first cases as text, with the benchmark's description."""
    lines = []
    if bench:
        lines += [bench.title, *([bench.description] if bench.description else [])]
        lines += [f"homepage  {bench.homepage}", f"licence   {bench.licence}"]
        lines += [f"prompts   {', '.join(prompt.name for prompt in bench.prompts)}", ""]
    lines.append(f"{counted(len(cases), 'case')}, of which the first {min(few, len(cases))}:")
    for case, name in zip(cases[:few], case_ids(cases), strict=False):
        lines += ["", fitted(f"id        {name}")]
        lines += [fitted(f"slice     {case.slice}")] if case.slice else []
        lines += [_aligned("input", case.input), _aligned("expected", case.expected)]
    return "\n".join(lines)


def _aligned(name: str, value: Any) -> str:
    """A value in full, with its lines aligned."""
    text = value if isinstance(value, str) else encoded(value, indent=0)
    return f"{name:<10}" + text.strip().replace("\n", "\n" + " " * 10)


def _stats_text(found: Stats, few: int) -> str:
    """Statistics of cases as text."""
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
