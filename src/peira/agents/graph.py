"""`graph`: an agent that is a graph of functions and agents; edges say which node follows, and when."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from peira.agents.command.placeholders import values_of
from peira.agents.conversation.agent import replace_input
from peira.agents.function import chosen_arguments
from peira.agents.loop.agent import ToolLoop
from peira.agents.loop.toolbox import joined_fingerprint
from peira.agents.tools.workspace import WORKSPACE, Workspace
from peira.core.chat.transcript import as_text
from peira.core.code.fingerprint import Fingerprint, fingerprint
from peira.core.code.signature import TakenArguments, wants
from peira.core.context import Trial, in_branch
from peira.core.expressions import Expression
from peira.core.ids import Json, normalise
from peira.core.models import output_of
from peira.core.people.questions import question_of, value_of
from peira.core.registry import Registry, nearest
from peira.core.steps import recorded
from peira.errors import AttemptFailed, Exhausted, ExpressionError, Invalid
from peira.spec.agents import AgentValue, read_kind
from peira.spec.modules import is_reference, reference, resolve_reference

KIND = "graph"
START = "start"
"""The factor that chooses among several entry points."""
NAMES = ("output", "outputs", "input", "visit", "steps")
"""What edges and nodes may name: the output of the node before, the last output of each node, the case's
input, how often this node was visited, how many nodes were visited; any other name is a factor."""


@dataclass(frozen=True)
class GraphEdge:
    """A way from one node to another, open if its condition holds."""

    source: str
    target: str
    when: Expression | None = None

    def plain(self) -> list[Json]:
        """As users write it."""
        return [self.source, self.target, *([self.when.text] if self.when else [])]


@dataclass
class GraphState:
    """How far a trial has come in its graph."""

    trial: Trial
    outputs: dict[str, Json] = field(default_factory=dict)
    visits: Counter[str] = field(default_factory=Counter)
    output: Json = None

    def values(self, node: str) -> dict[str, Json]:
        """What may be named at a node."""
        return {
            **values_of(self.trial),
            "output": self.output,
            "outputs": dict(self.outputs),
            "visit": self.visits[node],
            "steps": self.visits.total(),
        }


@dataclass(frozen=True, eq=False)
class Graph:
    """An agent that is a graph; see `graph`."""

    nodes: Mapping[str, Any]
    edges: tuple[GraphEdge, ...]
    starts: Mapping[str, str]
    """The entry points by the levels of the factor `start`; a sole one under ""."""
    ends: tuple[str, ...]
    pauses: tuple[str, ...] = ()
    visits: int = 5
    most: int = 50
    label: str = KIND
    version: str | None = None
    kind = KIND
    asynchronous = False

    @property
    def takes(self) -> frozenset[str]:
        """The factors of its nodes and edges, and `start` if there are several entry points."""
        named = {name.split(".")[0] for edge in self.edges if edge.when for name in edge.when.names} - {
            *NAMES
        }
        inner = [self._node_wants(node).names for node in self.nodes.values()]
        return frozenset(named - {"case"}).union(*inner) | ({START} if "" not in self.starts else set())

    @property
    def requires(self) -> frozenset[str]:
        """The factors that edges and nodes cannot do without."""
        named = {name.split(".")[0] for edge in self.edges if edge.when for name in edge.when.names} - {
            *NAMES
        }
        inner = [self._node_wants(node).required for node in self.nodes.values()]
        return frozenset(named - {"case"}).union(*inner) | ({START} if "" not in self.starts else set())

    def _node_wants(self, node: Any) -> TakenArguments:
        """The factors that a node takes."""
        if isinstance(node, AgentValue):
            takes = node.made(KIND).takes or frozenset()
            return TakenArguments(takes, takes, False)
        if not callable(node):
            return TakenArguments(frozenset(), frozenset(), False)
        found, known = wants(node), {*NAMES, "case", "trial", "prompt", "seed"}
        return TakenArguments(found.names - known, found.required - known, found.anything)

    @property
    def models(self) -> tuple[str, ...]:
        """The models that its nodes call, as far as they are known without a trial."""
        return tuple(name for node in self.nodes.values() for name in getattr(node, "models", ()))

    @property
    def starts_processes(self) -> bool:
        """Whether agents in it start processes."""
        return any(getattr(one, "starts_processes", False) for one in self.nodes.values())

    def check(self) -> None:
        """Raise Invalid if an agent in it cannot work on this machine."""
        for one in self.nodes.values():
            if (check := getattr(one, "check", None)) is not None:
                check()

    @cached_property
    def fingerprint(self) -> Fingerprint:
        """The code of its nodes."""
        return joined_fingerprint([_NodeCode(node) for node in self.nodes.values()])

    @cached_property
    def identity(self) -> Json:
        """Nodes with their code, edges with their conditions, and the limits."""
        nodes: Json = {name: node_identity(node) for name, node in sorted(self.nodes.items())}
        return {
            "agent": KIND,
            "label": self.label,
            "nodes": nodes
            if self.version is None
            else {"version": self.version, "names": sorted(self.nodes)},
            "edges": [edge.plain() for edge in self.edges],
            "starts": dict(self.starts),
            "ends": sorted(self.ends),
            "pauses": sorted(self.pauses),
            "limits": [self.visits, self.most],
        }

    def made(self, label: str, version: str | None = None) -> Graph:
        """The same under a label of a study."""
        return replace(self, label=label, version=version)

    def written(self, base: Path | None = None) -> dict[str, Json] | None:
        """The table that a study file has for it; None if code in it has no name in a file."""
        nodes: dict[str, Json] = {}
        for name, node in self.nodes.items():
            given: Json = node
            if isinstance(node, AgentValue):
                given = node.written(base)
            elif callable(node):
                given = reference(node, base)
            if given is None and node is not None:
                return None
            nodes[name] = given if given is not None else ""
        return {
            "kind": KIND,
            "nodes": nodes,
            "edges": [edge.plain() for edge in self.edges],
            "start": self.starts[""] if "" in self.starts else dict(self.starts),
            "ends": list(self.ends),
            **({"pauses": list(self.pauses)} if self.pauses else {}),
            "visits": self.visits,
            "most": self.most,
        }

    def invoke(self, trial: Trial) -> Json:
        """Go from node to node until an end; its output. Raises Exhausted at a limit of visits."""
        state, name = GraphState(trial), self._entry(trial)
        state.output = trial.case.input
        while True:
            if state.visits[name] >= self.visits:
                raise Exhausted(f"graph: {name} was visited {self.visits} times (visits = {self.visits})")
            if state.visits.total() >= self.most:
                raise Exhausted(f"graph: not at an end after {self.most} nodes (most = {self.most})")
            state.visits[name] += 1
            state.output = state.outputs[name] = self._visited(name, state)
            if name in self.ends:
                trial.report(nodes=state.visits.total())
                return state.output
            name = self._next(name, state)

    def _entry(self, trial: Trial) -> str:
        """The node to begin with."""
        if "" in self.starts:
            return self.starts[""]
        chosen = as_text(trial.condition.get(START))
        if chosen not in self.starts:
            raise Invalid(f"start: the graph has no entry point {chosen!r}; it has {', '.join(self.starts)}")
        return self.starts[chosen]

    def _visited(self, name: str, state: GraphState) -> Json:
        """The output of a visit: a recorded step, with the number of the visit in its name."""
        trial, visit = state.trial, state.visits[name]
        with in_branch(f"node {name} {visit}"):
            if name in self.pauses:
                return self._asked(name, state)
            before = dict(_files(trial))
            given = normalise([state.output, dict(state.outputs)], f"node {name}")

            def compute() -> Json:
                output = normalise(output_of(self._called(name, state)), f"the output of node {name}")
                changed = _changes(before, trial)
                return {"output": output, **({"changes": changed} if changed else {})}

            value: Any = recorded(
                trial, f"node {name} {visit}", node_identity(self.nodes[name]), given, compute
            )
            if value.get("changes") and _files(trial) == before:
                trial.parts.setdefault(WORKSPACE, Workspace()).apply(value["changes"])
            output: Json = value["output"]
            return output

    def _called(self, name: str, state: GraphState) -> Any:
        """What a node does: a function gets what it names, an agent the output before as its input."""
        node, trial, values = self.nodes[name], state.trial, state.values(name)
        if isinstance(node, ToolLoop):
            told = {**values, "input": state.output}
            return node.run(trial, node.opening(told), told)[0]
        if isinstance(node, AgentValue):
            return node.made(name).invoke(replace_input(trial, trial.case.own(), state.output))
        wanted = wants(node)
        given = chosen_arguments(wanted, trial)
        given |= {known: values[known] for known in NAMES if known in wanted.names}
        return node(**given)

    def _asked(self, name: str, state: GraphState) -> Json:
        """The answer of a person at a pause node; its name and visit are those of the question."""
        node = self.nodes[name]
        given = output_of(self._called(name, state)) if callable(node) else node
        told: dict[str, Any] = {"prompt": given or f"{name}: how shall it go on?"}
        if isinstance(given, Mapping):
            told = dict(given)
        told.setdefault("show", state.output)
        question = question_of(**{**told, "key": f"{name} {state.visits[name]}"})
        [answer] = state.trial.channel.consult([question])
        return value_of(answer, question)

    def _next(self, name: str, state: GraphState) -> str:
        """The target of the first edge whose condition holds."""
        values = state.values(name)
        for edge in self.edges:
            if edge.source == name and (edge.when is None or _holds(edge, values)):
                return edge.target
        raise AttemptFailed(
            f"graph: no edge leads on from {name} with the output {as_text(state.output)[:200]}"
        )


def _files(trial: Trial) -> dict[str, bytes]:
    """The files of the trial's workspace now."""
    workspace = trial.parts.get(WORKSPACE)
    return dict(workspace.files) if workspace is not None else {}


