"""Marked parts of a text: `code_block` and `boxed` extract one, `strip_reasoning` removes them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Literal, NamedTuple

from peira.core.ids import Json
from peira.core.transforms import NoAnswer
from peira.errors import Invalid
from peira.transforms.extraction import Extraction, blank, one_of, text_of

FENCE = re.compile(r"[ \t]{0,12}(?P<fence>`{3,}+|~{3,}+)[ \t]*+(?P<language>[^\s`{:,]*+)(?P<rest>[^`\n]*+)")
ALIASES = {
    "py": "python",
    "python3": "python",
    "js": "javascript",
    "ts": "typescript",
    "sh": "bash",
    "shell": "bash",
}
BRACES = re.compile(
    r"\\{1,4}(?:boxed|fbox)\s{0,3}(?P<box>\{)|\\{1,4}boxed\s(?P<bare>[^\s${}\\]{1,100})|\\.|(?P<open>\{)|(?P<close>\})",
    re.DOTALL,
)
TAGS = ("think", "thinking", "thought", "reasoning", "reflection", "scratchpad")


class TextBlock(NamedTuple):
    """A fenced block: its language ("" if none is given) and its contents."""

    language: str
    text: str


def code_block(language: str | None = None, which: Literal["last", "first"] = "last") -> Extraction:
    """The last (or first) fenced code block, of this language if one is given.

    A block without a language matches any, if none has the wanted one. A block whose fence is never closed
    extends to the end of the text. Raises Invalid for bad options.
    """
    if language is not None and blank(language):
        raise Invalid(f"code_block: language={language!r} is not a name")
    one_of("code_block", "which", which, ("last", "first"))
    options = (("language", language), ("which", which))
    return Extraction(
        "code_block", partial(_code, language=_known_as(language or ""), last=which == "last"), options
    )


def _code(output: Json, language: str, last: bool) -> str | NoAnswer:
    """The contents of the chosen block."""
    found = list(blocks(text_of(output)))
    if language:
        found = [b for b in found if b.language == language] or [b for b in found if not b.language]
    return found[-1 if last else 0].text if found else NoAnswer("no code block")


def blocks(text: str) -> Iterator[TextBlock]:
    """The fenced blocks of a text, in order."""
    fence, language, inside = "", "", list[str]()
    for line in text.split("\n"):
        found = FENCE.fullmatch(line.rstrip())
        if fence and found and _closes(found, fence):
            yield TextBlock(language, "\n".join(inside))
            fence = ""
        elif fence:
            inside.append(line)
        elif found:
            fence, language, inside = found["fence"], _known_as(found["language"]), []
    if fence:
        yield TextBlock(language, "\n".join(inside))


def _closes(found: re.Match[str], fence: str) -> bool:
    """Whether a fence closes a block that this fence opened."""
    same = found["fence"][0] == fence[0] and len(found["fence"]) >= len(fence)
    return same and not found["language"] and not found["rest"].strip()


def _known_as(language: str) -> str:
    """The canonical name of a language."""
    return ALIASES.get(language.lower(), language.lower())


def boxed() -> Extraction:
    r"""The contents of the last closed \boxed{...}, with nested braces."""
    return Extraction("boxed", _boxed)


def _boxed(output: Json) -> str | NoAnswer:
    """The contents of the last closed box, found with a stack of open braces."""
    text, answer = text_of(output), ""
    opened: list[int] = []  # the start of the contents of each open brace; -1 if it is no box
    for found in BRACES.finditer(text):
        if found["box"] or found["open"]:
            opened.append(found.end() if found["box"] else -1)
        elif found["bare"]:
            answer = found["bare"]
        elif found["close"] and opened and (start := opened.pop()) >= 0:
            answer = text[start : found.start()].strip()
    return answer or NoAnswer("no \\boxed{...}")


def strip_reasoning(tags: Sequence[str] = TAGS) -> Extraction:
    """The text without what is between <think> and </think>, or another of these tags.

    A closing tag without an opening one ends reasoning that began with the text. An opening tag without a
    closing one means that the text was cut off while reasoning. A text that is nothing but reasoning is no
    answer.
    """
    if (
        not isinstance(tags, list | tuple)
        or not tags
        or not all(isinstance(t, str) and t.strip() for t in tags)
    ):
        raise Invalid(f"strip_reasoning: tags={tags!r} is not a list of names")
    pattern = re.compile(rf"<(?P<end>/)?(?:{'|'.join(map(re.escape, tags))})>", re.IGNORECASE)
    return Extraction("strip_reasoning", partial(_outside, pattern), (("tags", tuple(tags)),))


def _outside(tag: re.Pattern[str], output: Json) -> Json | NoAnswer:
    """The text outside the tags; other values unchanged."""
    if not isinstance(output, str):
        return output
    kept: list[str] = []
    depth, at = 0, 0
    for found in tag.finditer(output):
        if depth == 0:
            kept.append(output[at : found.start()])
        if not found["end"]:
            depth += 1
        elif depth:
            depth -= 1
        else:
            kept = []
        at = found.end()
    if depth == 0:
        kept.append(output[at:])
    return "".join(kept).strip() or NoAnswer("nothing but reasoning" if at else "empty")
