"""Every value that is shown is text, Markdown, HTML and JSON, and says the same in all of them."""

from __future__ import annotations

import ast
import html
import inspect
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, is_dataclass
from html.parser import HTMLParser
from importlib import import_module
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from markdown_it import MarkdownIt

import peira
from peira.analysis.compare.difference import Differences
from peira.analysis.compare.sensitivity import sensitivity
from peira.analysis.compare.sides import choose_pairs, levels_of
from peira.analysis.effects.split_plots import Strata, StratumError, StratumRow
from peira.analysis.gates import Bound, judge
from peira.analysis.judges.raters import RaterAgreement
from peira.analysis.power import PowerQuestion, plan_from
from peira.analysis.ranking.tournament import Standings, StandingsRow
from peira.analysis.results import Results
from peira.analysis.table.measures import measure
from peira.analysis.table.value import COLUMNS, STATISTICS, TRACKED, Table, TableRow
from peira.app.plan import plan_document
from peira.core.text import grid as layout
from peira.core.text.result_value import ResultValue, TextGrid
from peira.errors import Invalid
from peira.stats.values import Interval

Make = Callable[..., Any]
KEY = "sk-canary-0001"
ODD, LARGE = "<b>small</b> *|", f"large & `wide` {KEY}"
ROOT = Path(peira.__file__).parent
FORMS = ("__str__", "markdown", "_repr_html_", "to_json")


def made(trial: Make, results: Make) -> Results:
    """Two models at three temperatures on twelve cases, labelled by people; names are markup."""
    found = []
    for case in range(12):
        for model in (ODD, LARGE):
            for temperature in (0.0, 0.5, 1.0):
                lost = case == 3 and model == ODD and temperature == 1.0
                right = (case * 5 + int(4 * temperature)) % 7 < (3 if model == ODD else 5)
                found.append(
                    trial(
                        case,
                        None if lost else right,
                        model=model,
                        temperature=temperature,
                        slice=f"<i>{case % 3}",
                        took=0.1 * case,
                        output="w" * (case + 1),
                        metadata={"human": float(case % 2)},
                        metrics={"calls": 1.0, "cost": 0.01, "input_tokens": 3.0, "output_tokens": 1.0},
                    )
                )
    whole: Results = results(found)
    return whole


WITHIN = StratumError("plots", 5, 1.0)
STANDINGS = Standings(
    "model",
    0.95,
    (
        StandingsRow(ODD, 0.5, 0.1, 0.9, 3, 1, 0, 1, 1, "a"),
        StandingsRow(LARGE, -0.5, None, None, 0, 1, 3, 2, 2, "b"),
    ),
    ((0, 3), (0, 0)),
    ((0, 1), (1, 0)),
    4,
    0,
    0,
    "covariance",
    ("4 games <each>",),
)


def _curve(results: Results) -> ResultValue:
    measured = measure(results.trials)
    (pair,) = choose_pairs(levels_of(measured, "model"))
    found = sensitivity(Differences(measured).between(*pair, "model"), "match")
    assert found is not None
    return found


def a_study(**given: Any) -> peira.Study:
    """A study whose names are markup; one of its conditions is inadmissible."""

    def answer(case: Any, model: str, temperature: float) -> str:
        return f"{model} {temperature} {case.input}"

    return peira.Study(
        **{
            "name": "markup <each>",
            "agent": answer,
            "cases": [("<i>one</i>", "1"), ("two", "2")],
            "factors": {"model": [ODD, LARGE], "temperature": [0.0, 0.5]},
            "constraints": [f"not (model == {ODD!r} and temperature == 0.5)"],
            "evaluators": ["exact"],
            **given,
        }
    )


