"""The kinds of tasks, by their names in the store, and the tag of imported runs."""

from __future__ import annotations

STAGES = GENERATE, TRANSFORM, EVALUATE = "generate", "transform", "evaluate"
BATCH = "batch"
IMPORTED = "imported"
