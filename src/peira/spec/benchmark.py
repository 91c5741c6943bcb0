"""Benchmarks: reusable study templates.

A benchmark has a data set with slices, prompt variants, a transform and evaluators; with a model, it compiles
to a study. This module also finds local copies of data sets, and registered benchmarks by name.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

from pydantic import BeforeValidator, Field, PrivateAttr, SkipValidation, model_validator

from peira.core.chat.templates import Template, is_template
from peira.core.ids import Json
from peira.core.registry import nearest, registry
from peira.errors import Invalid
from peira.spec.factors import Factor, Level
from peira.spec.modules import caller, is_reference, resolve_reference
from peira.spec.query import DATA_FILES, Query, ask_for
from peira.spec.study import Study
from peira.spec.values import Name, Table, Value, read_value

GIVEN = frozenset({"input", "examples", "id", "slice", "metadata"})
"""The names that a prompt's template may use."""
ROLES = ("system", "user", "assistant")


class Prompt(Value):
    """A prompt variant: a template over the case's `input` (and `metadata`, `slice`, `id`, `examples`).

    `messages` in place of a template are turns of a conversation, each with a `role` and a template as its
    `content`. `variables` are further values that templates may use, `system` may be a template, too. With
    `shots`, `examples` are that many solved cases, each with its `input` and `output`, chosen by the study's
    seed and never the case itself. `parameters` are passed to the model unchanged. Variants of one `family`
    can be chosen, grouped and compared together.
    """

    name: Name
    template: str = ""
    messages: tuple[Table, ...] = ()
    system: str = ""
    shots: int = Field(default=0, ge=0)
    parameters: Table = Field(default_factory=dict)
    variables: Table = Field(default_factory=dict)
    family: str = ""

    @model_validator(mode="before")
    @classmethod
    def _messages_are_a_tuple(cls, raw: dict[str, Any]) -> dict[str, Any]:
        """Accept a list of messages."""
        given = raw.get("messages")
        return {**raw, "messages": tuple(given)} if isinstance(given, list) else raw

    @model_validator(mode="after")
    def _asks_for_what_there_is(self) -> Prompt:
        """Refuse what cannot be asked, and templates that use unknown names."""
        problems = []
        if bool(self.template) == bool(self.messages):
            problems.append("template: give either a template or messages")
        for n, message in enumerate(self.messages):
            if set(message) != {"role", "content"} or message["role"] not in ROLES:
                problems.append(f"messages[{n}]: needs a role ({', '.join(ROLES)}) and a content, no more")
            elif not isinstance(message["content"], str):
                problems.append(f"messages[{n}].content: must be a text")
        problems += [
            f"variables: {name!r} is given by the case" for name in sorted(GIVEN & set(self.variables))
        ]
        known = GIVEN | set(self.variables)
        for where, text in self.templates if not problems else ():
            unknown = sorted(Template(text).names - known)
            problems += [f"{where}: there is no {name!r}{nearest(name, known)}" for name in unknown]
        if problems:
            raise Invalid(problems)
        return self

    @property
    def templates(self) -> list[tuple[str, str]]:
        """Its templates, each with where it stands."""
        found = [("template", self.template)] if self.template else []
        found += [(f"messages[{n}].content", one["content"]) for n, one in enumerate(self.messages)]
        return [*found, ("system", self.system)] if is_template(self.system) else found


def prompts_of(raw: Any) -> tuple[Prompt, ...]:
    """Prompts given as one or as a list, as a tuple; those with `variants` are families."""
    given = raw if isinstance(raw, list | tuple) else (raw,)
    return tuple(read_value(Prompt, one) for entry in given for one in _variants(entry))


def _variants(entry: Any) -> list[Any]:
    """The prompts of a family: what it states is shared, and each of its `variants` adds to that.

    A variant is a table of variables, or of fields of a prompt; its name follows that of the family.
    """
    if not isinstance(entry, Mapping) or "variants" not in entry:
        return [entry]
    shared = {key: value for key, value in entry.items() if key != "variants"}
    family, variants = shared.get("family") or shared.pop("name", ""), entry["variants"]
    shared.pop("name", None)
    if not family or not isinstance(variants, Mapping) or not variants:
        raise Invalid("variants: needs a family, and a table of variants by name")
    problems = [
        f"variants.{name}: must be a table" for name, one in variants.items() if not isinstance(one, Mapping)
    ]
    if problems:
        raise Invalid(problems)
    made = []
    for name, own in variants.items():
        fields = {key: value for key, value in own.items() if key in Prompt.model_fields and key != "name"}
        more = {key: value for key, value in own.items() if key not in fields}
        merged = {**shared, **fields, "name": f"{family}/{name}", "family": family}
        for table in ("variables", "parameters"):
            merged[table] = {**shared.get(table, {}), **fields.get(table, {})}
        merged["variables"] |= more
        made.append(merged)
    return made