CHANGED = {"model": [ODD, "<b>new</b>", KEY], "temperature": [0.0, 0.5]}
ASSUMED = {"calls": 2, "seconds": 1, "input_tokens": 1000, "output_tokens": 100, "model": "openai:gpt-5-mini"}
RATERS = RaterAgreement("right", 0.95, 2, 8, Interval(0.6, 0.2, 0.9, 8, "bootstrap"), None, 4.0)
EXAMPLES: dict[str, Callable[[Results], ResultValue]] = {
    "Agreement": lambda results: results.agreement("human"),
    "Anova": lambda results: results.anova(),
    "Biases": lambda results: results.biases(labels="human"),
    "Bill": lambda results: results.cost,
    "ComparisonTable": lambda results: results.compare("model"),
    "Confusion": lambda results: results.confusion(),
    "Contrast": lambda results: results.compare("model").contrasts[0],
    "Corrected": lambda results: results.corrected("human", "model"),
    "Diff": lambda results: peira.diff(a_study(), a_study(repeats=3, factors=CHANGED)),
    "Effects": lambda results: results.effects(),
    "Findings": lambda results: results.hypotheses(),
    "GateResult": lambda results: judge(results.trials, [Bound("match", 0.5, "min")]),
    "Leaderboard": lambda results: results.leaderboard("model"),
    "MarginalMeans": lambda results: results.marginal_means("model", "temperature", within=["temperature"]),
    "Planning": lambda results: plan_from(results.trials, "model", PowerQuestion(difference=0.1)),
    "Preview": lambda results: peira.plan(a_study()),
    "Quantiles": lambda results: results.quantiles("took", "model"),
    "RaterAgreement": lambda results: RATERS,
    "Ratios": lambda results: results.ratio("cost", "match", "model"),
    "Reliability": lambda results: results.reliability("model"),
    "Results": lambda results: results,
    "RunEstimate": lambda results: peira.estimate(a_study(), assume=ASSUMED),
    "Sensitivity": lambda results: _curve(results),
    "Slices": lambda results: results.slices(),
    "Standings": lambda results: STANDINGS,
    "Strata": lambda results: Strata("match", (StratumRow("plots", ODD, 1, 2.0, 3.0, 4.0, 0.5),), (WITHIN,)),
    "StudyDocument": lambda results: plan_document(a_study()),
    "Surface": lambda results: results.surface("temperature"),
    "Table": lambda results: results.table("model"),
    "Worth": lambda results: results.worth("model", 20, score="match"),
    "Variance": lambda results: results.effects().variance or pytest.fail("there is no variance"),
}


LINES = {"Diff", "Preview", "RunEstimate"}
"""Values that a terminal shows in lines, and Markdown and notebooks in tables."""
HEADED = {"StudyDocument"}
"""Values with headings, in Markdown and HTML of their own."""


