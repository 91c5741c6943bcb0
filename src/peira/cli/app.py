"""The command line: the list of commands, the layout of their help, and `main`.

Each command is imported when it is used. Help fits within 80 columns and is the same for every release of
typer.
"""

from __future__ import annotations

import builtins
import io
import math
import os
import re
import signal
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import wraps
from importlib import import_module
from inspect import Parameter, Signature, signature
from keyword import iskeyword
from types import MappingProxyType
from typing import Annotated, Any, cast, get_type_hints

import typer
from typer.core import TyperArgument, TyperCommand, TyperGroup

from peira.cli import errors
from peira.cli.help_pages import HelpPage, in_vain
from peira.cli.output import standard_output_kept
from peira.core.registry import nearest
from peira.errors import ExpressionError, Invalid, PeiraError

LARGEST = 2**63 - 1
"""The largest whole number that a store can hold."""


class CliCommand(TyperCommand):
    """A command with our layout of usage and help; values that no option means are refused."""

    pages: Mapping[str, HelpPage] = MappingProxyType({})
    """The help of each of its actions, if it has any: its first argument names one."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse, and refuse infinite numbers, whole ones beyond 64 bits, and text that is not UTF-8.

        Options that the action does not use are refused, too.
        """
        self._action = next((word for word in args if word in self.pages), "")
        rest: list[str] = super().parse_args(ctx, args)
        if self.pages:
            self._refuse_in_vain(ctx)
        for param in self.params:
            for value in _each(ctx.params.get(param.name)):
                if problem := _edge(value):
                    raise typer.BadParameter(problem, ctx, cast("Any", param))
        return rest

    def _refuse_in_vain(self, ctx: Any) -> None:
        action = str(ctx.params.get("action", ""))
        given = (param for param in _options(self, ctx) if _is_given(ctx, param))
        vain = {_name(param): in_vain(self.pages, action, param.name) for param in given}
        if problems := [f"{name}: is for {actions}" for name, actions in vain.items() if actions]:
            raise Invalid(problems)

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        """Arguments first, then [OPTIONS]."""
        return [*(str(param.metavar) for param in _arguments(self)), "[OPTIONS]"]

    @property
    def _page(self) -> HelpPage | None:
        """The page of the action that help is asked for; None: of the whole command."""
        return self.pages.get(self._action)

    def format_usage(self, ctx: Any, formatter: Any) -> None:
        """The usage of the action, or of the command."""
        if self._page is None:
            super().format_usage(ctx, formatter)
        else:
            formatter.write_usage(
                f"{ctx.command_path} {self._action}", f"{self._page.usage} [OPTIONS]".strip()
            )

    def format_help_text(self, ctx: Any, formatter: Any) -> None:
        """What the action does, with examples; or the text of the command."""
        if self._page is None:
            super().format_help_text(ctx, formatter)
            return
        formatter.write_paragraph()
        with formatter.indentation():
            formatter.write_text(self._page.text)
            if self._page.examples:
                formatter.write_paragraph()
                lines = "\n".join(f"  {line}" for line in self._page.examples)
                formatter.write_text(f"\b\nExamples:\n{lines}")

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Arguments and options in two sections, without hidden ones and those that the action has not."""
        page = self._page
        arguments = [
            (re.sub(r"[][]", "", param.metavar), param.help)
            for param in _arguments(self)
            if page is None or page.takes(param.name)
        ]
        options = [
            (_option_text(param), param.help)
            for param in _options(self, ctx)
            if page is None or page.takes(param.name)
        ]
        for title, rows in (("Arguments", arguments), ("Options", options)):
            if rows:
                with formatter.section(title):
                    formatter.write_dl(rows, col_max=24)


def _is_given(ctx: Any, param: Any) -> bool:
    """Whether an option was written on the command line."""
    source = ctx.get_parameter_source(param.name)
    return source is not None and source.name == "COMMANDLINE"


def _name(param: Any) -> str:
    """The long name of an option."""
    return str(max(param.opts, key=len))


def _each(given: object) -> Sequence[object]:
    """The values of an option, which may be given several times."""
    return given if isinstance(given, list | tuple) else [given]


def _edge(value: object) -> str:
    """What is wrong with a value, whatever it is for; "" if nothing is."""
    if isinstance(value, float) and not math.isfinite(value):
        return f"{value} is not a finite number"
    if isinstance(value, int) and abs(value) > LARGEST:
        return f"{str(value)[:21]} is too large: at most {LARGEST}"
    if isinstance(value, str) and any("\ud800" <= letter <= "\udfff" for letter in value):
        return "it is not UTF-8"
    return ""


def _arguments(command: Any) -> list[Any]:
    """The arguments of a command."""
    return [param for param in command.params if isinstance(param, TyperArgument)]


def _options(command: Any, ctx: Any) -> list[Any]:
    """The options of a command that are not hidden."""
    others = [param for param in command.get_params(ctx) if not isinstance(param, TyperArgument)]
    return [param for param in others if not param.hidden]


def _option_text(param: Any) -> str:
    """An option as it is typed: short form first, then its value."""
    names = ", ".join(sorted(param.opts, key=len))
    if param.secondary_opts:
        names = f"{names} / {', '.join(param.secondary_opts)}"
    return f"{names} {param.metavar}" if param.metavar else names


COMMANDS = {
    "init": ("init", "Write a first study, a project file and a schema for editors."),
    "plan": ("plan", "Say what a run would do, and what of it is new. Runs nothing."),
    "diff": ("plan", "Say what changed from one study, run or frozen plan to another."),
    "design": ("design", "Say what a design can and cannot tell. Runs nothing."),
    "estimate": ("plan", "Say what a run would take: calls, tokens, cost, time. Runs nothing."),
    "run": ("run", "Run a study, or go on with it: what is recorded is not done again."),
    "score": ("run", "Judge the outputs there are; never calls the agent."),
    "endpoint": ("serve", "Serve models over HTTP; every call is recorded, replayed and budgeted."),
    "import": ("imports", "Take in outputs that were made elsewhere."),
    "bundle": ("bundles", "Hand out pending work as a file, and take in what came of it."),
    "list": ("catalogue", "List what can be named: evaluators, transforms, designs, models and more."),
    "prices": ("catalogue", "Compare what models cost, at every provider that sells them."),
    "data": ("data", "List benchmarks, or show and describe what cases there are."),
    "runs": ("runs", "List the runs in a store, newest first."),
    "status": ("runs", "Say where a run stands."),
    "show": ("show", "Show the results of a run, its trials, or one of them."),
    "compare": ("analysis.compare", "Compare two runs, or the levels of a factor, case by case."),
    "leaderboard": ("analysis.compare", "Rank what was compared, with intervals on means and ranks."),
    "contest": ("analysis.contest", "Let a judge compare the outputs of a run, two by two."),
    "trust": ("analysis.tables", "Say how far a judge can be trusted: agreement, biases, corrected means."),
    "effects": ("analysis.compare", "Say what each factor does, and what factors do together."),
    "means": ("analysis.tables", "Show means over factors, adjusted for the others, and contrasts."),
    "slices": ("analysis.tables", "Show the means of slices, small ones pulled towards the rest."),
    "confusion": ("analysis.tables", "Show which answers were given for which expected ones."),
    "quantiles": ("analysis.tables", "Show medians and tails: of seconds, or of any number."),
    "ratio": ("analysis.tables", "Show one total per another: cost per success."),
    "surface": ("analysis.tables", "Say where a score is best, over factors that are numbers."),
    "hypotheses": ("analysis.tables", "Say what became of the hypotheses that a study declared."),
    "power": ("analysis.power", "Say how many cases it takes to tell two sides apart."),
    "worth": ("analysis.power", "Say what it is worth to run more cases before choosing a level."),
    "report": ("report", "Write a report of a run, for people to read."),
    "export": ("export", "Write the results of a run as files that other tools read."),
    "gate": ("analysis.gate", "Exit with 1 unless the results meet these demands, with confidence."),
    "events": ("runs", "List what happened in a run, in order."),
    "calls": ("calls", "List the calls of models, last asked first, and what they cost."),
    "resolve": ("calls", "Settle calls in doubt, or discard answers that are bad."),
    "batch": ("batch", "Say where batches stand, or fetch the answers of those that are over."),
    "worker": ("control.worker", "Execute runs of a shared store, together with other processes."),
    "inbox": ("control.inbox", "List what people are asked, and answer it."),
    "stream": ("control.stream", "Submit jobs to a stream, and see what becomes of them."),
    "work": ("control.work", "Execute a work plan: units in confined workspaces, each after its needs."),
    "watch": ("runs", "Follow a run live, from any terminal, until it ends."),
    "serve": ("serve", "Serve the streams of a file, or web pages of a store."),
    "view": ("serve", "Look at a store in a browser; changes nothing."),
    "cancel": ("control.runs", "Stop a run, wherever it is running, and say what was stopped."),
    "pause": (
        "control.runs",
        "Let a run begin nothing more until it is resumed.",
    ),
    "resume": ("control.runs", "Let a paused run go on."),
    "adjust": (
        "control.runs",
        "Raise limits of a run under way: trials at once, its budget.",
    ),
    "verify": ("store", "Check a store: replay its events, check every digest."),
    "gc": ("retention", "Delete runs that are not kept, and make the store smaller."),
    "delete": ("retention", "Delete runs. What other runs need of them is kept."),
    "merge": ("retention", "Add the runs of another store to this one."),
    "migrate": ("retention", "Bring a store up to date."),
    "backup": ("store", "Copy a store to a file, also while a run is writing it."),
    "db": ("store", "Run a private Postgres server, whose address is given to --store."),
    "doctor": ("store", "Check that peira can work here."),
    "demo": ("demo", "See it work: a small factorial study of a real model."),
}
"""The module of each command in `commands`, and its one-line summary (the first line of its help)."""

SETTINGS = {"help_option_names": ["-h", "--help"], "max_content_width": 80}


class CommandGroup(TyperGroup):
    """The group of all commands; imports the module of a command when it is used."""

    def list_commands(self, ctx: Any) -> list[str]:
        """The names of all commands, in the order of help."""
        return list(COMMANDS)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """The parser of a command; None if there is no such command."""
        if cmd_name not in COMMANDS:
            return None
        module = import_module(f"peira.cli.commands.{COMMANDS[cmd_name][0]}")
        taken = iskeyword(cmd_name) or cmd_name in dir(builtins)
        return _command(cmd_name, getattr(module, f"{cmd_name}_" if taken else cmd_name))

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Fail with the nearest command if there is none of that name."""
        if args and not args[0].startswith("-") and args[0] not in COMMANDS:
            ctx.fail(f"no such command {args[0]!r}{nearest(args[0], COMMANDS)}")
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """The list of commands with their summaries, without importing them."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, line) for name, (_, line) in COMMANDS.items()])


def commands() -> Any:
    """The parser of the whole command line."""
    app = typer.Typer(
        cls=CommandGroup, add_completion=False, rich_markup_mode=None, context_settings=SETTINGS
    )
    app.callback(invoke_without_command=True)(peira)
    return typer.main.get_command(app)


def _command(name: str, function: Callable[..., Any]) -> Any:
    """The parser of one command function."""
    app = typer.Typer(add_completion=False, rich_markup_mode=None)
    app.command(name, cls=CliCommand, context_settings=SETTINGS)(command_function(function))
    command: Any = typer.main.get_command(app)
    command.pages = getattr(function, "pages", {})
    return command


ProjectFile = Annotated[
    str | None,
    typer.Option("--project", metavar="PATH", help="The project file, or its folder; else the nearest."),
]


def command_function(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function of a command as typer needs it: every option is a parameter of its own.

    A parameter that is a group of options (a NamedTuple, whose fields are annotated like parameters) is
    replaced by these, and put together again when the command is called. A command that uses a store also
    gets --project.
    """
    hints = get_type_hints(function, include_extras=True)
    given = signature(function).parameters
    groups = {name: hints[name] for name in given if _is_group(hints[name])}
    if not groups and "store" not in given:
        return function

    @wraps(function)
    def command(*words: Any, **options: Any) -> Any:
        from peira.app.store.access import public_option  # slow, and help needs neither store nor project
        from peira.spec.project import named_project

        made = {
            name: group(**{field: options.pop(field) for field in group._fields})
            for name, group in groups.items()
        }
        with named_project(options.pop("project", None)):
            if "store" in options:
                options["store"] = public_option(options["store"])
            return function(*words, **made, **options)

    parameters = [one for name in given for one in _parameters(given[name], hints[name])]
    command.__signature__ = Signature(parameters)  # type: ignore[attr-defined]
    command.__annotations__ = {one.name: one.annotation for one in parameters}
    return command


