"""`python docs/generate.py` writes what is generated in the documentation.

That is the page of the command line, and the outputs of all examples (see examples.py). --check only says if
the page of the command line is stale; tests/docs checks the examples.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import examples

from peira.cli.app import COMMANDS, commands

PAGE = Path(__file__).with_name("cli.md")
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
| 3 | another limit stopped it |
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


def main(arguments: list[str]) -> int:
    text = page()
    if arguments != ["--check"]:
        PAGE.write_text(text, encoding="utf-8")
        return examples.main(["--write"])
    if PAGE.exists() and PAGE.read_text(encoding="utf-8") == text:
        return 0
    print(f"{PAGE.name} is stale: write it again with `python docs/generate.py`", file=sys.stderr)
    return 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
