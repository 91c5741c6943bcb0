"""Tables as plain text, Markdown and HTML, and numbers with the digits that their interval supports."""

from __future__ import annotations

import html
import math
import re
from collections.abc import Sequence
from unicodedata import category, combining, east_asian_width

from peira.core.ids import Json, canonical

WIDEST = 60
Grid = Sequence[Sequence[str]]


def interval(mean: float | None, low: float | None, high: float | None) -> str:
    """A mean with its interval, rounded to two significant digits of the interval's width."""
    if mean is None:
        return "-"
    if low is None or high is None:
        return f"{_number(mean, abs(mean), 0.0)} [unknown]"
    scale, width = max(abs(low), abs(high)), high - low
    return f"{_number(mean, scale, width)} [{_number(low, scale, width)}, {_number(high, scale, width)}]"


def _number(value: float, scale: float, width: float) -> str:
    """A number rounded as suits an interval of this width at this scale."""
    places = 1 - _magnitude(width) if width else 2
    if 1e-4 <= scale < 1e9 or not scale:
        places = min(max(places, 2 if scale < 10 else 0), 9)
        return f"{round(value, places) + 0.0:.{places}f}"
    return f"{value:.{min(max(_magnitude(scale) + places, 4), 15)}g}"


def _magnitude(value: float) -> int:
    """The exponent of the leading decimal digit."""
    return math.floor(math.log10(value))


def cell(value: Json, widest: int = WIDEST) -> str:
    """A label on one line: text as it is, anything else as JSON, control characters made visible.

    Labels with more characters than `widest` are cut; 0 leaves them whole.
    """
    text = "-" if value is None else value if isinstance(value, str) else canonical(value).decode()
    text = "".join(repr(c)[1:-1] if category(c) in ("Cc", "Cf", "Zl", "Zp") else c for c in text)
    return text if not widest or len(text) <= widest else f"{text[: widest - 1]}…"


def plain(header: Sequence[str], rows: Grid) -> str:
    """The table as plain text, with aligned columns two blanks apart."""
    widths = [max(map(_width, column)) for column in zip(header, *rows, strict=True)]
    padded = (
        [text + " " * (width - _width(text)) for text, width in zip(line, widths, strict=True)]
        for line in (header, *rows)
    )
    return "\n".join("  ".join(line).rstrip() for line in padded)


def fitted(header: Sequence[str], rows: Grid, width: int, keys: int = 1) -> str:
    """The table as plain text within this width: columns that do not fit stand in further tables below.

    Each of these begins with the first `keys` columns, which say what a row is about. A single column that is
    too wide is left so.
    """
    columns = list(zip(header, *rows, strict=True))
    widths = [max(map(_width, column)) for column in columns]
    taken = sum(widths[:keys]) + 2 * (keys - 1)
    groups: list[list[int]] = [[]]
    for at in range(keys, len(columns)):
        if groups[-1] and taken + sum(2 + widths[other] for other in (*groups[-1], at)) > width:
            groups.append([])
        groups[-1].append(at)
    tables = [[columns[at] for at in (*range(keys), *group)] for group in groups]
    parts = [list(zip(*table, strict=True)) for table in tables]
    return "\n\n".join(plain(lines[0], lines[1:]) for lines in parts)


def _width(text: str) -> int:
    """The columns a text takes in a terminal: East Asian characters take two, accents none."""
    if text.isascii():
        return len(text)
    return sum(0 if combining(c) else 2 if east_asian_width(c) in "WF" else 1 for c in text)


def markdown(header: Sequence[str], rows: Grid) -> str:
    """The table in Markdown, with its cells escaped."""
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join(f"| {' | '.join(map(_escape, line))} |" for line in lines)


def _escape(text: str) -> str:
    """The text of a cell on one line, without Markdown markup."""
    text = " ".join(text.splitlines()).replace("\\", "\\\\").replace("&", "&amp;").replace("<", "&lt;")
    for mark in "|*_`[]":
        text = text.replace(mark, f"\\{mark}")
    return text


def prose(text: str) -> str:
    """A line of Markdown with all markup escaped; brackets of intervals stay as they are."""
    text = text.replace("\\", "\\\\").replace("&", "&amp;").replace("<", "&lt;").replace("](", "]\\(")
    return re.sub(r"[*`]|(?<!\w)_|_(?!\w)|^[#>]|^[+-](?=\s)", r"\\\g<0>", text)


def html_table(header: Sequence[str], rows: Grid) -> str:
    """The table in HTML, with its cells escaped."""
    head = "".join(f"<th>{html.escape(text)}</th>" for text in header)
    body = "".join(f"<tr>{''.join(f'<td>{html.escape(text)}</td>' for text in row)}</tr>" for row in rows)
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def html_line(text: str) -> str:
    """A paragraph in HTML, escaped."""
    return f"<p>{html.escape(text)}</p>"


def number(value: float | None, form: str = ".3g") -> str:
    """A number in this format; "-" for None."""
    return "-" if value is None else format(value, form)


def probability(p: float | None) -> str:
    """A probability with three decimals, or "< 0.001" and "> 0.999" at the ends; "-" for None."""
    if p is None:
        return "-"
    return "< 0.001" if p < 0.001 else "> 0.999" if p > 0.999 else f"{p:.3f}"


def size(n: int, cases: int) -> str:
    """The number of values and, in parentheses, of cases."""
    return f"{n} ({cases} {'case' if cases == 1 else 'cases'})"


def ranks(best: int | None, worst: int | None) -> str:
    """The range of ranks that are possible for an entry."""
    if best is None:
        return "-"
    return str(best) if best == worst else f"{best}-{worst}"
