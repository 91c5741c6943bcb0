"""Options that change a study: a benchmark instead, other evaluators, another transform."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import msgspec
import typer

from peira.app.session import Session
from peira.cli.options import chosen
from peira.errors import Invalid
from peira.spec.benchmark import Benchmark, find_benchmark
from peira.spec.modules import is_reference, resolve_reference
from peira.spec.plugins import as_evaluator, as_transform
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
Temperature = Annotated[
    float | None,
    typer.Option("--temperature", metavar="T", help="Of a benchmark: the temperature to sample at."),
]
MaxTokens = Annotated[
    int | None,
    typer.Option("--max-tokens", metavar="N", min=1, help="Of a benchmark: the most tokens of a reply."),
]
System = Annotated[
    str | None, typer.Option("--system", metavar="TEXT", help="Of a benchmark: the system prompt.")
]
Repeats = Annotated[
    int | None,
    typer.Option("--repeats", metavar="N", min=1, help="Of a benchmark: how often each case is asked."),
]


class BenchmarkOptions(NamedTuple):
    """The options that are for benchmarks only; None where not given."""

    model: list[str] | None = None
    variant: list[str] | None = None
    data: str | None = None
    temperature: float | None = None
    max_tokens: int | None = None
    system: str | None = None
    repeats: int | None = None

    def study_of(self, benchmark: Benchmark) -> Study:
        """The study of these models on a benchmark, asked in this way."""
        parameters = {"temperature": self.temperature, "max_tokens": self.max_tokens}
        fields: dict[str, Any] = {} if self.repeats is None else {"repeats": self.repeats}
        return benchmark.compile(
            self.model or (),
            variants=self.variant,
            data=self.data,
            parameters=parameters,
            system=self.system,
            **fields,
        )


def benchmark_named(name: str, project: Project) -> Benchmark | None:
    """The benchmark of this name, built in or of the project; None if there is none."""
    project.load_plugins()
    return find_benchmark(name)


def study_argument(study: str, session: Session, options: BenchmarkOptions) -> str | Study:
    """The study argument: a file, a run's id, or a study compiled from a benchmark."""
    if (found := benchmark_named(study, session.project)) is not None:
        return options.study_of(found)
    given = {f"--{name.replace('_', '-')}": value for name, value in options._asdict().items()}
    if misplaced := [name for name, value in given.items() if value not in (None, [])]:
        raise Invalid(
            f"{name}: is for benchmarks (see `peira data list`); {study} is none" for name in misplaced
        )
    return chosen(study, session)


Evaluator = Annotated[
    list[str] | None,
    typer.Option(
        "--evaluator",
        metavar="NAME",
        help="Judge by this instead: a name, file.py:function, or JSON. Several are possible.",
    ),
]
Transform = Annotated[
    list[str] | None,
    typer.Option(
        "--transform",
        metavar="NAME",
        help="Find answers by this instead: a name, file.py:function, or JSON; several make a chain.",
    ),
]
Named = Annotated[
    str, typer.Option("--as", metavar="NAME", help="Keep this evaluation under a name: look at RUN@NAME.")
]


def evaluators_and_transform(
    evaluators: Sequence[str] | None, transforms: Sequence[str] | None
) -> tuple[Any, Any]:
    """The evaluators and the transform of the options; None where not given.

    Raises Invalid with all problems at once.
    """
    problems: list[str] = []
    judges = [_made("evaluator", text, as_evaluator, problems) for text in evaluators or ()]
    steps = [_made("transform", text, as_transform, problems) for text in transforms or ()]
    if problems:
        raise Invalid(problems)
    return judges or None, (steps[0] if len(steps) == 1 else as_transform(steps)) if steps else None


def _made(option: str, text: str, make: Any, problems: list[str]) -> Any:
    """An evaluator or transform from the text of an option; a problem is added to `problems`."""
    try:
        return make(resolve_reference(text, Path()) if is_reference(text) else options_from(text))
    except Invalid as error:
        problems += [f"--{option} {text}: {problem}" for problem in error.problems]


def options_from(text: str) -> Any:
    """The option's text, or the value if it is JSON."""
    if not text.lstrip().startswith(("{", "[")):
        return text
    try:
        return msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError) as error:
        raise Invalid(f"is not JSON: {error}") from None
