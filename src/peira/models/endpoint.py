"""Where a model is served: a base URL, a key by name, headers, timeouts.

A base URL may carry credentials and query values; they are sent, and are secrets everywhere else. A header
"$NAME" is the environment variable of that name, left out if it is not set. Two endpoints are the same place
if host and path are: on this machine the port does not count, because a local server that was started again
is still the same.
"""

from __future__ import annotations

import os
import time
from base64 import b64encode
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from types import MappingProxyType
from urllib.parse import parse_qsl, unquote, urlencode, urlsplit, urlunsplit

from peira.errors import Invalid
from peira.models.post import DEFAULT, Sent, Timeouts
from peira.models.secrets import Key
from peira.models.wire import LOOPBACK

LATELY = 1.0
"""For how many seconds a key that was found counts as found."""


@dataclass(frozen=True, slots=True)
class Endpoint:
    base: str = field(repr=False)
    key: Key
    key_header: str = "authorization"
    """`authorization` sends "Bearer KEY", any other the key alone."""
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    query: Mapping[str, str] = field(default_factory=dict)
    timeouts: Timeouts = DEFAULT

    def __post_init__(self) -> None:
        parts = urlsplit(self.base)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise Invalid(f'base URL: expected "https://host/path", not {_shown(self.base)!r}')

    def url(self, path: str, more: Mapping[str, str] = MappingProxyType({})) -> str:
        """The URL of a path below the base, with query and without credentials."""
        parts = urlsplit(self.base)
        query = urlencode({**dict(parse_qsl(parts.query)), **self.query, **more})
        host = parts.netloc.rpartition("@")[2]
        return urlunsplit((parts.scheme, host, parts.path.rstrip("/") + path, query, ""))

    def sent(self) -> Sent:
        """What is sent beside the body, the key among it, as it is now."""
        headers, secrets, key = {"content-type": "application/json"}, [], self.key.find()
        for name, value in self.headers.items():
            if not value.startswith("$"):
                headers[name] = value
            elif found := os.environ.get(value[1:], ""):
                headers[name] = found
                secrets.append(found)
        if key:
            headers[self.key_header] = f"Bearer {key}" if self.key_header == "authorization" else key
            secrets.append(key)
        elif userinfo := urlsplit(self.base).netloc.rpartition("@")[0]:
            headers["authorization"] = f"Basic {b64encode(unquote(userinfo).encode()).decode()}"
        return Sent(headers, (*secrets, *_held(self.base)))

    @property
    def place(self) -> str:
        """The endpoint as an identity knows it: host and path, nothing secret."""
        parts = urlsplit(self.base)
        host = parts.hostname or ""
        port = f":{parts.port}" if parts.port and host not in LOOPBACK else ""
        return f"{'localhost' if host in LOOPBACK else host}{port}{parts.path.rstrip('/')}"


class Lately:
    """What an endpoint sends beside bodies, looked up again after a while: a key may be renewed in a run."""

    def __init__(self, endpoint: Endpoint) -> None:
        self._endpoint, self._until = endpoint, 0.0
        self._sent: Sent | None = None

    def __call__(self) -> Sent:
        now = time.monotonic()
        if self._sent is None or now >= self._until:
            self._sent, self._until = self._endpoint.sent(), now + LATELY
        return self._sent


@lru_cache(64)
def _held(base: str) -> tuple[str, ...]:
    """The secrets in a base URL: its password, its credentials as they are sent, its query values."""
    parts = urlsplit(base)
    values = tuple(value for _, value in parse_qsl(parts.query))
    if not parts.password:
        return values
    credentials = b64encode(unquote(parts.netloc.rpartition("@")[0]).encode()).decode()
    return (parts.password, unquote(parts.password), credentials, *values)


def _shown(base: str) -> str:
    """A mistaken base URL, as far as it can be shown."""
    return base.rpartition("@")[2].partition("?")[0][:100]
