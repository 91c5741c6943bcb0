"""Every example of README.md and docs/ is executed, and shows what it really prints."""

from __future__ import annotations

import importlib.util
import re
import sys
from collections import Counter
from pathlib import Path

import pytest

from peira.errors import PeiraError
from peira.sandbox.confinement import confinement
from peira.stores.postgres.server import programs

ROOT = Path(__file__).resolve().parents[2]
SPEC = importlib.util.spec_from_file_location("docs_examples", ROOT / "docs" / "examples.py")
examples = sys.modules["docs_examples"] = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(examples)

PAGES = {str(page.relative_to(ROOT)): page for page in examples.pages()}
EXECUTED = ("python", "toml", "console", "diff")
DIAGRAM = ("docs/architecture.md", "text")
LINK = re.compile(r"\]\(([^)#:\s]+)(?:#[^)]*)?\)")


@pytest.mark.timeout(240)
@pytest.mark.parametrize("name", PAGES)
def test_a_page_shows_what_its_examples_do(name, warm):
    if "peira db start" in PAGES[name].read_text():
        try:
            programs()
        except PeiraError as problem:
            pytest.skip(str(problem))
    text = PAGES[name].read_text()
    if isinstance(confinement(), str) and re.search(r"peira work |^command = \[", text, re.M):
        pytest.skip(f"no sandbox here: {confinement()}")
    lines = "\n".join(examples.stale(PAGES[name], warm.start))
    assert not lines, f"{name} is stale; `make docs` writes it again:\n{lines}"


def test_what_is_only_shown_is_listed_here():
    """Commands that set up an environment cannot be run inside a test; nothing else is only shown, but the
    diagrams of docs/architecture.md (`test_architecture.py` looks up what they name)."""
    shown = {
        name: [
            block.body
            for block in examples.blocks(page.read_text())
            if block.language not in EXECUTED and (name, block.language) != DIAGRAM
        ]
        for name, page in PAGES.items()
    }
    commands = {name: [line.split("#")[0].strip() for body in bodies for line in body.splitlines()]
                for name, bodies in shown.items() if bodies}  # fmt: skip
    assert commands == {
        "README.md": ["make demo", "make test", "pip install ."],
        "docs/extending.md": ["pip install ./examples/extending"],
        "docs/getting-started.md": ["pip install ."],
    }


def test_few_blocks_depend_on_the_moment():
    marks = Counter(
        (name, block.mark) for name, page in PAGES.items() for block in examples.blocks(page.read_text())
    )
    marked = {name: n for (name, mark), n in marks.items() if mark == examples.MOMENT}
    assert {mark for _, mark in marks} <= {"", examples.MOMENT, examples.MODEL}
    assert marked == {"docs/getting-started.md": 4}
    assert [name for name, mark in marks if mark == examples.MODEL] == [
        "README.md",
        "docs/agents.md",
        "docs/streams.md",
    ]


