"""Content-addressed blobs in a bucket of an S3-compatible object store (s3://bucket/prefix).

An object is created only if there is none (`If-None-Match: *`), before any row refers to it; whoever finds
one there needs no other, because its name is its digest. Where the service is, and the keys, come from the
environment, as for other tools (AWS_ENDPOINT_URL, AWS_ACCESS_KEY_ID, AWS_REGION and so on).
"""

from __future__ import annotations

import importlib.util
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import TYPE_CHECKING

from peira.core.codec import pack, unpack
from peira.core.failpoints import reach
from peira.errors import Invalid
from peira.stores.blobs import ENDINGS, MARKER

if TYPE_CHECKING:
    from obstore.store import ObjectStore

SCHEME = "s3://"
ENDPOINTS = ("AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT")
TRIES = 4
PATIENCE = 30
"""Seconds in which the service has to do what it is asked, with all tries."""


class BlobBucket:
    """The large blobs of a store, below a prefix of a bucket."""

    def __init__(self, where: str, codec: str) -> None:
        """Invalid if `where` is no address of a bucket, or the package that reaches it is not installed."""
        if not where.startswith(SCHEME) or not where[len(SCHEME) :].partition("/")[0]:
            raise Invalid(f"blobs: {where!r} is not the address of a bucket; write it as s3://bucket/prefix")
        if importlib.util.find_spec("obstore") is None:
            raise Invalid(f"blobs={where}: needs obstore, which is not installed: pip install 'peira[s3]'")
        from obstore.store import from_url

        self.where, self._codec = where, codec
        try:
            self._bucket: ObjectStore = from_url(
                where.rstrip("/"),
                client_options={"timeout": timedelta(seconds=PATIENCE), "allow_http": _plain_http()},
                retry_config={"max_retries": TRIES - 1, "retry_timeout": timedelta(seconds=PATIENCE)},
            )
        except Exception as problem:  # its own errors have no common base in every release
            raise Invalid(f"blobs={where}: {_line(problem)}") from problem

    def write(self, digest: str, data: bytes) -> None:
        """Create the object of a blob unless it exists; durable when it returns."""
        reach("blob.before_put")
        self._create(_name(digest, self._codec), pack(data, self._codec))
        reach("blob.after_put")

    def _create(self, name: str, data: bytes) -> bool:
        """Create an object; False if there is one."""
        import obstore
        from obstore.exceptions import AlreadyExistsError

        with _as_os_errors(self.where):
            try:
                obstore.put(self._bucket, name, data, mode="create")
            except (AlreadyExistsError, FileExistsError):
                return False
        return True

    def read(self, digest: str) -> bytes:
        """The bytes of a blob; FileNotFoundError if there is none."""
        others = [codec for codec in ENDINGS if codec != self._codec]
        for codec in (self._codec, *others):
            try:
                return unpack(self._get(_name(digest, codec)), codec)
            except FileNotFoundError:
                continue
        raise FileNotFoundError(f"blob {digest} is not in {self.where}")

    def _get(self, name: str) -> bytes:
        import obstore

        with _as_os_errors(self.where):
            return bytes(obstore.get(self._bucket, name).bytes())

    def reserve(self, store: str) -> str:
        """Mark the prefix as this store's; the store that it belongs to."""
        if self._create(MARKER, store.encode()):
            return store
        return self._get(MARKER).decode()

    def digests(self) -> Iterator[str]:
        """Every blob that is there."""
        import obstore

        with _as_os_errors(self.where):
            for found in obstore.list(self._bucket):
                for one in found:
                    name = one["path"].replace("/", "").removesuffix(ENDINGS["zstd"])
                    if name != MARKER:
                        yield name

    def remove(self, digest: str) -> None:
        """Delete a blob."""
        import obstore

        with _as_os_errors(self.where):
            for codec in ENDINGS:
                obstore.delete(self._bucket, _name(digest, codec))

    def unfinished(self) -> list[tuple[str, int]]:
        """None: an object is there whole, or not at all."""
        return []

    def sweep(self) -> None:
        """There is nothing to remove."""


def _name(digest: str, codec: str) -> str:
    return f"{digest[:2]}/{digest[2:]}{ENDINGS[codec]}"


def _plain_http() -> bool:
    """Whether the service is named without encryption, as one of this machine may be."""
    return any(os.environ.get(name, "").startswith("http://") for name in ENDPOINTS)


@contextmanager
def _as_os_errors(where: str) -> Iterator[None]:
    """Errors of the service in the block as OSError, in one line."""
    from obstore.exceptions import BaseError

    try:
        yield
    except (BaseError, OSError) as problem:
        kind = FileNotFoundError if isinstance(problem, FileNotFoundError) else OSError
        raise kind(f"{where}: {_line(problem)}") from problem


def _line(problem: Exception) -> str:
    """What is wrong, without the details of the request."""
    text = str(problem).partition("\n\nDebug")[0]
    if said := re.search(r"<Code>(.*?)</Code>\s*<Message>(.*?)</Message>", text, re.DOTALL):
        return f"{said[1]}: {said[2]}"
    return " ".join(text.split())[:300]
