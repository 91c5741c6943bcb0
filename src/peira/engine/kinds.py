"""The kinds of tasks, by their names in the store, and the tag of imported runs."""

from __future__ import annotations

from peira.core.log.events import IMPORTED as IMPORTED

STAGES = GENERATE, TRANSFORM, EVALUATE = "generate", "transform", "evaluate"
BATCH = "batch"
