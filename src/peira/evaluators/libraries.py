"""Metrics that others wrote: imported when they are first used, and known by their versions."""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from importlib import import_module
from typing import Any

from peira.errors import Invalid


def needs(evaluator: str, *packages: str, install: str = "'peira[metrics]'") -> tuple[str, ...]:
    """The packages, if all are installed. Asked when an evaluator is made: later, every score would fail."""
    missing = [package for package in packages if not _version(package)]
    if missing:
        raise Invalid(f"{evaluator} needs {' and '.join(missing)}: pip install {install}")
    return packages


def versions(packages: Iterable[str]) -> dict[str, str]:
    return {package: _version(package) for package in packages}


def load(module: str) -> Any:
    """A module of a package that `needs` has seen."""
    return import_module(module)


@lru_cache(maxsize=64)
def _version(package: str) -> str:
    from importlib.metadata import PackageNotFoundError, version  # slow, and not needed before this

    try:
        return version(package)
    except PackageNotFoundError:
        return ""