def _query(raw: Any) -> Query | None:
    """The query that a table or a Query stands for."""
    return None if raw is None else read_value(Query, raw)


class Benchmark(Value):
    """A data set with its prompt variants, transform and evaluators: `compile` makes a study of it.

    `data` is the query for the cases; `slices` name parts of it by expressions over its rows. `examples` is
    the query for solved cases for prompts with shots (default: `data`): what it maps to `expected` is the
    answer shown. `transform` extracts the answer from a model's reply, and `evaluators` score it. The first
    prompt is the default. Relative files are looked for beside the file that declares the benchmark, then in
    the working folder.
    """

    name: Name
    data: Annotated[Query, BeforeValidator(_query)]
    prompts: Annotated[tuple[Prompt, ...], BeforeValidator(prompts_of)] = Field(min_length=1)
    evaluators: SkipValidation[tuple[Any, ...]] = ()
    transform: SkipValidation[Any] = None
    slices: dict[str, str] = Field(default_factory=dict)
    examples: Annotated[Query | None, BeforeValidator(_query)] = None
    title: str = ""
    description: str = ""
    homepage: str = ""
    licence: str = ""

    _folders: list[Path] = PrivateAttr(default_factory=lambda: [Path()])

    def __init__(self, **fields: Any) -> None:
        folder, _ = caller()
        super().__init__(**fields)
        self._folders = [folder or Path(), Path()]

    @property
    def folders(self) -> list[Path]:
        """The folders in which its files are looked for."""
        return self._folders

    def compile(
        self,
        model: str | Sequence[str] = (),
        *,
        limit: int | None = None,
        variants: str | Sequence[str] | None = None,
        slices: str | Sequence[str] | None = None,
        data: str | Path | None = None,
        seed: int = 0,
        parameters: Mapping[str, Json] | None = None,
        system: str | None = None,
        **study: Any,
    ) -> Study:
        """The study of these models on this benchmark; Invalid holds every problem.

        `limit` is the size of a random sample of the cases. `variants` are names of prompts, or "all". `data`
        is a local copy: a file, or a folder in which the names of files contain the name of the split.
        `parameters` of the requests (temperature, max_tokens, ...) and the `system` prompt override those of
        the prompts. Any other field of a study (repeats, budget, name, ...) is given by name.
        """
        given = {name: value for name, value in (parameters or {}).items() if value is not None}
        models = _several(model)
        prompts = [_overridden(prompt, given, system) for prompt in self._chosen_prompts(variants)]
        if not models:
            raise Invalid(f"model: {self.name} needs one to ask: --model NAME, or compile(model=...)")
        query = self._asked(slices, data).model_copy(update={"seed": seed})
        found = ask_for(query.model_copy(update={"sample": limit}) if limit else query, self._folders)
        examples = self._examples(max(prompt.shots for prompt in prompts), data, seed)
        levels = [Level(_level(prompt, examples), prompt.name, _fields_of(prompt)) for prompt in prompts]
        fields: dict[str, Any] = {
            "name": self.name,
            "title": self.title,
            "description": self.description,
            "cases": found.cases,
            "data": {"benchmark": self.name, "licence": self.licence, **found.origin},
            "agent": registry.look("prompted", "chat"),
            "factors": [Factor("model", list(models)), Factor("prompt", levels)],
            "transform": self.transform,
            "evaluators": list(self.evaluators),
            "seed": seed,
        }
        return Study.assemble({**fields, **study}, self._folders)

    def _chosen_prompts(self, variants: str | Sequence[str] | None) -> list[Prompt]:
        """The prompts of these names; the first one if none are named."""
        known = {prompt.name: prompt for prompt in self.prompts}
        families = {one.family: [p for p in self.prompts if p.family == one.family] for one in self.prompts}
        wanted = _several(variants) or (self.prompts[0].name,)
        if tuple(wanted) == ("all",):
            return list(known.values())
        named = {*known, *filter(None, families)}
        if unknown := [name for name in wanted if name not in named]:
            raise Invalid(f"variant: {self.name} has no {name!r}{nearest(name, named)}" for name in unknown)
        chosen = [one for name in wanted for one in ([known[name]] if name in known else families[name])]
        return list({one.name: one for one in chosen}.values())

    def _asked(self, slices: str | Sequence[str] | None, data: str | Path | None) -> Query:
        """The query for the cases, restricted to these slices and to a local copy."""
        query = self.data if data is None else local(self.data, Path(data))
        if not slices:
            return query
        parts = [query.where] if query.where else []
        wheres = " or ".join(f"({self._where(name)})" for name in _several(slices))
        return query.model_copy(update={"where": " and ".join(f"({w})" for w in [*parts, wheres])})

    def _where(self, name: str) -> str:
        """The expression that selects a slice: a declared one, or a value of the slice column."""
        if name in self.slices:
            return self.slices[name]
        column = self.data.slice or ""
        if column.isidentifier():
            return f"{column} == {name!r}"
        raise Invalid(f"slice: {self.name} has no {name!r}{nearest(name, self.slices)}")

    def _examples(self, shots: int, data: str | Path | None, seed: int) -> list[Json]:
        """Solved examples for the prompts: one more than needed, because the case itself is left out."""
        if not shots:
            return []
        query = self.examples or self.data
        query = query if data is None else local(query, Path(data))
        drawn = query.model_copy(update={"sample": shots + 1, "shuffle": True, "seed": seed})
        cases = ask_for(drawn, self._folders).cases
        if len(cases) <= shots:
            raise Invalid(
                f"prompts: {shots} examples and the case itself are more than the {len(cases)} cases"
            )
        return [{"input": case.input, "output": case.expected} for case in cases]


