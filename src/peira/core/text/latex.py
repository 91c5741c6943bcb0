"""Text and tables in LaTeX."""

from __future__ import annotations

from collections.abc import Sequence

SPECIAL = {
    "\\": r"\textbackslash{}",
    "{": r"\{",
    "}": r"\}",
    "$": r"\$",
    "&": r"\&",
    "#": r"\#",
    "%": r"\%",
    "_": r"\_",
    "^": r"\textasciicircum{}",
    "~": r"\textasciitilde{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
    '"': r"\textquotedbl{}",
    "`": r"\textasciigrave{}",
    "'": r"\textquotesingle{}",
    "[": "{[}",
    "]": "{]}",
    "-": "{-}",
    "\u00b2": r"\textsuperscript{2}",
    "\u2026": r"\dots{}",
}
"""Characters with a special meaning in LaTeX, and their escapes."""


def escaped(text: str) -> str:
    """The text on one line with all special characters escaped."""
    return "".join(SPECIAL.get(character, character) for character in " ".join(text.split()))


def ruled(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """The lines of a table with the rules of booktabs, escaped."""
    lines = [" & ".join(map(escaped, row)) + r" \\" for row in (header, *rows)]
    return "\n".join([r"\toprule", lines[0], r"\midrule", *lines[1:], r"\bottomrule"])


def tabular(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table of its own, for a document that uses booktabs."""
    return f"\\begin{{tabular}}{{{'l' * len(header)}}}\n{ruled(header, rows)}\n\\end{{tabular}}"
