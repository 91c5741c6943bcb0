"""Exports of results for other tools; each format is a plug-in of the kind "export"."""

from __future__ import annotations

from peira.core.registry import Registry

MODULES = {
    "csv_files": ("csv", "csv-long"),
    "excel": ("excel",),
    "jsonl": ("jsonl",),
    "parquet": ("parquet",),
    "sqlite": ("sqlite",),
    "artifact": ("artifact",),
    "codebook": ("codebook",),
    "archive": ("archive",),
    "attachments": ("attachments",),
    "hub": ("hf",),
    "trackers": ("mlflow", "wandb"),
    "transcripts": ("openai", "inspect"),
}
"""The formats of each module, which is imported lazily when one of them is used."""


def register(registry: Registry) -> None:
    """Register all export formats lazily."""
    for module, names in MODULES.items():
        registry.promise("export", names, f"{__name__}.{module}")
