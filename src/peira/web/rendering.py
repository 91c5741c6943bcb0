"""Templates: the environment with its filters, and texts of models as safe HTML.

What models, tools and users wrote is untrusted: it is escaped everywhere, control characters and changes of
text direction are made visible, Markdown is rendered without HTML, images and links, and long texts are cut.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from difflib import SequenceMatcher
from functools import cache
from importlib.resources import files
from itertools import groupby
from typing import Any
from urllib.parse import quote, urlencode

import msgspec
from jinja2 import Environment, PackageLoader, StrictUndefined
from markdown_it import MarkdownIt
from markupsafe import Markup, escape

from peira.core.ids import Json, short
from peira.core.text import grid
from peira.core.text.words import counted, lasting
from peira.plan.estimate.value import dollars
from peira.report.writers.html import visible
from peira.web.charts import ARM_COLOURS

LONGEST, MOST_MARKED = 20_000, 6_000
"""Characters of a text on a page, and of texts whose differences are marked."""
UNNAMED = re.compile(r"[0-9a-f]{16}|[0-9a-f]{32}")
"""The id of a case, or the key of a job, that was given none."""
DIGEST = re.compile(r"\b([0-9a-f]{12})[0-9a-f]{52}\b")
"""An id in full: lists show its beginning."""
MOST_EXACT = 1e15
"""Numbers from here on are shown by their first digits."""
LONG_NUMBER = 1000
"""Numbers from here on are shown without decimals."""
WIDTH, HEIGHT, EDGE = 180, 16, 6
"""The size of the picture of an interval."""


@cache
def environment() -> Environment:
    """The environment of all templates, created once."""
    made = Environment(
        loader=PackageLoader("peira.web", "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters.update(
        visible=visible,
        short=short,
        dollars=_dollars,
        lasting=_lasting,
        number=_number,
        moment=_moment,
        level=grid.cell,
        shown=shown,
        brief=brief,
        digests=lambda text: DIGEST.sub(r"\1…", text),
        markdown=markdown,
        words=_words,
        count=lambda n: f"{n:,}",
        query=lambda given: urlencode([(k, v) for k, v in given.items() if v not in ("", None)]),
        part=lambda text: quote(str(text), safe=""),
    )
    made.globals.update(
        case_title=case_title,
        counted=counted,
        interval=grid.interval,
        bar=interval_bar,
        longest=LONGEST,
        marked=marked,
        swatch=arm_swatch,
        tree=tree,
    )
    return made


@cache
def static_text(name: str) -> str:
    """The text of a static file, read once."""
    return files("peira.web").joinpath("static", name).read_text(encoding="utf-8")


def _words(text: str) -> str:
    return str(text).replace("_", " ")


def _dollars(amount: float | None) -> str:
    return "-" if amount is None else dollars(amount)


def _lasting(seconds: float | None) -> str:
    if seconds is None:
        return "-"
    return lasting(seconds) if seconds >= 1 else f"{1000 * seconds:.3g} ms" if seconds >= 1e-3 else "< 1 ms"


def _number(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int | float):
        whole = isinstance(value, int) or value.is_integer()
        whole = whole or abs(value) >= LONG_NUMBER
        return f"{value:,.0f}" if whole and abs(value) < MOST_EXACT else f"{value:,.3g}"
    return shown(value)


def _moment(at: str | float | None) -> str:
    """A time as people read it, in UTC."""
    if not at:
        return "-"
    when = datetime.fromisoformat(at) if isinstance(at, str) else datetime.fromtimestamp(at, UTC)
    return when.astimezone(UTC).strftime("%Y-%m-%d %H:%M:%S")


def shown(value: Json) -> str:
    """A value as text: text as it is, all else as JSON with line breaks."""
    if isinstance(value, str):
        return value
    if isinstance(value, list | dict | tuple | Mapping):
        plain = msgspec.json.encode(dict(value) if isinstance(value, Mapping) else value)
        return msgspec.json.format(plain, indent=2).decode()
    return msgspec.json.encode(value).decode()


def brief(value: Json, most: int = 120) -> str:
    """The beginning of a value as one line."""
    line = " ".join(shown(value)[: 4 * most].split())
    return line if len(line) <= most else f"{line[: most - 1]}…"


def case_title(case: str, input: Json) -> str:
    """What to call a case or a job: its name, or the beginning of its input if it has no name of its own."""
    return brief(input, 90) if UNNAMED.fullmatch(case) and input not in (None, "") else case


# Intervals as pictures


def interval_bar(
    mean: float | None, low: float | None, high: float | None, least: float, most: float
) -> Markup:
    """A mean with its interval on an axis from `least` to `most`, as an inline picture."""
    if mean is None or not math.isfinite(mean) or most <= least:
        return Markup('<svg class="iv" viewBox="0 0 180 16" aria-hidden="true"></svg>')

    def at(value: float) -> float:
        share = (min(max(value, least), most) - least) / (most - least)
        return round(EDGE + share * (WIDTH - 2 * EDGE), 1)

    middle = HEIGHT / 2
    parts = [f'<line class="axis" x1="{EDGE}" x2="{WIDTH - EDGE}" y1="{middle}" y2="{middle}"/>']
    if least < 0 < most:
        parts.append(f'<line class="zero" x1="{at(0)}" x2="{at(0)}" y1="1" y2="{HEIGHT - 1}"/>')
    if low is not None and high is not None:
        parts.append(f'<line class="span" x1="{at(low)}" x2="{at(high)}" y1="{middle}" y2="{middle}"/>')
        parts += [f'<line class="end" x1="{at(x)}" x2="{at(x)}" y1="4" y2="12"/>' for x in (low, high)]
    parts.append(f'<circle class="mean" cx="{at(mean)}" cy="{middle}" r="3.6"/>')
    svg = f'<svg class="iv" viewBox="0 0 {WIDTH} {HEIGHT}" aria-hidden="true">{"".join(parts)}</svg>'
    return Markup(svg)


def arm_swatch(arm: int) -> Markup:
    """The line by which an arm is drawn in charts."""
    kind = f"arm arm-{arm % ARM_COLOURS}"
    return Markup(
        '<svg class="line-of chart-line" viewBox="0 0 28 8" aria-hidden="true">'
        '<polyline class="{}" points="0,4 28,4"/></svg>'
    ).format(kind)


def axis_of(values: Sequence[tuple[float | None, float | None, float | None]]) -> tuple[float, float]:
    """The ends of an axis for means with intervals: 0 to 1 where all lie within."""
    known = [value for row in values for value in row if value is not None and math.isfinite(value)]
    if not known or (min(known) >= 0 and max(known) <= 1):
        return 0.0, 1.0
    low, high = min(*known, 0.0), max(*known, 0.0)
    pad = 0.05 * ((high - low) or 1.0)
    return low - pad, high + pad


# Texts of models


@cache
def _renderer() -> MarkdownIt:
    """Markdown without HTML, images and links: nothing in it may load or lead anywhere."""
    made = MarkdownIt("commonmark", {"html": False, "linkify": False, "typographer": False})
    return made.enable(["table", "strikethrough"]).disable(["image", "link", "autolink", "reference"])


def markdown(text: str) -> Markup:
    """Text of a model as HTML: Markdown if it looks like it, else as it is with its line breaks."""
    shown_text = visible(text[:LONGEST])
    if len(text) > LONGEST or not _looks_like_markdown(shown_text):
        return Markup('<pre dir="auto" class="said">{}</pre>').format(shown_text)
    # markdown-it escapes all text itself, and raw HTML is off: what it gives has only its own elements.
    return Markup(f'<div dir="auto" class="prose">{_renderer().render(shown_text)}</div>')


def _looks_like_markdown(text: str) -> bool:
    marks = ("```", "\n# ", "\n## ", "\n- ", "\n* ", "\n1. ", "**", "\n| ", "`")
    return any(mark in f"\n{text}" for mark in marks) and max(map(len, text.splitlines()), default=0) < 5_000


def tree(value: Json, depth: int = 0) -> Markup:
    """A JSON value with its larger parts folded."""
    if isinstance(value, Mapping | list | tuple):
        pairs = list(value.items()) if isinstance(value, Mapping) else list(enumerate(value))
        text = shown(value)
        if len(text) <= 120 or depth > 5 or not pairs:
            return Markup('<code dir="auto">{}</code>').format(visible(brief(value, 400)))
        what = counted(len(pairs), "field" if isinstance(value, Mapping) else "item")
        rows = Markup("").join(
            Markup('<div class="leaf"><span class="key">{}</span> {}</div>').format(
                visible(str(key)), tree(one, depth + 1)
            )
            for key, one in pairs[:200]
        )
        opened = Markup(" open") if depth == 0 else Markup("")
        return Markup('<details class="tree"{}><summary>{}</summary>{}</details>').format(opened, what, rows)
    text = shown(value)
    if isinstance(value, str) and ("\n" in value or len(value) > 200):
        return Markup('<pre dir="auto">{}</pre>').format(visible(text[:LONGEST]))
    return Markup('<code dir="auto">{}</code>').format(visible(text))


def marked(old: str, new: str) -> Markup:
    """The new text with what differs from the old one marked, word by word; long texts are not compared."""
    if not old or len(old) > MOST_MARKED or len(new) > MOST_MARKED:
        return Markup('<pre dir="auto">{}</pre>').format(visible(new[:LONGEST]))
    before, after = _pieces(old), _pieces(new)
    parts: list[Markup] = []
    for what, a, b, c, d in SequenceMatcher(None, before, after, autojunk=False).get_opcodes():
        if what in ("replace", "delete"):
            parts.append(Markup("<del>{}</del>").format(visible("".join(before[a:b]))))
        if what in ("replace", "insert"):
            parts.append(Markup("<ins>{}</ins>").format(visible("".join(after[c:d]))))
        if what == "equal":
            parts.append(escape(visible("".join(after[c:d]))))
    return Markup('<pre dir="auto" class="diff">{}</pre>').format(Markup("").join(parts))


def _pieces(text: str) -> list[str]:
    """Words, spaces and signs of a text."""
    return ["".join(group) for _, group in groupby(text, key=_kind)]


def _kind(letter: str) -> object:
    return "word" if letter.isalnum() else "space" if letter.isspace() else letter
