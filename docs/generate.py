"""`python docs/generate.py` writes what is generated.

That is the page of the command line, the keys of models on docs/models.md, the keywords of `study(...)` that
editors complete, and the outputs of all examples (see examples.py). --check only says if one of the first
three is stale; tests/docs checks the examples.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any, Literal, get_origin

import examples
from peira.app.catalogue import model_keys
from peira.cli.app import COMMANDS, commands
from peira.spec import study as decorator
from peira.spec.fields.declaration import bare, fields_of
from peira.spec.study import Study

KEYWORDS = Path(decorator.__file__)
PAGE = Path(__file__).with_name("cli.md")
MODELS = Path(__file__).with_name("models.md")
KEYS_BEGIN, KEYS_END = "<!-- written by docs/generate.py -->", "<!-- end of what is written -->"
INTRODUCTION = """\
# The command line

*This page is written by `docs/generate.py` from the commands themselves.*

A study is named by its file (`capitals.py`, `capitals.py:name`, `capitals.toml`, `.yaml`, `.json`), or by the
id of one of its runs. Ids may be shortened to any unique beginning of four or more digits.

Every command takes `--store`; without it the store is the one that `peira.toml` names, or else
`.peira/peira.db` in the project's folder. With `--json` standard output holds one JSON document and nothing
else: whatever your own code prints goes to standard error.

| exit code | meaning |
|---|---|
| 0 | everything that was asked for succeeded |
| 1 | something failed: trials, a failure limit, a run cancelled from elsewhere, a problem in the store |
| 2 | wrong use, or a study with problems; nothing was written |
| 3 | another limit stopped it, or all that is left waits for people |
| 4 | the store is in use by another process |
| 130 | interrupted; the last line says how to go on |

What is wrong is said on standard error, one line per problem, each beginning with `peira: `.
"""


def page() -> str:
    group = commands()
    top = group.make_context("peira", [], resilient_parsing=True, terminal_width=80)
    parts = [INTRODUCTION, _section("peira", top)]
    for name in COMMANDS:
        command = group.get_command(top, name)
        context = command.make_context(name, [], parent=top, resilient_parsing=True, terminal_width=80)
        parts.append(_section(f"peira {name}", context))
    return "\n".join(parts)


def _section(title: str, context: Any) -> str:
    return f"## {title}\n\n```text\n{context.get_help().rstrip()}\n```\n"


def keywords() -> str:
    """The module of the decorator, with the fields that a study has."""
    lines = [
        f"    {key}: {_keyword(field.info.annotation)}" for field in fields_of(Study) for key in field.keys
    ]
    place = re.compile(r'(class StudyFields.*?"""\n\n)(?:    \w+: \w+\n)+', re.DOTALL)
    written = "".join(f"{line}\n" for line in lines)
    text, found = place.subn(lambda there: there[1] + written, KEYWORDS.read_text("utf-8"))
    assert found == 1
    return text


def _keyword(annotation: Any) -> str:
    kind = bare(annotation)
    return "str" if kind is str or get_origin(kind) is Literal else "int" if kind is int else "Any"


def model_keys_page() -> str:
    """The page about models, with the keys that the project file may give them."""
    rows = [
        f"| `{one.key}` | {one.default or '-'} | {one.meaning} | {one.providers} |" for one in model_keys()
    ]
    table = "\n".join(["| key | default | meaning | providers |", "|---|---|---|---|", *rows])
    place = re.compile(rf"({re.escape(KEYS_BEGIN)}\n).*?(?={re.escape(KEYS_END)})", re.DOTALL)
    text, found = place.subn(lambda there: f"{there[1]}{table}\n", MODELS.read_text("utf-8"))
    assert found == 1
    return text


def main(arguments: list[str]) -> int:
    generated = {PAGE: page(), KEYWORDS: keywords(), MODELS: model_keys_page()}
    if arguments != ["--check"]:
        for file, text in generated.items():
            file.write_text(text, encoding="utf-8")
        return examples.main(["--write"])
    stale = [file.name for file, text in generated.items() if file.read_text(encoding="utf-8") != text]
    for name in stale:
        print(f"{name} is stale: write it again with `python docs/generate.py`", file=sys.stderr)
    return int(bool(stale))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
