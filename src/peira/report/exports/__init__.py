"""Exports: results as files that other tools read. Each format is a plug-in of the kind "export"."""

from __future__ import annotations

from peira.core.registry import Registry

ROOMS = {
    "tidy": ("csv", "csv-long"),
    "excel": ("excel",),
    "lines": ("jsonl",),
    "columnar": ("parquet",),
    "database": ("sqlite",),
    "artifact": ("artifact",),
    "hub": ("hf",),
    "trackers": ("mlflow", "wandb"),
}
"""Which room has which formats; a room is imported when one of its formats is used."""


def register(registry: Registry) -> None:
    for room, names in ROOMS.items():
        registry.promise("export", names, f"{__name__}.{room}")
