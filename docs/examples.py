"""The examples of README.md and of the pages here: executed, and their outputs filled in, never typed.

    python docs/examples.py             says which examples no longer do what is shown
    python docs/examples.py --write     executes them all and writes what they really print

Each page is played from top to bottom, in an empty folder of its own:

- a `python` or `toml` block whose first line is a comment with a file's name is written to that file;
- a `python` or `toml` block whose first line is a comment with the path of a file in examples/ shows that
  file, and the package that it belongs to is installed for all that follows on the page;
- a `diff` block is applied to a copy of peira's own source, which all that follows on the page then uses. Its
  hunks have no line numbers: what they change must be found exactly once;
- a `python` block of prompts (`>>> `) is typed into one Python session, which the whole page shares;
- in a `console` block every line that begins with `$ ` is run by bash, or without a shell where it has no
  use for one. Both streams are shown, as in a terminal. A command that ends with another exit code than 0
  must be followed by `$ echo $?`, so that the page says so.

Blocks of any other language are shown only, and what asks a real model is executed only when it is written.
Two executions are compared after `plain`, which says what may differ. Run ids and process numbers differ,
too: where a later command names one that was shown, the one that stands in its place is meant.
"""

from __future__ import annotations

import contextlib
import difflib
import doctest
import io
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import tomllib
import traceback
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
HOME = "/home/you/study"
"""What a page shows instead of the folder it was played in."""

FENCE = re.compile(
    r"(?P<mark><!-- [^\n]* -->\n)?```(?P<language>\w*)\n(?P<body>.*?)^```$", re.MULTILINE | re.DOTALL
)
FILE = re.compile(r"# (?P<name>[\w-]+\.(?P<kind>py|toml))\n")
SHOWN = re.compile(r"# (?P<path>(?P<package>examples/[\w-]+)/[\w./-]+\.(?:py|toml))\n")
KINDS = {"python": "py", "toml": "toml"}
MOMENT = "<!-- how much was done depends on the moment -->"
"""Above a block: whole numbers in it are not compared, except in the rows of a table of means."""

MODEL = "<!-- asks a real model: written by `make docs`, not compared -->"
"""Above a block: executed only when the page is written."""

DURATION = r"\b\d+(?:\.\d+)? (?:s|min|h)\b"
VOLATILE = re.compile(
    r"(?P<id>\b[0-9a-f]{12,64}\b)"
    r"|(?<=process )(?P<process>\d+)"
    r"|(?P<moment>\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d(\.\d+Z?)?|\b\d\d:\d\d:\d\d\.\d{3}\b)"
    r"|(?P<rate>\b[\d,.]+/s\b)"
    rf"|(?P<took>{DURATION}(?: \({DURATION} to {DURATION}\))?)"
    r"|(?P<size>\b[\d,]+ bytes\b)"
    r"|(?P<temporary>/tmp/[\w./-]+)"
)
SHELL = frozenset("|&;<>()$`\\*?[]{}#~!\n")
"""What only a shell understands."""

Start = Callable[..., Any]
"""Starts a program: subprocess.Popen, or what takes the same and gives the same."""

PROGRESS = re.compile(r"^\w+: \d+/\d+ trials.*\n", re.MULTILINE)


@dataclass(frozen=True)
class Block:
    """A fenced block of a page; `line` is where its fence stands."""

    mark: str
    language: str
    body: str
    line: int

    @property
    def file(self) -> str | None:
        found = FILE.match(self.body)
        return found["name"] if found and found["kind"] == KINDS.get(self.language) else None

    @property
    def shown(self) -> re.Match[str] | None:
        """The file in examples/ that it shows, and the package of that file."""
        return SHOWN.match(self.body) if self.language in KINDS else None


def pages() -> list[Path]:
    return [ROOT / "README.md", *sorted(p for p in (ROOT / "docs").glob("*.md") if p.name != "cli.md")]


