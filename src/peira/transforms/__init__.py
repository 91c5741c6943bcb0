"""The built-in transforms, which extract the answer from an output.

The module of each is imported when one of its transforms is made.
"""

from __future__ import annotations

from peira.core.lazy import late, lazy_imports
from peira.core.registry import Registry

with lazy_imports(__name__, "BUILT_IN", "register") as _names:
    from peira.transforms.blocks import boxed as boxed
    from peira.transforms.blocks import code_block as code_block
    from peira.transforms.blocks import strip_reasoning as strip_reasoning
    from peira.transforms.chain import chain as chain
    from peira.transforms.chain import first_of as first_of
    from peira.transforms.chain import from_function as from_function
    from peira.transforms.json_fields import json_field as json_field
    from peira.transforms.taxonomy import error_taxonomy as error_taxonomy
    from peira.transforms.text import choice_letter as choice_letter
    from peira.transforms.text import first_line as first_line
    from peira.transforms.text import first_number as first_number
    from peira.transforms.text import identity as identity
    from peira.transforms.text import last_line as last_line
    from peira.transforms.text import last_number as last_number
    from peira.transforms.text import normalise as normalise
    from peira.transforms.text import number_after as number_after
    from peira.transforms.text import regex as regex

BUILT_IN = tuple(sorted({*_names} - {"from_function"}))
"""The names of the built-in transforms."""


def register(registry: Registry) -> None:
    """Register the built-in transforms, as any plug-in would."""
    registry.add("transform", "function", late(__name__, "from_function"))
    for name in BUILT_IN:
        registry.add("transform", name, late(__name__, name))
