"""Options that change a study: a benchmark instead, other evaluators, another transform."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import msgspec
import typer

from peira.app.models import named
from peira.app.session import Session
from peira.app.store.runs import is_run_id
from peira.cli.options import chosen
from peira.errors import Invalid, Unknown
from peira.spec.agents import COMMAND, AgentKind
from peira.spec.benchmark import Benchmark, find_benchmark, prompts_of
from peira.spec.fields.overrides import overridden, read_overrides
from peira.spec.modules import is_reference, resolve_reference
from peira.spec.plugins import as_evaluator, as_transform
from peira.spec.project import Project
from peira.spec.study import Study
from peira.spec.study_files import load

Model = Annotated[
    list[str] | None,
    typer.Option(
        "--model", metavar="NAME", help="Of a benchmark or a data file: a model to ask. Repeatable."
    ),
]
PromptText = Annotated[
    str | None,
    typer.Option("--prompt", metavar="TEXT", help="Of these: the prompt, such as 'Answer: {{ input }}'."),
]
FieldMap = Annotated[
    list[str] | None,
    typer.Option("--map", metavar="PART=FIELD", help="Of a data file: input=question. Repeatable."),
]
JudgedBy = Annotated[
    list[str] | None,
    typer.Option("--judge-by", metavar="NAME", help="Of these: an evaluator (of a data file, else match)."),
]
Variant = Annotated[
    list[str] | None,
    typer.Option("--variant", metavar="NAME", help="Of a benchmark: a prompt variant, or all. Repeatable."),
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


Overrides = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="KEY=VALUE",
        help="Another value for a field of the study: policy.retries=2. Repeatable.",
    ),
]


TABLES = (".jsonl", ".jsonl.gz", ".csv", ".parquet")
"""The endings of files of cases, which are no files of studies."""


class StudyOptions(NamedTuple):
    """The options of every command that takes a study; all but the last are for benchmarks."""

    model: Model = None
    variant: Variant = None
    data: Data = None
    temperature: Temperature = None
    max_tokens: MaxTokens = None
    system: System = None
    repeats: Repeats = None
    prompt: PromptText = None
    judge_by: JudgedBy = None
    map: FieldMap = None
    overrides: Overrides = None

    def study_of(self, benchmark: Benchmark) -> Study:
        """The study of these models on a benchmark, asked in this way."""
        parameters = {"temperature": self.temperature, "max_tokens": self.max_tokens}
        fields: dict[str, Any] = {} if self.repeats is None else {"repeats": self.repeats}
        if self.judge_by:
            fields["evaluators"], _ = evaluators_and_transform(self.judge_by, None, "judge-by")
        if self.prompt is not None:
            if self.variant:
                raise Invalid("--prompt: is asked in place of the variants; leave out --variant")
            own = [{"name": "own", "template": self.prompt}]
            benchmark = benchmark.model_copy(update={"prompts": prompts_of(own)})
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


AgentCommand = Annotated[
    str | None,
    typer.Option(
        "--agent-command",
        metavar="WORDS",
        help="Run this command as the agent instead: 'prog --ask {input}'. Its files: see docs/commands.md.",
    ),
]


def with_agent_command(study: str | Study, words: str | None) -> str | Study:
    """The study with a command as its only agent; Invalid says what of the study does not fit that."""
    if words is None:
        return study
    try:
        split = shlex.split(words)
    except ValueError as problem:
        raise Invalid(f"--agent-command: {problem}") from None
    if not split:
        raise Invalid("--agent-command: there is no word")
    loaded = study if isinstance(study, Study) else load(study)
    sole = [given for given in loaded.agents.values() if isinstance(given, AgentKind)]
    options = dict(sole[0].options) if len(sole) == 1 and sole[0].kind == COMMAND else {}
    return loaded.with_agent(AgentKind(COMMAND, {**options, COMMAND: split}))


def field_pairs(given: Iterable[str]) -> dict[str, str]:
    """PART=FIELD pairs of --map."""
    pairs = {text: [half.strip() for half in text.partition("=")] for text in given}
    if wrong := [text for text, pair in pairs.items() if not all(pair)]:
        raise Invalid(f"--map {text}: write PART=FIELD, like input=question" for text in wrong)
    return {part: field for part, _, field in pairs.values()}


def _data_benchmark(file: Path, mapped: Sequence[str]) -> Benchmark:
    """A file of cases as a benchmark: its inputs are asked as they are, its answers must match."""
    if not file.is_file():
        raise Invalid(f"there is no file {file}")
    fields = {"input": "input", "expected": "expected", **field_pairs(mapped)}
    return Benchmark(
        name=file.name.split(".")[0],
        data={"file": str(file.resolve()), **fields},
        prompts=[{"name": "plain", "template": "{{ input }}"}],
        evaluators=("match",),
    )


def _asking(study: Study, options: StudyOptions, project: Project) -> Study:
    """The study; Invalid, with all of them, if names of --model are no models: no call could succeed."""
    problems = []
    for name in options.model or ():
        try:
            named(project, name)
        except (Invalid, Unknown) as problem:
            problems += [f"--model: {one}" for one in getattr(problem, "problems", None) or [problem]]
    if problems:
        raise Invalid(problems)
    return study


def study_argument(study: str, session: Session, options: StudyOptions) -> str | Study:
    """The study argument: a file, a run's id, or a study compiled from a benchmark or with other fields."""
    changes = read_overrides(options.overrides) if options.overrides else {}
    if (found := benchmark_named(study, session.project)) is not None:
        return overridden(_asking(options.study_of(found), options, session.project), changes)
    if study.lower().endswith(TABLES):
        if not options.model:
            raise Invalid(f"--model: {study} is a file of cases; name the model that is asked")
        cases = _data_benchmark(Path(study), options.map or ())
        return overridden(_asking(options.study_of(cases), options, session.project), changes)
    given = {f"--{name.replace('_', '-')}": value for name, value in options._asdict().items()}
    del given["--overrides"]
    if misplaced := [name for name, value in given.items() if value not in (None, [])]:
        raise Invalid(
            f"{name}: is for benchmarks (see `peira data list`) and data files; {study} is none"
            for name in misplaced
        )
    meant = chosen(study, session)
    if not changes:
        return meant
    if is_run_id(meant):
        raise Invalid(f"--set: run {study} has the plan that it was run with; name the study's file instead")
    return overridden(load(meant), changes)


Evaluator = Annotated[
    list[str] | None,
    typer.Option(
        "--evaluator",
        metavar="NAME",
        help="Judge by this instead: a name, file.py:function, or JSON. Repeatable.",
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
    evaluators: Sequence[str] | None, transforms: Sequence[str] | None, option: str = "evaluator"
) -> tuple[Any, Any]:
    """The evaluators and the transform of the options; None where not given.

    Raises Invalid with all problems at once.
    """
    problems: list[str] = []
    judges = [_made(option, text, as_evaluator, problems) for text in evaluators or ()]
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