def _changes(before: dict[str, bytes], trial: Trial) -> dict[str, Json]:
    """The changes to the files of the workspace since then."""
    former = Workspace()
    former.files = before
    return former.replace(_files(trial))


def _holds(edge: GraphEdge, values: Mapping[str, Any]) -> bool:
    """Whether the condition of an edge is true; names inside values that are not there are null."""
    assert edge.when is not None
    try:
        return edge.when.evaluate({name: _looked_up(name, values) for name in edge.when.names})
    except ExpressionError as problem:
        raise AttemptFailed(f"graph: edge {edge.source} -> {edge.target}: {problem}") from None


def _looked_up(name: str, values: Mapping[str, Any]) -> Any:
    """The value of a dotted name."""
    first, *rest = name.split(".")
    found: Any = values.get(first)
    for part in rest:
        found = found.get(part) if isinstance(found, Mapping) else None
    return found


def node_identity(node: Any) -> Json:
    """A node's code or configuration."""
    if isinstance(node, AgentValue):
        return node.made("node").identity
    if callable(node):
        return {"code": fingerprint(node).digest}
    return normalise(node, "node")


class _NodeCode:
    """A node with its fingerprint."""

    def __init__(self, node: Any) -> None:
        inner = getattr(node, "fingerprint", None)
        if isinstance(inner, Fingerprint):
            self.fingerprint = inner
        elif callable(node):
            self.fingerprint = fingerprint(node)