def blocks(text: str) -> list[Block]:
    return [_block(found, text) for found in FENCE.finditer(text)]


def _block(found: re.Match[str], text: str) -> Block:
    line = text.count("\n", 0, found.start("language")) + 1
    return Block((found["mark"] or "").strip(), found["language"], found["body"], line)


def plain(text: str, moment: bool = False) -> str:
    """What two executions of an example have in common.

    Ids, process numbers, times, durations (also with their range), rates, sizes and temporary folders are
    replaced by their kind; runs of blanks, which align columns of these, by two; lines of progress, which
    come every few seconds, are left out.
    """
    text = VOLATILE.sub(lambda found: f"<{found.lastgroup}>", PROGRESS.sub("", text))
    lines = [re.sub(r" {2,}", "  ", line).rstrip() for line in text.splitlines()]
    if moment:
        lines = [line if "[" in line else re.sub(r"\d+", "#", line) for line in lines]
    return "\n".join(lines)


# Playing a page


@dataclass
class Player:
    """Plays the blocks of one page in a folder, and says for each what it really shows."""

    folder: Path
    writing: bool = False
    start: Start = subprocess.Popen
    problems: list[str] = field(default_factory=list)
    _code: int = 0
    _names: dict[str, str] = field(default_factory=dict)
    _session: Session | None = None
    _installed: list[str] = field(default_factory=list)

    def play(self, block: Block) -> str:
        if block.mark == MODEL and not self.writing:
            return block.body
        if block.shown is not None:
            return self._show(block.shown)
        if block.file is not None:
            (self.folder / block.file).write_text(block.body, encoding="utf-8")
        elif block.language == "python" and block.body.startswith(">>> "):
            return self._type(block)
        elif block.language == "console" and block.body.startswith("$ "):
            return self._console(block)
        elif block.language == "diff":
            self._patch(block)
        elif block.language in ("python", "toml", "console"):
            self.problems.append(f"line {block.line}: this {block.language} block cannot be executed")
        return block.body

    def _show(self, shown: re.Match[str]) -> str:
        site = self.folder.parent / f"{self.folder.name}-site"
        if not site.exists():
            install(ROOT / shown["package"], site)
            self._find_first(site)
        return f"{shown[0]}{(ROOT / shown['path']).read_text(encoding='utf-8')}"

    def _patch(self, block: Block) -> None:
        source = self.folder / "src"
        if not source.exists():
            shutil.copytree(ROOT / "src", source, ignore=shutil.ignore_patterns("__pycache__"))
            self._find_first(source)
        try:
            patch(block.body, self.folder)
        except ValueError as problem:
            self.problems.append(f"line {block.line}: {problem}")

    def _find_first(self, path: Path) -> None:
        """Programs import from there before all else. They begin with nothing imported, and no session that
        began before knows of it."""
        self._installed.insert(0, str(path))
        self.start = subprocess.Popen
        self.close()
        self._session = None

    def _environment(self) -> dict[str, str]:
        path = {"PYTHONPATH": os.pathsep.join(self._installed)} if self._installed else {}
        return {**environment(), **path}

    def _type(self, block: Block) -> str:
        self._session = self._session or Session(self.folder, self.start, self._environment())
        shown = ""
        for example in doctest.DocTestParser().get_examples(block.body):
            typed = example.source.splitlines()
            shown += "".join(
                f"{'...' if i else '>>>'} {line}".rstrip() + "\n" for i, line in enumerate(typed)
            )
            shown += self._kept(example.want, self._session.type(self._now(example.source)), block)
        return shown

    def _console(self, block: Block) -> str:
        shown = ""
        said = re.split(r"^\$ ", block.body, flags=re.MULTILINE)[1:]
        commands = [part.partition("\n")[::2] for part in said]
        for at, (command, output) in enumerate(commands):
            shown += f"$ {command}\n{self._kept(output, self._run(command), block)}"
            told = at + 1 < len(commands) and commands[at + 1][0] == "echo $?"
            if self._code and not told:
                self.problems.append(f"line {block.line}: exit code {self._code} of {command!r} is not told")
        return shown

    def _run(self, command: str) -> str:
        process = self.start(
            self._words(self._now(command)),
            cwd=self.folder,
            env=self._environment(),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        said, _ = process.communicate()
        self._code = process.returncode
        return str(said)

    def _words(self, command: str) -> list[str]:
        if command.startswith("peira ") and not SHELL & set(command):
            return shlex.split(command)
        return ["bash", "-c", f"(exit {self._code})\n{command}"]

    def _kept(self, shown: str, actual: str, block: Block) -> str:
        """What is shown, if that is still true; else what is. Learns which run each shown id stands for."""
        actual = PROGRESS.sub("", actual.replace(str(self.folder), HOME))
        self._learn(shown, actual)
        moment = block.mark == MOMENT
        return shown if plain(shown, moment) == plain(actual, moment) else self._as_named(actual)

    def _learn(self, shown: str, actual: str) -> None:
        for kind in ("id", "process"):
            pairs = zip(_tokens(shown, kind), _tokens(actual, kind), strict=False)
            for old, new in pairs:
                self._names.setdefault(old[:12], new[:12])

    def _now(self, command: str) -> str:
        """A command as it is for the ids and process numbers of this execution."""
        return re.sub(r"\b(?:[0-9a-f]{4,12}|\d+)\b", lambda found: self._name(found[0]), command)

    def _name(self, word: str) -> str:
        if word in self._names:
            return self._names[word]
        ids = [new for old, new in self._names.items() if len(word) >= 4 and old.startswith(word)]
        return ids[0][: len(word)] if ids else word

    def _as_named(self, actual: str) -> str:
        for old, new in self._names.items():
            actual = re.sub(rf"\b{new}", old, actual)
        return actual

    def close(self) -> None:
        if self._session is not None:
            self._session.close()


def _tokens(text: str, kind: str) -> list[str]:
    return [found[kind] for found in VOLATILE.finditer(text) if found.lastgroup == kind]


def environment() -> dict[str, str]:
    """This Python's programs first, and nothing that would change what is shown."""
    tools = f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}"
    fixed = {
        "PATH": tools,
        "PYTHONUNBUFFERED": "1",
        "NO_COLOR": "1",
        "TERM": "dumb",
        "COLUMNS": "110",
        "TZ": "UTC",
    }
    return {**os.environ, **fixed}


