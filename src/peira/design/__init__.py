"""The shelf of designs: which conditions, of all there could be.

There are many, most of them with mathematics of their own: a room is opened when its design is asked for.
"""

from __future__ import annotations

from peira.core.registry import Registry

ROOMS = {
    "factorial": ("full_factorial",),
    "fractional": ("fractional_factorial",),
    "screening": ("definitive_screening", "plackett_burman"),
    "orthogonal": ("orthogonal_array",),
    "surface": ("box_behnken", "central_composite"),
    "one_factor": ("one_factor_at_a_time",),
    "custom": ("custom",),
    "sampling": ("halton", "latin_hypercube", "sobol", "space_filling", "uniform_random"),
    "blocking": (
        "balanced_incomplete_block",
        "graeco_latin_square",
        "latin_square",
        "nested",
        "randomized_block",
    ),
    "sequence": ("crossover", "repeated_measures", "split_plot"),
    "optimal": ("augment", "d_optimal", "i_optimal"),
    "choosing": ("auto",),
}
RULES = ("decided", "racing", "successive_rejects")


def register(registry: Registry) -> None:
    """Offer the built-in designs and stopping rules, as any plug-in would."""
    for room, names in ROOMS.items():
        registry.promise("design", names, f"{__name__}.{room}")
    registry.promise("stop", RULES, f"{__name__}.adaptive")
