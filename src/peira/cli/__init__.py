"""The command line `peira`; one module per command or group of commands in `commands`."""

from peira.cli.app import main

__all__ = ["main"]
