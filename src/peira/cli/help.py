"""How a command's help is laid out: the same for every release of typer, within 80 columns."""

from __future__ import annotations

from typing import Any

from typer.core import TyperArgument, TyperCommand


class Command(TyperCommand):
    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        return [*(str(param.metavar) for param in _arguments(self)), "[OPTIONS]"]

    def format_options(self, ctx: Any, formatter: Any) -> None:
        arguments = [(param.metavar.strip("[]"), param.help) for param in _arguments(self)]
        options = [(_spelled(param), param.help) for param in _options(self, ctx)]
        for title, rows in (("Arguments", arguments), ("Options", options)):
            if rows:
                with formatter.section(title):
                    formatter.write_dl(rows, col_max=24)


def _arguments(command: Any) -> list[Any]:
    return [param for param in command.params if isinstance(param, TyperArgument)]


def _options(command: Any, ctx: Any) -> list[Any]:
    others = [param for param in command.get_params(ctx) if not isinstance(param, TyperArgument)]
    return [param for param in others if not param.hidden]


def _spelled(param: Any) -> str:
    """An option as one types it: short form first, then its value."""
    names = ", ".join(sorted(param.opts, key=len))
    if param.secondary_opts:
        names = f"{names} / {', '.join(param.secondary_opts)}"
    return f"{names} {param.metavar}" if param.metavar else names