@pytest.mark.parametrize("page", [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")], ids=lambda page: page.name)
def test_links_lead_somewhere(page):
    lost = [link for link in LINK.findall(page.read_text()) if not (page.parent / link).exists()]
    assert not lost


def test_every_decision_is_listed():
    folder = ROOT / "docs" / "decisions"
    listed = LINK.findall((folder / "README.md").read_text())
    assert listed == sorted(page.name for page in folder.glob("0*.md"))


# The tool itself


def page_of(tmp_path, text):
    page = tmp_path / "page.md"
    page.write_text(text)
    return page


def fenced(language, body):
    return f"```{language}\n{body}```\n"


def test_a_wrong_output_is_found_and_mended(tmp_path):
    page = page_of(tmp_path, fenced("console", "$ echo one\ntwo\n") + fenced("python", ">>> 1 + 1\n3\n"))
    assert [line for line in examples.stale(page) if line.startswith("+") and "now" not in line] == [
        "+one",
        "+2",
    ]
    page.write_text(examples.played(page)[0])
    assert examples.stale(page) == []


def test_a_file_of_an_example_is_shown_as_it_is_and_its_package_is_installed(tmp_path):
    file = "examples/extending/src/peira_extras/evaluator.py"
    names = "from peira.core.registry import registry; print('at_most' in registry.names('evaluator'))"
    text = fenced("python", f"# {file}\nstale\n") + fenced("console", f'$ python -c "{names}"\nTrue\n')
    shown, problems = examples.played(page_of(tmp_path, text))
    assert problems == []
    assert shown == text.replace("stale\n", (ROOT / file).read_text())


def test_a_diff_changes_what_follows_on_its_page_alone(tmp_path):
    file = "src/peira/core/codec.py"
    change = f"--- a/{file}\n+++ b/{file}\n@@\n-from {{}} import annotations\n+NEW = 7\n"
    read = '$ python -c "import peira.core.codec as c; print(c.NEW)"\n7\n'
    good = fenced("diff", change.format("__future__")) + fenced("console", read)
    assert examples.stale(page_of(tmp_path, good)) == []
    assert "NEW" not in (ROOT / file).read_text()
    [problem] = examples.stale(page_of(tmp_path, fenced("diff", change.format("nowhere"))))
    assert problem.startswith("line 1: b/src/peira/core/codec.py: found 0 times, not once")


def test_a_page_is_one_folder_and_one_session(tmp_path):
    written = fenced("python", "# here.py\nvalue = 7\n") + fenced("python", ">>> from here import value\n")
    page = page_of(
        tmp_path, written + fenced("python", ">>> value\n7\n") + fenced("console", "$ ls *.py\nhere.py\n")
    )
    assert examples.stale(page) == []


def test_an_error_at_the_prompt_is_shown(tmp_path):
    shown = ">>> 1 / 0\nTraceback (most recent call last):\n  ...\nZeroDivisionError: division by zero\n"
    assert examples.stale(page_of(tmp_path, fenced("python", shown))) == []


@pytest.mark.parametrize(
    ("block", "problem"),
    [
        (fenced("python", "print(1)\n"), "line 1: this python block cannot be executed"),
        (fenced("toml", "a = 1\n"), "line 1: this toml block cannot be executed"),
        (fenced("console", "make\n"), "line 1: this console block cannot be executed"),
        (fenced("console", "$ false\n"), "line 1: exit code 1 of 'false' is not told"),
        (fenced("python", "# alone.py\nx = 1\n"), "line 1: nothing after it uses alone.py"),
    ],
)
def test_a_block_that_proves_nothing_is_refused(tmp_path, block, problem):
    assert examples.stale(page_of(tmp_path, block)) == [problem]


def test_an_exit_code_is_told_by_the_next_command(tmp_path):
    assert examples.stale(page_of(tmp_path, fenced("console", "$ (exit 3)\n$ echo $?\n3\n"))) == []


def test_a_shown_id_stands_for_the_one_of_this_execution(tmp_path):
    """Later commands say the shown id, or the beginning of one; they mean the id that was printed here."""
    body = (
        "$ echo run 0123456789ab\nrun ffffeeee0000\n$ echo ffffeeee0000 ffff fffe\n0123456789ab 0123 fffe\n"
    )
    kept, problems = examples.played(page_of(tmp_path, fenced("console", body)))
    assert problems == []
    assert kept == fenced("console", body)


def test_what_may_differ_and_what_may_not():
    one = "run 0a1b2c3d4e5f goes on in process 12, took 0.3 s,  3 of 7, 12.5/s, 1,024 bytes, 20:19:52.194\n"
    other = "run aaaaaaaaaaaa goes on in process 9, took 12 s,     3 of 7, 8/s, 9 bytes, 03:04:05.678\n"
    assert examples.plain(one) == examples.plain(other)
    assert examples.plain(one) != examples.plain(other.replace("3 of 7", "4 of 7"))
    assert examples.plain("4 of 7", moment=True) == examples.plain("3 of 7", moment=True)
    assert examples.plain("0.5 [0.4, 0.6]", moment=True) != examples.plain("0.5 [0.4, 0.7]", moment=True)
    assert examples.plain("spelling: 3/7 trials, 2 running, 3.1/s\nend\n") == "end"