def _is_group(hint: Any) -> bool:
    """Whether a parameter is a group of options."""
    return isinstance(hint, type) and issubclass(hint, tuple) and hasattr(hint, "_fields")


def _parameters(parameter: Parameter, hint: Any) -> list[Parameter]:
    """The parameters that stand for one: the options of a group; --project beside --store."""
    if _is_group(hint):
        return [
            Parameter(name, Parameter.KEYWORD_ONLY, default=hint._field_defaults[name], annotation=annotation)
            for name, annotation in get_type_hints(hint, include_extras=True).items()
        ]
    plain = parameter.replace(annotation=hint, kind=Parameter.KEYWORD_ONLY)
    if parameter.name != "store":
        return [plain]
    return [plain, Parameter("project", Parameter.KEYWORD_ONLY, default=None, annotation=ProjectFile)]


def _version(wanted: bool) -> None:
    """The callback of --version."""
    if wanted:
        from importlib.metadata import version  # slow to import, and not needed for anything else

        print(f"peira {version('peira')}")
        raise typer.Exit


def peira(
    ctx: typer.Context,
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Say which peira this is.")
    ] = False,
) -> None:
    """Experiments on language models and AI agents: designed, durable, honestly measured.

    Stop anywhere; run again. Nothing finished is lost, nothing recorded is paid for twice, and no number is
    shown without its uncertainty.

    \b
    peira demo                  see it work
    peira init                  start a study of your own
    peira run capitals.py       run it, and run it again to go on
    peira show                  look at the results
    """
    if ctx.invoked_subcommand is None:
        print(ctx.get_help())


