"""Functions on text that several packages share: parsing answers and numbers, printing tables and results.

The parsers take time linear in the length of the text. How results are rendered is imported with the first
that is shown.
"""

from __future__ import annotations

from peira.core.lazy import lazy_imports

with lazy_imports(__name__):
    from peira.core.text import rendering as rendering
