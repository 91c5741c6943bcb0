"""The format of bundles: pending work in one portable file, and the answers to it in another.

Both are lines of a digest, a blank and a JSON document: the digest is the SHA-256 of the document's bytes as
they stand there, so that whoever reads or writes a line needs no other rule. The first line is the header; a
bundle has an item on every further line and ends with a footer. Answers begin with the header of their
bundle, as it is, and may come in any order and any number.
"""

from __future__ import annotations

from collections.abc import Iterator
from hashlib import sha256
from typing import BinaryIO

import msgspec

from peira.core.events import Failure
from peira.core.ids import Json, canonical, digest_bytes
from peira.errors import Invalid
from peira.plan.manifest import EvaluatorPart, Manifest

VERSION = 1
DIGITS = 64


class Header(msgspec.Struct, frozen=True):
    """What the items of a bundle have in common. `manifest` is the digest of the plan they belong to. With a
    `transform`, what is judged is the answer that it found, as `core.transforms.to_json` writes it."""

    stage: str
    study: str
    manifest: str
    agents: dict[str, str] = {}
    evaluators: dict[str, EvaluatorPart] = {}
    transform: str = ""
    version: int = VERSION
    peira: str = "bundle"


class Footer(msgspec.Struct, frozen=True):
    """How many items there are, and the digest of their digests, in their order."""

    end: int
    digest: str


class Answer(msgspec.Struct, frozen=True, omit_defaults=True):
    """What came of an item. `n` and `id` are the item's own, `item` is the digest of its line."""

    n: int
    id: str
    item: str
    output: Json | msgspec.UnsetType = msgspec.UNSET
    error: Failure | str | None = None
    took: float = 0.0
    metrics: dict[str, float] = {}
    about: dict[str, str] = {}


class Line(msgspec.Struct, frozen=True):
    """A document as it stands in a file, whose digest is right."""

    number: int
    digest: str
    document: bytes


_header = msgspec.json.Decoder(Header).decode
_footer = msgspec.json.Decoder(Footer).decode
_answer = msgspec.json.Decoder(Answer).decode


def sealed(document: bytes) -> bytes:
    """A line: the document behind its digest."""
    return b"%b %b\n" % (digest_bytes(document).encode(), document)


def header_of(manifest: str, of: Manifest, stage: str) -> Header:
    if stage == "evaluate":
        judges = {part.digest: part for part in of.evaluators}
        transform = of.transform.digest if of.transform else ""
        return Header(stage, of.study, manifest, evaluators=judges, transform=transform)
    return Header(stage, of.study, manifest, {part.label: part.digest for part in of.agents})


def lines(file: BinaryIO, first: int = 1) -> Iterator[Line | tuple[int, str]]:
    """Every line that is sound; of each other one, its number and what is wrong with it."""
    for number, raw in enumerate(file, first):
        text = raw.rstrip(b"\r\n")
        if not text:
            continue
        digest, blank, document = text[:DIGITS], text[DIGITS : DIGITS + 1], text[DIGITS + 1 :]
        if blank != b" " or len(digest) < DIGITS:
            yield number, "does not begin with a digest and a blank"
        elif digest_bytes(document).encode() != digest:
            yield number, "was altered: its digest is not that of what it says"
        else:
            yield Line(number, digest.decode(), document)


def read_header(file: BinaryIO, name: str) -> tuple[Header, bytes]:
    """The header of a file, and its line; the file stands behind it."""
    raw = file.readline()
    for line in lines(iter([raw])):  # type: ignore[arg-type]
        if isinstance(line, Line):
            try:
                header = _header(line.document)
            except msgspec.DecodeError as error:
                raise Invalid(f"{name}:1: is no header of a bundle: {error}") from None
            if header.peira != "bundle" or header.version != VERSION:
                raise Invalid(f"{name}:1: this is no bundle that this peira reads (version {header.version})")
            return header, raw if raw.endswith(b"\n") else raw + b"\n"
        raise Invalid(f"{name}:1: the header {line[1]}")
    raise Invalid(f"{name}: is empty")


def read_footer(line: Line) -> Footer | None:
    """The footer, if the line is one."""
    try:
        return _footer(line.document)
    except msgspec.DecodeError:
        return None


def read_answer(line: Line) -> Answer:
    """The answer on a line; Invalid says what is wrong with it."""
    try:
        found = _answer(line.document)
    except msgspec.DecodeError as error:
        raise Invalid(f"is no answer: {error}") from None
    if (found.output is msgspec.UNSET) == (found.error is None):
        raise Invalid("is no answer: it has neither output nor error, or both")
    return found


class Seal:
    """The digest of the digests of the lines it is shown."""

    def __init__(self) -> None:
        self.count, self._whole = 0, sha256()

    def add(self, digest: str) -> None:
        self.count += 1
        self._whole.update(digest.encode())

    @property
    def footer(self) -> Footer:
        return Footer(self.count, self._whole.hexdigest())


def written(value: Header | Footer | Answer) -> bytes:
    return sealed(canonical(msgspec.to_builtins(value)))