def install(package: Path, site: Path) -> None:
    """Put a package there as pip would, without a build: its modules, and its entry points."""
    project = tomllib.loads((package / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    shutil.copytree(package / "src", site, ignore=shutil.ignore_patterns("__pycache__"))
    about = site / f"{project['name'].replace('-', '_')}-{project['version']}.dist-info"
    about.mkdir()
    metadata = {"Metadata-Version": "2.1", "Name": project["name"], "Version": project["version"]}
    (about / "METADATA").write_text("".join(f"{name}: {value}\n" for name, value in metadata.items()))
    lines = [
        line
        for group, entries in project["entry-points"].items()
        for line in (f"[{group}]", *(f"{name} = {where}" for name, where in entries.items()))
    ]
    (about / "entry_points.txt").write_text("\n".join(lines))


def patch(diff: str, root: Path) -> None:
    """Change the files below root as the diff says; ValueError if what it changes is not there once."""
    for part in re.split(r"^--- ", diff, flags=re.MULTILINE)[1:]:
        head, *hunks = re.split(r"^@@.*\n", part, flags=re.MULTILINE)
        old, new = (name.strip() for name in head.split("+++ "))
        path = root / new.removeprefix("b/")
        text = "" if old == "/dev/null" else path.read_text(encoding="utf-8")
        for hunk in hunks:
            before, after = _side(hunk, " -"), _side(hunk, " +")
            if text.count(before) != 1 and before:
                raise ValueError(f"{new}: found {text.count(before)} times, not once: {before!r}")
            text = text.replace(before, after) if before else after
        path.write_text(text, encoding="utf-8")


def _side(hunk: str, marks: str) -> str:
    """The lines of a hunk with one of these marks; an empty line is one of both sides."""
    lines = (line or " " for line in hunk.splitlines())
    return "".join(f"{line[1:]}\n" for line in lines if line[0] in marks)


class Session:
    """A Python prompt in a process of its own."""

    def __init__(self, folder: Path, start: Start, environment: dict[str, str]) -> None:
        self._process = start(
            [sys.executable, __file__, "--session"],
            cwd=folder,
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def type(self, source: str) -> str:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        print(json.dumps(source), file=self._process.stdin, flush=True)
        return str(json.loads(self._process.stdout.readline()))

    def close(self) -> None:
        self._process.communicate()


def serve_session() -> None:
    """The other side: executes each line of source it is sent, and answers with what that printed."""
    sys.path[0] = os.getcwd()
    answers, names = sys.stdout, dict[str, Any](__name__="__main__")
    for line in sys.stdin:
        said = io.StringIO()
        with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
            _execute(json.loads(line), names)
        print(json.dumps(said.getvalue()), file=answers, flush=True)


def _execute(source: str, names: dict[str, Any]) -> None:
    try:
        exec(compile(source, "<page>", "single"), names)
    except BaseException as problem:  # shown as a prompt would, without the way there
        last = "".join(traceback.format_exception_only(problem)).rstrip()
        print(f"Traceback (most recent call last):\n  ...\n{last}")


# Checking and writing


def played(page: Path, writing: bool = False, start: Start = subprocess.Popen) -> tuple[str, list[str]]:
    """The page as it would be written now, and what is wrong with it apart from that."""
    text, folder = page.read_text(encoding="utf-8"), Path(tempfile.mkdtemp(prefix="peira-docs-")).resolve()
    folder.chmod(0o755)  # a server that is started on the page may be another user's
    player = Player(folder, writing, start)
    try:
        return FENCE.sub(lambda found: _replayed(found, text, player), text), [
            *player.problems,
            *unused(text),
        ]
    finally:
        player.close()


def _replayed(found: re.Match[str], text: str, player: Player) -> str:
    block = _block(found, text)
    start, end = found.start("body") - found.start(), found.end("body") - found.start()
    return f"{found[0][:start]}{player.play(block)}{found[0][end:]}"


def unused(text: str) -> Iterator[str]:
    """Files that a page shows and nothing on it ever reads."""
    found = blocks(text)
    for at, block in enumerate(found):
        name = block.file
        if name and name != "peira.toml" and not any(_mentions(other, name) for other in found[at + 1 :]):
            yield f"line {block.line}: nothing after it uses {name}"


def _mentions(block: Block, name: str) -> bool:
    stem = re.escape(name.partition(".")[0])
    return (
        block.language in ("python", "toml", "console") and re.search(rf"\b{stem}\b", block.body) is not None
    )


def stale(page: Path, start: Start = subprocess.Popen) -> list[str]:
    """Every line of a page that is not what its examples now show."""
    now, problems = played(page, start=start)
    before = page.read_text(encoding="utf-8")
    return problems if now == before else [*problems, *_differences(before, now)]


def _differences(before: str, now: str) -> Iterator[str]:
    yield from difflib.unified_diff(before.splitlines(), now.splitlines(), "shown", "now", lineterm="", n=1)


def main(arguments: list[str]) -> int:
    if arguments == ["--session"]:
        serve_session()
        return 0
    wrong = False
    for page in pages():
        if arguments == ["--write"]:
            text, problems = played(page, writing=True)
            page.write_text(text, encoding="utf-8")
        else:
            problems = stale(page)
        wrong = wrong or bool(problems)
        for problem in problems:
            print(f"{page.relative_to(ROOT)}: {problem}", file=sys.stderr)
    return int(wrong)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
