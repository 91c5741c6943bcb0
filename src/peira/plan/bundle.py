"""The format of bundles: pending work in one portable file, and the answers to it in another.

Both files consist of lines of a digest, a space and a JSON document; the digest is the SHA-256 of the
document's bytes exactly as written, so no canonical form is needed. The first line is the header; a bundle
has one item per further line and ends with a footer. An answer file begins with an unmodified copy of the
header of its bundle; answers may be in any order and any number.
"""

from __future__ import annotations

from collections.abc import Iterator
from hashlib import sha256
from typing import BinaryIO

import msgspec

from peira.core.ids import Json, canonical, digest_bytes
from peira.core.log.events import Failure
from peira.errors import Invalid
from peira.plan.manifest import EvaluatorPart, Manifest

VERSION = 1
DIGITS = 64
"""Length of a digest in hexadecimal digits."""


class BundleHeader(msgspec.Struct, frozen=True):
    """What the items of a bundle have in common; `manifest` is the digest of the plan they belong to.

    With a `transform`, evaluators judge the extracted answer, in the form written by
    `core.transforms.to_json`.
    """

    stage: str
    """"generate" or "evaluate"."""
    study: str
    manifest: str
    agents: dict[str, str] = {}
    """The digests of the agents, by label."""
    evaluators: dict[str, EvaluatorPart] = {}
    """The evaluators, by digest."""
    transform: str = ""
    version: int = VERSION
    peira: str = "bundle"


class BundleFooter(msgspec.Struct, frozen=True):
    """The number of items, and the digest over their digests in order."""

    end: int
    digest: str


class BundleAnswer(msgspec.Struct, frozen=True, omit_defaults=True):
    """The result of an item; `n` and `id` are the item's own, `item` is the digest of its line.

    Exactly one of `output` and `error` is set.
    """

    n: int
    """The number of the item."""
    id: str
    item: str
    """The digest of the item's line."""
    output: Json | msgspec.UnsetType = msgspec.UNSET
    error: Failure | str | None = None
    took: float = 0.0
    """Seconds."""
    metrics: dict[str, float] = {}
    about: dict[str, str] = {}


class BundleLine(msgspec.Struct, frozen=True):
    """A line of a bundle file whose digest has been verified."""

    number: int
    digest: str
    document: bytes


_header = msgspec.json.Decoder(BundleHeader).decode
_footer = msgspec.json.Decoder(BundleFooter).decode
_answer = msgspec.json.Decoder(BundleAnswer).decode


def sealed(document: bytes) -> bytes:
    """A line of the format: digest, space, document, newline."""
    return b"%b %b\n" % (digest_bytes(document).encode(), document)


def header_of(manifest: str, of: Manifest, stage: str) -> BundleHeader:
    """The header of a bundle for a stage of a run: agents to generate, or evaluators to score."""
    if stage == "evaluate":
        judges = {part.digest: part for part in of.evaluators}
        transform = of.transform.digest if of.transform else ""
        return BundleHeader(stage, of.study, manifest, evaluators=judges, transform=transform)
    return BundleHeader(stage, of.study, manifest, {part.label: part.digest for part in of.agents})


def lines(file: BinaryIO, first: int = 1) -> Iterator[BundleLine | tuple[int, str]]:
    """Every valid line; for an invalid one, its number and the problem."""
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
            yield BundleLine(number, digest.decode(), document)


def read_header(file: BinaryIO, name: str) -> tuple[BundleHeader, bytes]:
    """Read the header and return it with its raw line; raises `Invalid`.

    The file position is after the header.
    """
    raw = file.readline()
    for line in lines(iter([raw])):  # type: ignore[arg-type]
        if isinstance(line, BundleLine):
            try:
                header = _header(line.document)
            except (msgspec.DecodeError, RecursionError) as error:
                raise Invalid(f"{name}:1: is no header of a bundle: {error}") from None
            if header.peira != "bundle" or header.version != VERSION:
                raise Invalid(f"{name}:1: this is no bundle that this peira reads (version {header.version})")
            return header, raw if raw.endswith(b"\n") else raw + b"\n"
        raise Invalid(f"{name}:1: the header {line[1]}")
    raise Invalid(f"{name}: is empty")


def read_footer(line: BundleLine) -> BundleFooter | None:
    """The footer, or None if the line is not one."""
    try:
        return _footer(line.document)
    except (msgspec.DecodeError, RecursionError):
        return None


def read_answer(line: BundleLine) -> BundleAnswer:
    """Parse the answer on a line; raises `Invalid` with the problem."""
    try:
        found = _answer(line.document)
    except (msgspec.DecodeError, RecursionError) as error:
        raise Invalid(f"is no answer: {error}") from None
    if (found.output is msgspec.UNSET) == (found.error is None):
        raise Invalid("is no answer: it has neither output nor error, or both")
    return found


class BundleDigest:
    """Running digest over the digests of the lines added to it."""

    def __init__(self) -> None:
        self.count, self._whole = 0, sha256()

    def add(self, digest: str) -> None:
        """Add the digest of the next line."""
        self.count += 1
        self._whole.update(digest.encode())

    @property
    def footer(self) -> BundleFooter:
        """The footer for the lines added so far."""
        return BundleFooter(self.count, self._whole.hexdigest())


def written(value: BundleHeader | BundleFooter | BundleAnswer) -> bytes:
    """Encode a header, footer or answer as a line."""
    return sealed(canonical(msgspec.to_builtins(value)))
