"""Experimental designs: which combinations of factor levels a study runs.

Designs are registered by name. The module of a design is imported lazily, when a study first names it.
"""

from __future__ import annotations

from peira.core.registry import Registry

MODULES = {
    "factorial.full": ("full_factorial",),
    "factorial.fractional": ("fractional_factorial",),
    "screening": ("definitive_screening", "plackett_burman"),
    "orthogonal_array": ("orthogonal_array",),
    "response_surface": ("box_behnken", "central_composite"),
    "factorial.one_factor": ("one_factor_at_a_time",),
    "custom": ("custom",),
    "sampling": ("halton", "latin_hypercube", "sobol", "space_filling", "uniform_random"),
    "blocks.block_designs": (
        "balanced_incomplete_block",
        "graeco_latin_square",
        "latin_square",
        "nested",
        "randomized_block",
    ),
    "blocks.sequences": ("crossover", "repeated_measures", "split_plot"),
    "optimal": ("augment", "d_optimal", "i_optimal"),
    "auto.choice": ("auto",),
}
"""Modules of the built-in designs, relative to this package, with the registry names each provides."""


def register(registry: Registry) -> None:
    """Register the built-in designs for lazy import, through the same interface as plug-ins."""
    for module, names in MODULES.items():
        registry.promise("design", names, f"{__name__}.{module}")
