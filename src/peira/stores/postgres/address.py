"""Addresses of Postgres stores: postgresql://user@host:port/database?schema=NAME&blobs=FOLDER.

`schema` names the store within the database; `blobs` is a folder or a bucket (s3://bucket/prefix) for large
blobs, which every process that uses the store can reach; `reconnect` is how many seconds a lost server is
waited for. Everything else is libpq's. A password is kept apart, so that no message, event or process list
can show it.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from urllib.parse import parse_qsl, quote, unquote, urlencode, urlsplit, urlunsplit

from peira.core.ids import digest_bytes
from peira.errors import Invalid
from peira.stores.bucket import SCHEME as BUCKET

SCHEME = "postgresql"
SCHEMA = "peira"
"""The schema of a store whose address names none."""
LONGEST = 63
"""Bytes of the longest name that Postgres keeps whole."""
OURS = ("schema", "blobs", "reconnect")
RECONNECT = 60.0
"""Seconds in which a lost connection can be opened again, unless the address says otherwise."""
EXAMPLE = f"{SCHEME}://user@host:5432/database"

_passwords: dict[str, str] = {}
"""The passwords that this process was given, by address without it."""


@dataclass(frozen=True)
class Address:
    """The parts of an address; `server` is the part that libpq reads, without a password."""

    server: str
    schema: str = SCHEMA
    blobs: str = ""
    reconnect: float = RECONNECT

    @classmethod
    def parse(cls, text: str) -> Address:
        """The parts of an address; Invalid lists what is wrong with it."""
        public, problems = public_address(text), []
        parts = urlsplit(public)
        query = dict(parse_qsl(parts.query, keep_blank_values=True))
        if parts.fragment:
            problems.append(f"store: {public}: # cannot be part of it (write %23)")
        schema = query.get("schema", SCHEMA)
        if not schema or len(schema.encode()) > LONGEST or "\0" in schema or schema.startswith("pg_"):
            problems.append(
                f"store: {public}: schema {schema!r} cannot be used; choose 1 to {LONGEST} letters, "
                "not beginning with pg_"
            )
        blobs = query.get("blobs", "")
        if "blobs" in query and not Path(blobs).is_absolute() and not blobs.startswith(BUCKET):
            problems.append(
                f"store: {public}: blobs must be the absolute path of a folder, or {BUCKET}bucket/prefix, "
                f"not {blobs!r}"
            )
        try:
            reconnect = float(query.get("reconnect", RECONNECT))
        except ValueError:
            reconnect = -1.0
        if not 0 <= reconnect < float("inf"):
            problems.append(f"store: {public}: reconnect must be a number of seconds")
        if problems:
            raise Invalid(problems)
        rest = urlencode({key: value for key, value in query.items() if key not in OURS}, quote_via=quote)
        server = urlunsplit((SCHEME, parts.netloc, parts.path, rest.replace("%2F", "/"), ""))
        server = server if server.startswith(f"{SCHEME}://") else f"{SCHEME}://{server[len(SCHEME) + 1 :]}"
        scheme = BUCKET if blobs.startswith(BUCKET) else ""  # whose slashes stay, also without a bucket
        return cls(server, schema, scheme + blobs[len(scheme) :].rstrip("/"), reconnect)

    def __str__(self) -> str:
        """The address in one spelling: with its schema, which comes last, and without a password."""
        joint = "&" if "?" in self.server else "?"
        return f"{self.server}{joint}schema={quote(self.schema)}"

    @property
    def password(self) -> str | None:
        """The password that this process was given for it; None leaves it to libpq (PGPASSWORD, .pgpass)."""
        return _passwords.get(self.server)

    @property
    def lock_key(self) -> int:
        """The number of the advisory lock that the owner of the store holds in its database."""
        number = int(digest_bytes(f"peira store {self.schema}".encode())[:16], 16)
        return number - 2**63


def public_address(text: str) -> str:
    """The address without its password, which is remembered for this process; Invalid if it is none."""
    try:
        parts = urlsplit(text)
        parts.port  # noqa: B018  a number that is none raises
    except ValueError as problem:
        raise Invalid(f"store: not the address of a database ({problem}); write it as {EXAMPLE}") from None
    if parts.scheme != SCHEME:
        raise Invalid(f"store: {parts.scheme}://... is not the address of a database; write it as {EXAMPLE}")
    user, at, host = parts.netloc.rpartition("@")
    name, _, password = user.partition(":")
    query = parse_qsl(parts.query, keep_blank_values=True)
    password = dict(query).get("password", "") or unquote(password)
    kept = [pair for pair in query if pair[0] != "password"]
    text = f"{SCHEME}://{name}{at}{host}{parts.path}"
    if kept:
        text += "?" + urlencode(kept, quote_via=quote).replace("%2F", "/")
    if parts.fragment:
        text += f"#{parts.fragment}"
    elif password:
        _passwords[Address.parse(text).server] = password
    return text
