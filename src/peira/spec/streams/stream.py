"""The stream, as one frozen value, and `stream`: the decorator that makes one of a function."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, overload

from pydantic import BeforeValidator, Field, SkipValidation

from peira.core.expressions import Expression
from peira.core.ids import Json
from peira.core.registry import nearest
from peira.errors import ExpressionError, Invalid
from peira.spec.fields.declaration import keys_of
from peira.spec.limits import Allowance, Budget, byte_count
from peira.spec.modules import Decorated, caller
from peira.spec.streams.experiment import DRAWN, WHEN_DECIDED, Assign, Experiment
from peira.spec.streams.goals import Goal, read_goal
from peira.spec.streams.triggers import After, Trigger, label_of, looked_up, read_trigger
from peira.spec.study import Study
from peira.spec.values import MAX_PARALLEL, Duration, Value, join, read_value

PARALLEL = 8
"""Jobs at a time, where nothing else is said."""
REFUSED = ("cases", "repeats", "order", "anchors", "design", "blocks", "hypotheses", "analysis_plans")
"""Fields of a study that mean nothing where cases arrive one by one."""


def _shadow_allowance(raw: Any) -> Allowance | None:
    """The allowance that a table stands for."""
    found: Allowance | None = None if raw is None else read_value(Allowance, raw)
    return found


class JobKeep(Value):
    """Which ended jobs keep their inputs and outputs: the newest `count`, those submitted within `age`, the
    newest that have `size` bytes together. All of them, where nothing is said."""

    age: Duration | None = Field(default=None, ge=0)
    count: int | None = Field(default=None, ge=0)
    size: Annotated[int | None, BeforeValidator(byte_count, json_schema_input_type=int | str)] = None

    @property
    def bounded(self) -> bool:
        """Whether anything is removed."""
        return not (self.age is None and self.count is None and self.size is None)


class Shadows(Value):
    """What the shadows of a stream may use beside its jobs: workers of their own, and a budget of their own.

    They take nothing from the budget of the stream. Without a `budget` theirs has the same limits, counted
    apart; without `parallel` there are as many workers as for jobs. Shadows that find it used up end as
    exhausted, and jobs go on.
    """

    parallel: int | None = Field(default=None, ge=1, le=MAX_PARALLEL)
    budget: Annotated[
        Allowance | None, BeforeValidator(_shadow_allowance, json_schema_input_type=Allowance | None)
    ] = None


class Stream(Value, Decorated):
    """A study whose cases arrive, with how its jobs are made, ordered, assigned and kept.

    `session` is an expression over the input ("input.customer") that says which session a job belongs to.
    With `isolation` "shared" the jobs of a session share a state (`peira.session`); with "synchronized" they
    are also done one at a time, in the order of their arrival. Streams with the same `sessions` share the
    states of their sessions; without it, each has its own. `assign` says which of the study's conditions a
    job gets: the first ("one"), one drawn from the job's seed ("random"), or all of them, of which the first
    answers and the others are shadows ("all"); with "thompson" and "successive rejects" it is drawn with
    probabilities that follow the evidence. With `stop` "when decided" the drawing ends once an arm has won,
    which gets all jobs from then on; `experiment` says by what score and how surely. `shadows` says what
    shadows may use.
    """

    study: SkipValidation[Study]
    parallel: int = Field(default=PARALLEL, ge=1, le=MAX_PARALLEL)
    session: str = ""
    isolation: Literal["isolated", "shared", "synchronized"] = "isolated"
    sessions: str = ""
    triggers: SkipValidation[tuple[Trigger, ...]] = ()
    goals: SkipValidation[tuple[Goal, ...]] = ()
    keep: SkipValidation[JobKeep] = JobKeep()
    assign: Assign = "one"
    shadows: Annotated[Shadows, BeforeValidator(partial(read_value, Shadows))] = Field(
        default_factory=Shadows
    )
    stop: Literal["when decided"] | None = None
    experiment: Annotated[Experiment, BeforeValidator(partial(read_value, Experiment))] = Field(
        default_factory=Experiment
    )

    @property
    def name(self) -> str:
        """The name of the stream."""
        return self.study.name

    @property
    def function(self) -> Any:
        """The one function that does the jobs; None if there are several agents."""
        return self.study.function

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.study(*args, **kwargs)

    def __hash__(self) -> int:
        return hash((self.name, self.parallel))

    @property
    def shadow_budget(self) -> Budget:
        """What its shadows may spend: as much as its jobs, unless it says otherwise; counted apart."""
        own, budget = self.shadows.budget, self.study.budget
        if own is None:
            return budget
        return Budget(money=own.money, tokens=own.tokens, calls=own.calls, per_trial=budget.per_trial)

    def session_of(self, input: Json) -> str:
        """The session that a job with this input belongs to; "" if it belongs to none."""
        return session_in(self.session, input)


def session_in(place: str, input: Json) -> str:
    """The session that stands at this place of an input; "" if there is none, or no place is given."""
    found = looked_up({"input": input}, place) if place else None
    if isinstance(found, (dict, list)):
        raise Invalid(f"session: {place} is a {type(found).__name__}, not one value")
    return "" if found is None else str(found)


def assemble(raw: Mapping[str, Any], folders: Sequence[Path], module: str = "") -> Stream:
    """The stream of what was written; raises Invalid with every problem, of the study in it too."""
    own = [name for name in Stream.model_fields if name != "study"]
    fields = {key: value for key, value in raw.items() if key in own}
    rest = {key: value for key, value in raw.items() if key not in own}
    problems = [_refusal(key, own) for key in rest if key in REFUSED or key not in keys_of(Study)]
    rest = {key: value for key, value in rest.items() if key not in REFUSED and key in keys_of(Study)}
    study: Study | None = None
    try:
        study = Study.assemble({**rest, "cases": []}, folders, module, without=["cases"])
    except Invalid as error:
        problems += error.problems
    fields["triggers"] = tuple(_each("triggers", fields.get("triggers", ()), read_trigger, problems))
    fields["goals"] = tuple(_each("goals", fields.get("goals", ()), read_goal, problems))
    try:
        fields["keep"] = read_value(JobKeep, fields.get("keep", {}))
    except Invalid as error:
        problems += [join("keep", problem) for problem in error.problems]
        del fields["keep"]
    made: Stream | None = None
    try:
        made = Stream(**{"study": study, **fields})
    except Invalid as error:
        problems += error.problems
    if made is not None and study is not None:
        problems += _broken(made)
    if problems or made is None:
        raise Invalid(dict.fromkeys(problems))
    return made


def _refusal(key: str, own: Sequence[str]) -> str:
    if key in REFUSED:
        return f"{key}: has no meaning in a stream, whose cases arrive"
    return f"{key}: is not known here{nearest(key, (*own, *keys_of(Study)))}"


def _each(path: str, raw: Any, read: Callable[[object], Any], problems: list[str]) -> Iterator[Any]:
    """Each element as it is read; its problems are added to the list."""
    if isinstance(raw, (str, Mapping)) or not isinstance(raw, Sequence):
        raw = [raw]
    for i, one in enumerate(raw):
        try:
            yield read(one)
        except Invalid as error:
            problems += [join(f"{path}[{i}]", problem) for problem in error.problems]


def _broken(stream: Stream) -> Iterator[str]:
    """Everything that does not fit together."""
    if stream.session:
        try:
            names = Expression(stream.session).names
        except ExpressionError as error:
            yield f"session: {error}"
        else:
            if names != {stream.session} or stream.session.partition(".")[0] != "input":
                yield f"session: {stream.session!r} is not a place in the input; write input.NAME"
    elif stream.isolation != "isolated":
        yield f'isolation: "{stream.isolation}" needs a session, as session = "input.customer"'
    if stream.sessions and stream.isolation == "isolated":
        yield 'sessions: has no effect with isolation "isolated"; write "shared" or "synchronized"'
    for label, n in Counter(map(label_of, stream.triggers)).items():
        if n > 1:
            yield f"triggers: there are {n} of the name {label!r}; give them names"
    conditions = max(1, len(stream.study.agents)) * _combinations(stream.study)
    if stream.assign != "one" and conditions < 2:
        yield f'assign: "{stream.assign}" needs a factor with at least two levels, or several agents'
        return
    if stream.shadows.model_fields_set and stream.assign != "all":
        yield f'shadows: has no meaning with assign = "{stream.assign}"; there are shadows with "all"'
    if stream.stop and stream.assign not in DRAWN:
        yield f'stop: "{WHEN_DECIDED}" needs arms that are drawn, as assign = "random"'
    yield from stream.experiment.problems(stream.assign, bool(stream.stop), conditions)
    if stream.assign in DRAWN:
        yield from _score_problems(stream)


def _score_problems(stream: Stream) -> Iterator[str]:
    """What is wrong with the score that decides, where one is needed."""
    follows, study = stream.stop or stream.assign != "random", stream.study
    if follows and not (stream.experiment.score or study.outcomes or len(study.evaluators) == 1):
        yield "experiment.score: name the score that decides: there is no primary outcome, nor one evaluator"


def _combinations(study: Study) -> int:
    found = 1
    for factor in study.factors:
        found *= max(1, len(factor.values))
    return found


class StreamDecorator:
    """The decorator that `stream(...)` returns: makes a stream of a function."""

    def __init__(self, fields: Mapping[str, Any], folders: list[Path], module: str) -> None:
        self._fields, self._folders, self._module = fields, folders, module

    def __call__(self, function: Callable[..., Any]) -> Stream:
        named = {"name": getattr(function, "__name__", "stream"), **self._fields, "agent": function}
        return assemble(named, self._folders, self._module)


if TYPE_CHECKING:

    class DecoratingStream(Stream):
        """What `stream(...)` returns without a function: a stream if it has agents, else the decorator."""

        def __call__(self, function: Callable[..., Any], /) -> Stream: ...

else:
    DecoratingStream = Any


@overload
def stream(function: Callable[..., Any], /, **fields: Any) -> Stream: ...
@overload
def stream(function: None = None, /, **fields: Any) -> DecoratingStream: ...
def stream(function: Callable[..., Any] | None = None, /, **fields: Any) -> Any:
    """Make a stream: `@stream(session="input.customer", triggers=[...])` on a function, or with `agent=`.

    It takes the fields of `Stream` and those of a study that concern agents, factors, evaluators and limits.
    Everything that is wrong is raised at once, as `Invalid`.
    """
    folder, module = caller()
    folders = [folder or Path(), Path()]
    if function is not None:
        return StreamDecorator(fields, folders, module)(function)
    if "agent" in fields or "agents" in fields:
        return assemble(fields, folders, module)
    return StreamDecorator(fields, folders, module)


def entry_streams(graph: Any, **fields: Any) -> tuple[Stream, ...]:
    """A stream for each entry point of a graph, named after it; all of them over the one agent.

    The fields are those of `stream`; `sessions` lets them share the states of their sessions.
    """
    starts = getattr(graph, "starts", None)
    if not isinstance(starts, Mapping) or len(starts) < 2:
        raise Invalid(
            'entry_streams: needs a graph with several entry points, as start={"chat": "plan", ...}'
        )
    if problems := [f"{name}: follows from the entry point" for name in ("name", "agent") if name in fields]:
        raise Invalid(problems)
    folder, module = caller()
    factors = dict(fields.pop("factors", {}))
    return tuple(
        assemble(
            {"name": label, "agent": graph, "factors": {**factors, "start": [label]}, **fields},
            [folder or Path(), Path()],
            module,
        )
        for label in starts
    )


def chain_problems(streams: Sequence[Stream]) -> Iterator[str]:
    """What is wrong between streams: repeated names, triggers after streams that are not there, cycles."""
    names = [one.name for one in streams]
    yield from (f"streams: there are {n} of the name {name!r}" for name, n in Counter(names).items() if n > 1)
    follows: dict[str, list[str]] = {}
    for one in streams:
        for goal in one.goals:
            for other in goal.streams:
                if other not in names:
                    yield f"streams.{one.name}.goals: there is no stream {other!r}{nearest(other, names)}"
        for trigger in one.triggers:
            if isinstance(trigger, After):
                if trigger.after not in names:
                    where = f"streams.{one.name}.triggers.{label_of(trigger)}"
                    yield f"{where}: there is no stream {trigger.after!r}{nearest(trigger.after, names)}"
                else:
                    follows.setdefault(trigger.after, []).append(one.name)
    if cycle := _cycle(follows):
        yield f"streams: each would start the next for ever: {' -> '.join(cycle)}"


def _cycle(follows: Mapping[str, Sequence[str]]) -> list[str]:
    """The names along a cycle, the first one at both ends; empty if there is none."""
    done: set[str] = set()

    def walk(name: str, path: list[str]) -> list[str]:
        if name in path:
            return [*path[path.index(name) :], name]
        if name in done:
            return []
        for following in follows.get(name, ()):
            if found := walk(following, [*path, name]):
                return found
        done.add(name)
        return []

    for name in follows:
        if found := walk(name, []):
            return found
    return []
