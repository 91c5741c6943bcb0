"""The command line: `peira`, one room for each group of commands."""

from peira.cli.entry import main

__all__ = ["main"]
