"""A report as one HTML file that needs nothing else: no network, no font, no script but its own few lines.

What models said is text and stays text: every value is escaped, characters that reorder or hide others are
made visible, long texts are cut with the rest behind a click, and the page's own policy lets nothing else
run or load.
"""

from __future__ import annotations

import base64
import hashlib
import re
from functools import cache
from importlib.resources import files
from unicodedata import category

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from peira.report import cells
from peira.report.plots import plots_of
from peira.report.plots.canvas import available, inline
from peira.report.plots.forest import forest
from peira.report.plots.plot import WIDTH
from peira.report.value import Report

BRIEF, LONGEST = 800, 20_000
"""Characters of a text that are shown at once, and that are in the file at all."""

CAPTIONS = {
    "forest": "Filled: declared before the run, or a mean; hollow: exploratory",
    "convergence": "The band is an interval that may be looked at at any time",
}


def html(report: Report) -> bytes:
    template = _environment().get_template("report.html.j2")
    script = _file("report.js")
    page = template.render(
        report=report,
        main=report.main,
        plots=_plots(report),
        can_plot=available(),
        captions=_captions(report),
        style=Markup(_file("report.css")),
        script=Markup(script),
        script_hash=base64.b64encode(hashlib.sha256(script.encode()).digest()).decode(),
        shown_conditions=list(dict.fromkeys(trial.condition for trial in report.trials)),
        shown_states=list(dict.fromkeys(trial.state for trial in report.trials)),
        conditions_left=report.conditions_left,
    )
    return page.encode("utf-8", "replace")


def _plots(report: Report) -> dict[str, dict[str, object]]:
    if not available():
        return {}
    made = plots_of(report)
    small = {"forest": plot} if (plot := forest(report, narrow=True)) else {}
    return {
        name: {
            "svg": Markup(inline(plot, f"p{n}")),
            "title": plot.title,
            "narrow": plot.width < WIDTH,
            "small": Markup(inline(small[name], f"s{n}")) if name in small else "",
        }
        for n, (name, plot) in enumerate(made.items())
    }


def _captions(report: Report) -> dict[str, str]:
    found = report.convergence
    band = CAPTIONS["convergence"] if found is not None and found.always else ""
    zero = report.main is not None and any(point.zero for point in report.main.points)
    captions = {"forest": CAPTIONS["forest"] if zero else "", "convergence": band}
    if report.heat is not None and report.heat.left_out:
        captions["cases"] = f"{report.heat.left_out:,} more cases are left out, evenly"
    return {name: captions.get(name, "") for name in plots_of(report)}


@cache
def _environment() -> Environment:
    loader = PackageLoader("peira.report", "templates")
    made = Environment(loader=loader, autoescape=True, undefined=StrictUndefined, trim_blocks=True)
    made.filters["visible"] = visible
    made.filters["unbroken"] = unbroken
    made.globals.update({name: getattr(cells, name) for name in USED}, brief=BRIEF, longest=LONGEST)
    return made


USED = (
    "table_cells",
    "numeric_of",
    "effect_cells",
    "marginal_cells",
    "board_cells",
    "point_cells",
    "failure_cells",
    "finding",
    "headline",
)


@cache
def _file(name: str) -> str:
    return files("peira.report").joinpath("templates", name).read_text(encoding="utf-8")


def visible(text: object) -> str:
    """The text with every character that would hide or reorder others shown as what it is."""
    said = str(text)
    return said if said.isascii() and said.isprintable() else "".join(map(_seen, said))


def unbroken(text: str) -> str:
    """The text with intervals, and p-values, that stay on one line."""
    return re.sub(r"p [<=] [\d.]|\S+ \[[^\],\[]+, [^\]]+\]", lambda one: one[0].replace(" ", "\u00a0"), text)


def _seen(character: str) -> str:
    if character in "\n\t" or category(character) not in ("Cc", "Cf", "Cs", "Co", "Zl", "Zp"):
        return character
    if character in "\u200c\u200d":  # joiners: many scripts cannot be written without them
        return character
    return f"\u27e6U+{ord(character):04X}\u27e7"