@pytest.fixture(params=EXAMPLES)
def value(
    request: pytest.FixtureRequest,
    trial: Make,
    results: Make,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> ResultValue:
    monkeypatch.chdir(tmp_path)
    return EXAMPLES[request.param](made(trial, results))


def _imported(path: Path) -> Any:
    return import_module(".".join(("peira", *path.relative_to(ROOT).with_suffix("").parts)))


def _dataclasses(path: Path) -> list[type]:
    return [one for one in vars(_imported(path)).values() if isinstance(one, type) and is_dataclass(one)]


def _derived() -> Iterator[type]:
    """The classes of peira that derive from the base."""
    for path in sorted(ROOT.rglob("*.py")):
        for node in ast.parse(path.read_text()).body:
            if isinstance(node, ast.ClassDef) and "ResultValue" in map(ast.unparse, node.bases):
                yield getattr(_imported(path), node.name)


def test_every_result_value_has_an_example_here() -> None:
    derived = set(_derived())
    assert {one.__name__ for one in derived} == set(EXAMPLES)
    assert {one for one in ResultValue.__subclasses__() if one.__module__.startswith("peira.")} == derived


def test_whatever_results_return_is_a_result_value() -> None:
    """A value of analysis is a dataclass; trials and rows of them are records, and no result."""
    shown = {one.__name__ for one in _derived()}
    values = {one.__name__ for path in (ROOT / "analysis").rglob("*.py") for one in _dataclasses(path)}
    returned = set()
    for name, method in vars(Results).items():
        function = getattr(method, "fget", None) or getattr(method, "func", method)
        if not name.startswith("_") and inspect.isfunction(function):
            returned.add(function.__annotations__["return"].rpartition(".")[2])  # analysis.value.Table
    assert returned & values <= shown
    assert {"Table", "ComparisonTable", "Effects", "Bill", "Biases"} <= returned & shown


@pytest.mark.parametrize("function", [peira.plan, peira.estimate, peira.diff, peira.run])
def test_what_the_functions_of_peira_return_is_a_result_value(function: Callable[..., Any]) -> None:
    assert function.__annotations__["return"].rpartition(".")[2] in EXAMPLES


def test_the_four_forms_are_those_of_the_base(value: ResultValue) -> None:
    own = set(FORMS) & set(vars(type(value)))
    assert own == ({"markdown", "_repr_html_"} if type(value).__name__ in HEADED else set())


def test_all_forms_say_the_same(value: ResultValue) -> None:
    text, page, marked = str(value), value._repr_html_(), value.markdown()
    name = type(value).__name__
    for grid in value.grids():
        for cell in (*(() if name in LINES else grid.header), *(cell for row in grid.rows for cell in row)):
            assert cell in text
            assert f">{html.escape(cell)}<" in page
        assert name in HEADED or layout.markdown(*grid) in marked
    for line in filter(None, [*value.title.split("\n"), *(value.sentence or "").split("\n"), *value.remarks]):
        assert line in text.split("\n")
        assert f">{html.escape(line)}</" in page
        assert layout.prose(line) in [block.removeprefix("# ") for block in marked.split("\n\n")]
    document = json.loads(value.to_json())
    assert document.get("sentence", value.sentence) == value.sentence
    assert text
    assert page


class Tags(HTMLParser):
    """The tags of a document, and those that are open at its end."""

    def __init__(self) -> None:
        super().__init__()
        self.names: set[str] = set()
        self.open: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.names.add(tag)
        self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def test_no_name_becomes_markup(value: ResultValue) -> None:
    page = Tags()
    page.feed(value._repr_html_())
    assert page.open == []
    assert page.names <= {"table", "thead", "tbody", "tr", "th", "td", "p", "h1", "h2"}
    for tag in ("<b>", "<i>", "<each>"):
        assert tag not in value.markdown()


def test_tables_in_markdown_have_the_cells_of_the_value(value: ResultValue) -> None:
    """As a program reads them that knows Markdown: nothing in a cell divides it, or is markup."""
    tokens = MarkdownIt("commonmark").enable("table").parse(value.markdown())
    assert not [one for one in tokens if one.type == "html_block"]
    tables: list[list[list[str]]] = []
    for before, token in pairwise(tokens):
        if before.type == "table_open":
            tables.append([])
        elif before.type == "tr_open":
            tables[-1].append([])
        if before.type in ("th_open", "td_open"):
            assert {one.type for one in token.children or ()} <= {"text", "text_special"}
            tables[-1][-1].append("".join(one.content for one in token.children or ()))
    expected = [[grid.header, *grid.rows] for grid in value.grids()]
    body = slice(1 if type(value).__name__ in HEADED else 0, None)
    found = [table[body] for table in tables]
    assert found == [[[cell.strip() for cell in row] for row in table[body]] for table in expected]


def test_no_form_shows_a_key(value: ResultValue, monkeypatch: pytest.MonkeyPatch) -> None:
    forms = (*FORMS, "latex", "csv")
    shown = any(KEY in getattr(value, form)() for form in forms)
    monkeypatch.setenv("CANARY_API_KEY", KEY)
    assert [form for form in forms if KEY in getattr(value, form)()] == []
    assert shown == any("[hidden]" in getattr(value, form)() for form in forms)


def test_a_long_plan_says_how_many_of_its_conditions_are_not_listed() -> None:
    factors = {"model": [f"m{n}" for n in range(40)], "temperature": [0.0, 0.5]}
    found = peira.plan(a_study(factors=factors, constraints=["not (temperature == 0.5)"]))
    admissible, refused = found.grids()
    assert [len(admissible.rows), len(refused.rows)] == [21, 21]
    assert admissible.rows[-1] == ["... and 20 more conditions", ""]
    assert refused.rows[-1] == ["... and 20 more inadmissible conditions", "", ""]
    assert "  ... and 20 more conditions\ninadmissible: model=" in str(found)


def test_two_equal_studies_differ_in_nothing() -> None:
    found = peira.diff(a_study(), a_study())
    assert str(found).split("\n")[:2] == ["markup <each> -> markup <each>", "nothing changed"]
    assert "<p>nothing changed</p>" in found._repr_html_()


def test_a_cell_of_several_lines_is_one_cell() -> None:
    assert layout.markdown(["a"], [["one\ntwo\r\n|"]]) == "| a |\n| --- |\n| one two \\| |"


@dataclass(frozen=True)
class Odd(ResultValue):
    shown: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    nothing = "there is nothing"

    def grids(self) -> list[TextGrid]:
        return [TextGrid(["a"], [[one] for one in self.shown])] if self.shown else []


def test_a_value_of_ones_own_says_its_parts_and_has_all_forms() -> None:
    assert str(Odd(("x",), ("note",))) == "a\nx\nnote"
    assert Odd(("x",), ("note",)).markdown() == "| a |\n| --- |\n| x |\n\nnote"
    assert str(Odd()) == Odd().markdown() == "there is nothing"
    assert Odd()._repr_html_() == "<p>there is nothing</p>"
    assert Odd(("x",)).to_json() == '{"shown":["x"],"notes":[]}'


@pytest.mark.parametrize(
    ("line", "written"),
    [
        ("a [0.1, 0.2] on exact_match", "a [0.1, 0.2] on exact_match"),
        ("[see](there)", "[see]\\(there)"),
        ("*a* _b_ `c` <d> & \\", "\\*a\\* \\_b\\_ \\`c\\` &lt;d> &amp; \\\\"),
        ("# not a heading", "\\# not a heading"),
        ("- not a list", "\\- not a list"),
        ("-0.3 is a number", "-0.3 is a number"),
    ],
)
def test_a_line_of_markdown_has_no_markup(line: str, written: str) -> None:
    assert layout.prose(line) == written


def test_a_column_is_declared_once() -> None:
    """A row has every column but its labels, and whatever is shown or exported is one of them."""
    assert set(STATISTICS) == set(TableRow.__dataclass_fields__) - {"labels"}
    assert set(TRACKED) < set(STATISTICS)
    assert len({column.place for column in COLUMNS if column.text}) == sum(bool(c.text) for c in COLUMNS)


def test_columns_that_say_nothing_are_left_out_everywhere() -> None:
    row = TableRow(("a",), "match", 0.5, 0.4, 0.6, 1200, 1, 0, 0, "exact")
    plain = Table(("model",), 0.95, (row,))
    more = Table(("model",), 0.95, (TableRow(("a",), "match", 0.5, 0.4, 0.6, 1200, 1, 0, 0, "exact", 2, 1),))
    assert plain.grid().header == ["model", "score", "mean [95% interval]", "n", "failed"]
    assert plain.report_grid().header == ["model", "mean [95% interval]", "trials", "cases", "failed"]
    assert plain.report_grid().rows == [["a", "0.50 [0.40, 0.60]", "1,200", "1", "0"]]
    assert more.grid().header[3:] == ["n", "no answer", "failed", "no verdict"]
    assert more.report_grid().header[2:] == ["trials", "cases", "no answer", "failed", "no verdict"]
    assert more.grid().rows[0][3:] == ["1200 (1 case)", "2", "0", "1"]


@pytest.mark.parametrize("ending", ["txt", "md", "html", "tex", "csv", "json"])
def test_a_finding_is_saved_in_the_form_that_the_ending_says(results, trial, tmp_path, ending):
    found = results([trial(n, n % 2, style=style) for n in range(6) for style in "ab"]).compare("style")
    file = found.save(tmp_path / f"found.{ending}")
    text = file.read_text()
    begins = {
        "txt": "style",
        "md": "| style",
        "html": "<!doctype",
        "tex": r"\begin{tabular}",
        "csv": "style,",
    }
    assert text.startswith(begins.get(ending, "{"))
    assert "difference" in text
    with pytest.raises(Invalid, match="is there already"):
        found.save(file)
    found.save(file, force=True)
    assert file.read_text() == text
    assert [one.name for one in tmp_path.iterdir()] == [file.name]


def test_an_ending_that_means_nothing_is_refused(results, trial, tmp_path):
    found = results([trial(n, 1) for n in range(3)]).table()
    with pytest.raises(Invalid, match=r"must end in one of \.txt, \.md, \.html, "):
        found.save(tmp_path / "found.py")


def test_several_runs_are_compared_as_one_family(results, trial):
    runs = [results([trial(n, (n + k) % 2) for n in range(6)]) for k in range(3)]
    found = runs[0].compare(runs[1:])
    assert [one.p is not None for one in found.contrasts] == [True] * 3
    assert found.correction == "holm"
