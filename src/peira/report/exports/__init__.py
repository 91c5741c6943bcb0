"""Exports of results for other tools; each format is a plug-in of the kind "export"."""

from __future__ import annotations

MODULES = {
    "csv_files": ("csv", "csv-long"),
    "excel": ("excel",),
    "jsonl": ("jsonl",),
    "parquet": ("parquet",),
    "sqlite": ("sqlite",),
    "artifact": ("artifact",),
    "codebook": ("codebook",),
    "study_file": ("study",),
    "archive": ("archive",),
    "attachments": ("attachments",),
    "hub": ("hf",),
    "trackers": ("mlflow", "wandb"),
    "transcripts": ("openai", "inspect"),
}
"""The formats of each module, which is imported lazily when one of them is used."""