# What users write


def graph(
    nodes: Mapping[str, Any],
    edges: Sequence[Sequence[Any]],
    *,
    start: str | Sequence[str] | Mapping[str, str],
    ends: str | Sequence[str],
    pauses: Sequence[str] = (),
    visits: int = 5,
    most: int = 50,
) -> Graph:
    """An agent that is a graph: `graph(nodes={"plan": plan, "act": act}, edges=[("plan", "act")], ...)`.

    A node is a function of any of output (of the node before), outputs (the last of each node), input, visit,
    steps, case, trial and factors; or an `agent(...)`, which gets the output before as its input. An edge is
    (from, to) or (from, to, condition): a safe expression on output, outputs, input, visit, steps and
    factors, as "output.again" or "visit < 3". The first edge of a node whose condition holds is taken.

    Each visit is a recorded step with its number: a resumed trial goes on at the node that it had reached.
    `start` is a node, or several by name: the factor `start` chooses. The output of an end is the output of
    the trial. Nodes in `pauses` ask a person: such a node is the text of the question, a table with prompt,
    options, to, within, otherwise, schema, or a function that gives one of these; the answer is its output.
    A node that would be visited more than `visits` times, or more than `most` nodes in all, leaves the trial
    exhausted, which is no success. Everything that is wrong with a graph is said at once, when it is made.
    """
    read, problems = _nodes(nodes)
    made = list(_edges(edges, problems))
    starts = _starts(start)
    last = (ends,) if isinstance(ends, str) else tuple(ends)
    paused = (pauses,) if isinstance(pauses, str) else tuple(pauses)
    found = Graph(read, tuple(made), starts, last, paused, visits, most)
    problems += _problems(found)
    if problems:
        raise Invalid(dict.fromkeys(problems))
    return found


