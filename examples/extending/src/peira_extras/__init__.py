"""Plug-ins for peira. The entry point in pyproject.toml names `register`, which peira calls once."""

from __future__ import annotations

from peira.core.registry import Registry

MODULES = {
    "agent": ("agent", "template"),
    "design": ("design", "corners"),
    "evaluator": ("evaluator", "at_most"),
    "export": ("export", "outputs"),
    "model": ("model", "kiosk"),
    "runner": ("runner", "one_thread_each"),
    "section": ("section", "sample"),
    "stopping": ("stop", "enough"),
    "store": ("store", "named"),
    "transform": ("transform", "yes_no"),
}
"""Each module's plug-in: its kind and its name."""


def register(registry: Registry) -> None:
    """A module is imported when its plug-in is first used; its own `register` then adds the plug-in."""
    for module, (kind, name) in MODULES.items():
        registry.promise(kind, (name,), f"{__name__}.{module}")