def _several(given: str | Sequence[str] | None) -> tuple[str, ...]:
    """None, one text or several, as a tuple."""
    return () if given is None else (given,) if isinstance(given, str) else tuple(given)


def _overridden(prompt: Prompt, parameters: Mapping[str, Json], system: str | None) -> Prompt:
    """The prompt with other parameters and another system prompt, where they are given."""
    changes: dict[str, Any] = {} if system is None else {"system": system}
    if parameters:
        changes["parameters"] = {**prompt.parameters, **parameters}
    return prompt.model_copy(update=changes) if changes else prompt


def _level(prompt: Prompt, examples: list[Json]) -> Json:
    """The level of the prompt factor: everything that decides the request, so that it enters trial ids."""
    level: dict[str, Json] = {"name": prompt.name}
    level |= {"template": prompt.template} if prompt.template else {"messages": list(prompt.messages)}
    if prompt.variables:
        level["variables"] = prompt.variables
    if prompt.system:
        level["system"] = prompt.system
    if prompt.shots:
        level |= {"shots": prompt.shots, "solved": examples[: prompt.shots + 1]}
    if prompt.parameters:
        level["parameters"] = prompt.parameters
    return level


def _fields_of(prompt: Prompt) -> dict[str, Json]:
    """What the levels of the prompt factor can be grouped by."""
    return {"family": prompt.family, **prompt.variables} if prompt.family else {**prompt.variables}


def local(query: Query, path: Path) -> Query:
    """The same query on a local copy: a file, or a folder with files named after the split.

    Raises Invalid if there is no such file or folder, or no file of the split in it.
    """
    if not path.exists():
        raise Invalid(f"data: there is no file or folder {path}")
    files = [path] if path.is_file() else list(_files_of_split(path, query))
    places = tuple(str(file.resolve()) for file in files)
    return query.model_copy(update={"file": places, "dataset": "", "folder": "", "rows": None})


def _files_of_split(folder: Path, query: Query) -> Iterator[Path]:
    """The data files whose paths mention the config and the split; a sole file counts as it is."""
    every = sorted(file for file in folder.rglob("*") if file.name.lower().endswith(DATA_FILES))
    for wanted in ((query.config, query.split), (query.split,)):
        if found := [
            file for file in every if all(_mentions(file.relative_to(folder), w) for w in wanted if w)
        ]:
            return iter(found)
    if len(every) == 1:
        return iter(every)
    names = ", ".join(file.relative_to(folder).as_posix() for file in every[:5]) or "no data files"
    raise Invalid(f"data: no file in {folder} says that it is the split {query.split!r}; there are {names}")


def _mentions(path: Path, word: str) -> bool:
    """Whether a path contains the word, as a whole word."""
    return (
        re.search(rf"(?<![a-z0-9]){re.escape(word.lower())}(?![a-z0-9])", path.as_posix().lower()) is not None
    )


def benchmark(name: str) -> Benchmark:
    """The registered benchmark of that name; Unknown if there is none."""
    made: Benchmark = registry.make("benchmark", name)
    return made


def find_benchmark(text: str) -> Benchmark | None:
    """The benchmark of a registered name, or of file.py:name; None if there is none."""
    if is_reference(text):
        found = resolve_reference(text, Path()) if Path(text.rpartition(":")[0]).is_file() else None
        return found if isinstance(found, Benchmark) else None
    return benchmark(text) if text.isidentifier() and text in registry.names("benchmark") else None
