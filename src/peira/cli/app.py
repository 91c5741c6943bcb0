"""The commands there are. A command's room is imported when it is used, so that `peira --help` is quick."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from keyword import iskeyword
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from peira.cli.help import Command
from peira.core.registry import nearest

COMMANDS = {
    "init": ("init", "Write a first study, a project file and a schema for editors."),
    "plan": ("plan", "Say what a run would do, and what of it is new. Runs nothing."),
    "diff": ("diff", "Say what changed from one study, run or frozen plan to another."),
    "design": ("design", "Say what a design can and cannot tell. Runs nothing."),
    "estimate": ("estimate", "Say what a run would take: calls, tokens, cost, time. Runs nothing."),
    "run": ("run", "Run a study, or go on with it: what is recorded is not done again."),
    "score": ("run", "Judge the outputs there are; never calls the agent."),
    "import": ("imports", "Take in outputs that were made elsewhere."),
    "bundle": ("bundles", "Hand out pending work as a file, and take in what came of it."),
    "data": ("data", "List benchmarks, or show and describe what cases there are."),
    "runs": ("look", "List the runs in a store, newest first."),
    "status": ("look", "Say where a run stands."),
    "show": ("show", "Show the results of a run, its trials, or one of them."),
    "compare": ("compare", "Compare two runs, or the levels of a factor, case by case."),
    "leaderboard": ("leaderboard", "Rank what was compared, with intervals on means and ranks."),
    "contest": ("contest", "Let a judge compare the outputs of a run, two by two."),
    "trust": ("trust", "Say how far a judge can be trusted: agreement, biases, corrected means."),
    "effects": ("effects", "Say what each factor does, and what factors do together."),
    "slices": ("measures", "Show the means of slices, small ones pulled towards the rest."),
    "quantiles": ("measures", "Show medians and tails: of seconds, or of any number."),
    "ratio": ("measures", "Show one total per another: cost per success."),
    "surface": ("surface", "Say where a score is best, over factors that are numbers."),
    "hypotheses": ("hypotheses", "Say what became of the hypotheses that a study declared."),
    "power": ("power", "Say how many cases it takes to tell two sides apart."),
    "report": ("report", "Write a report of a run, for people to read."),
    "export": ("export", "Write the results of a run as files that other tools read."),
    "gate": ("gate", "Exit with 1 unless the results meet these demands, with confidence."),
    "events": ("look", "List what happened in a run, in order."),
    "calls": ("calls", "List the calls of models, last asked first, and what they cost."),
    "resolve": ("resolve", "Settle calls in doubt, or discard answers that are bad."),
    "batch": ("batch", "Say where batches stand, or fetch the answers of those that are over."),
    "watch": ("look", "Follow a run live, from any terminal, until it ends."),
    "cancel": ("keep", "Stop a run, wherever it is running, and say what was stopped."),
    "verify": ("keep", "Check a store: replay its events, check every digest."),
    "doctor": ("doctor", "Check that peira can work here."),
    "demo": ("demo", "See it work: a small factorial study of a real model."),
}
"""Each command's room, and what it does in one line (the first of its help)."""

SETTINGS = {"help_option_names": ["-h", "--help"], "max_content_width": 80}


class Commands(TyperGroup):
    def list_commands(self, ctx: Any) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        if cmd_name not in COMMANDS:
            return None
        room = import_module(f"peira.cli.{COMMANDS[cmd_name][0]}")
        return _command(cmd_name, getattr(room, f"{cmd_name}_" if iskeyword(cmd_name) else cmd_name))

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        if args and not args[0].startswith("-") and args[0] not in COMMANDS:
            ctx.fail(f"no such command {args[0]!r}{nearest(args[0], COMMANDS)}")
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, line) for name, (_, line) in COMMANDS.items()])


def commands() -> Any:
    """The parser of the whole command line."""
    app = typer.Typer(cls=Commands, add_completion=False, rich_markup_mode=None, context_settings=SETTINGS)
    app.callback(invoke_without_command=True)(peira)
    return typer.main.get_command(app)


def _command(name: str, function: Callable[..., Any]) -> Any:
    app = typer.Typer(add_completion=False, rich_markup_mode=None)
    app.command(name, cls=Command, context_settings=SETTINGS)(function)
    return typer.main.get_command(app)


def _version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version  # slow, and not needed for anything else

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
