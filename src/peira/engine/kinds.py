"""The kinds of a study's tasks, by the names that they have in the store, and the tag of imported runs."""

from __future__ import annotations

STAGES = GENERATE, TRANSFORM, EVALUATE = "generate", "transform", "evaluate"
BATCH = "batch"
IMPORTED = "imported"
