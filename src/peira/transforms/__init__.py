"""The shelf of transforms: what finds the answer in an output."""

from __future__ import annotations

from peira.core.registry import Registry
from peira.transforms.blocks import boxed, code_block, strip_reasoning
from peira.transforms.chain import chain, first_of, from_function
from peira.transforms.choices import choice_letter
from peira.transforms.fields import json_field
from peira.transforms.numbers import last_number, number_after
from peira.transforms.taxonomy import error_taxonomy
from peira.transforms.text import first_line, identity, last_line, normalise, regex

__all__ = [
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

BUILT_IN = (
    boxed,
    chain,
    choice_letter,
    code_block,
    error_taxonomy,
    first_line,
    first_of,
    identity,
    json_field,
    last_line,
    last_number,
    normalise,
    number_after,
    regex,
    strip_reasoning,
)


def register(registry: Registry) -> None:
    """Offer the built-in transforms, as any plug-in would."""
    registry.add("transform", "function", from_function)
    for make in BUILT_IN:
        registry.add("transform", make.__name__, make)
