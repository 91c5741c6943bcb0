"""The shelf of transforms: what finds the answer in an output. A room is opened when one of its transforms is
made."""

from __future__ import annotations

from typing import TYPE_CHECKING

from peira.core.door import late, open_late
from peira.core.registry import Registry

if TYPE_CHECKING:
    from peira.transforms.blocks import boxed, code_block, strip_reasoning
    from peira.transforms.chain import chain, first_of, from_function
    from peira.transforms.choices import choice_letter
    from peira.transforms.fields import json_field
    from peira.transforms.numbers import last_number, number_after
    from peira.transforms.taxonomy import error_taxonomy
    from peira.transforms.text import first_line, identity, last_line, normalise, regex

__all__ = [
    "BUILT_IN",
    "boxed",
    "chain",
    "choice_letter",
    "code_block",
    "error_taxonomy",
    "first_line",
    "first_of",
    "from_function",
    "identity",
    "json_field",
    "last_line",
    "last_number",
    "normalise",
    "number_after",
    "regex",
    "register",
    "strip_reasoning",
]

_ROOMS = {
    "peira.transforms.blocks": ("boxed", "code_block", "strip_reasoning"),
    "peira.transforms.chain": ("chain", "first_of", "from_function"),
    "peira.transforms.choices": ("choice_letter",),
    "peira.transforms.fields": ("json_field",),
    "peira.transforms.numbers": ("last_number", "number_after"),
    "peira.transforms.taxonomy": ("error_taxonomy",),
    "peira.transforms.text": ("first_line", "identity", "last_line", "normalise", "regex"),
}
BUILT_IN = tuple(sorted(name for names in _ROOMS.values() for name in names if name != "from_function"))
"""The names of all that are offered."""


def register(registry: Registry) -> None:
    """Offer the built-in transforms, as any plug-in would."""
    registry.add("transform", "function", late(__name__, "from_function"))
    for name in BUILT_IN:
        registry.add("transform", name, late(__name__, name))


open_late(__name__, _ROOMS)