INTERRUPTED = 130
"""The exit code after Ctrl-C."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line with these arguments (default: those of the process); returns the exit code."""
    _tolerate_terminals()
    if arguments is None:  # the process ends after this: standard output stays as --json left it
        code = _perform(sys.argv[1:])
        if code == INTERRUPTED:  # reported already: another Ctrl-C must not cause a traceback
            signal.signal(signal.SIGINT, signal.SIG_IGN)
        return code
    with standard_output_kept():
        return _perform(list(arguments))


def _tolerate_terminals() -> None:
    """Print characters that the terminal's encoding does not have as escapes, instead of failing."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper) and stream.errors == "strict":
            stream.reconfigure(errors="backslashreplace")


def _perform(arguments: list[str]) -> int:
    """Parse and execute; expected errors become messages on standard error and an exit code."""
    try:
        with commands().make_context("peira", list(arguments), obj=arguments) as context:
            return int(context.command.invoke(context) or 0)
    except typer.Exit as end:
        return int(end.exit_code)
    except errors.UsageError as problem:
        return errors.wrong_use(problem)
    except PeiraError as problem:
        return errors.say(errors.problems(problem), problem.exit_code)
    except ExpressionError as problem:
        return errors.say([problem.reason], 2)
    except KeyboardInterrupt:
        return errors.say([f"interrupted; again: {errors.resume_command(arguments)}"], INTERRUPTED)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # the reader has closed the pipe: end without a message
        return 1
    except OSError as problem:
        if problem.filename is None:
            raise
        return errors.say([f"{problem.filename}: {problem.strerror}"], 1)