def _nodes(given: Any) -> tuple[dict[str, Any], list[str]]:
    """The nodes from what was written, and what is wrong with them."""
    if not isinstance(given, Mapping) or not given:
        return {}, [f"nodes: must be a table of names and functions or agents, not {given!r}"]
    found: dict[str, Any] = {}
    problems: list[str] = []
    for name, node in given.items():
        try:
            if isinstance(node, str) and is_reference(node):
                node = resolve_reference(node, Path())
            elif isinstance(node, Mapping) and "kind" in node:
                read = read_kind(node)
                node = read.made(read.kind)
        except Invalid as error:
            problems += [f"nodes.{name}: {problem}" for problem in error.problems]
        found[str(name)] = node
    return found, problems


def _edges(given: Any, problems: list[str]) -> Iterator[GraphEdge]:
    """The edges from what was written; adds what is wrong with them to the problems."""
    if isinstance(given, str) or not isinstance(given, Sequence):
        problems.append(f"edges: must be a list of (from, to) or (from, to, condition), not {given!r}")
        return
    for number, one in enumerate(given):
        plain = not isinstance(one, str) and isinstance(one, Sequence) and len(one) in (2, 3)
        if not plain or not all(isinstance(part, str) for part in one):
            problems.append(f"edges[{number}]: must be (from, to) or (from, to, condition), not {one!r}")
            continue
        try:
            yield GraphEdge(one[0], one[1], Expression(one[2]) if len(one) == 3 else None)
        except ExpressionError as error:
            problems.append(f"edges[{number}]: {error}")


def _starts(given: Any) -> dict[str, str]:
    """The entry points by name."""
    if isinstance(given, Mapping):
        return {str(name): str(node) for name, node in given.items()}
    return {"": given} if isinstance(given, str) else {str(node): str(node) for node in given}


def _problems(found: Graph) -> Iterator[str]:
    """Everything that is wrong with a graph whose parts could be read."""
    known = found.nodes.keys()
    for path, names in (
        ("start", found.starts.values()),
        ("ends", found.ends),
        ("pauses", found.pauses),
        ("edges", [name for edge in found.edges for name in (edge.source, edge.target)]),
    ):
        yield from (
            f"{path}: there is no node {name!r}{nearest(name, known)}" for name in names if name not in known
        )
    for path, count in (("start", len(found.starts)), ("ends", len(found.ends))):
        if not count:
            yield f"{path}: there is none"
    for name, limit in (("visits", found.visits), ("most", found.most)):
        if type(limit) is not int or limit < 1:
            yield f"{name}: must be a whole number of at least 1, not {limit!r}"
    for name, node in found.nodes.items():
        if name not in found.pauses and not callable(node) and not isinstance(node, AgentValue):
            yield f"nodes.{name}: must be a function or an agent, not {node!r}"
        if name in found.pauses and not (node is None or isinstance(node, str | Mapping) or callable(node)):
            yield f"nodes.{name}: a pause is a question: a text, a table or a function, not {node!r}"
        if name not in found.ends and not any(edge.source == name for edge in found.edges):
            yield f"nodes.{name}: no edge leads on from it, and it is no end"
    yield from _paths(found)


def _paths(found: Graph) -> Iterator[str]:
    """Nodes that cannot be reached, edges that are never looked at, and starts that lead to no end."""
    onward: dict[str, list[str]] = {}
    for edge in found.edges:
        onward.setdefault(edge.source, []).append(edge.target)
    reached = _reached(onward, [name for name in found.starts.values() if name in found.nodes])
    for name in found.nodes:
        if found.starts and name not in reached:
            yield f"nodes.{name}: no edge leads to it"
    for label, start in found.starts.items():
        if start in found.nodes and found.ends and not _reached(onward, [start]) & {*found.ends}:
            yield f"start{f'.{label}' if label else ''}: no way leads from {start!r} to an end"
    closed: set[str] = set()
    for number, edge in enumerate(found.edges):
        if edge.source in closed:
            yield f"edges[{number}]: is never taken, after one from {edge.source!r} without a condition"
        if edge.when is None:
            closed.add(edge.source)
        if edge.source in found.ends:
            yield f"edges[{number}]: leads on from the end {edge.source!r}"


def _reached(onward: Mapping[str, Sequence[str]], begin: Sequence[str]) -> set[str]:
    """The nodes that can be reached from these, themselves included."""
    found, todo = set(begin), list(begin)
    while todo:
        for target in onward.get(todo.pop(), ()):
            if target not in found:
                found.add(target)
                todo.append(target)
    return found


def _made(label: str, version: str | None = None, **options: Any) -> Graph:
    """A graph of functions and agents."""
    return graph(**options).made(label, version)


def register(registry: Registry) -> None:
    """Register the kind of agent."""
    registry.add("agent", KIND, _made)
