"""The kinds of tasks, by their names in the store, and the tag of imported runs."""

from __future__ import annotations

from peira.core.log.events import IMPORTED as IMPORTED

STAGES = GENERATE, TRANSFORM, EVALUATE = "generate", "transform", "evaluate"
BATCH = "batch"
UNIT = "unit"
"""A unit of a work plan; also the class of those that are commands."""
UNIT_FUNCTION = "unit.function"
"""The class of units that are functions."""
