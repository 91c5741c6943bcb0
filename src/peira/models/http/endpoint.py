"""Where a model is served: base URL, reference to the key, headers, timeouts."""

from __future__ import annotations

import os
import time
from base64 import b64encode
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from types import MappingProxyType
from urllib.parse import parse_qsl, unquote, urlencode, urlsplit, urlunsplit

from peira.core.text.secrets import remember
from peira.errors import Invalid
from peira.models.http.pool import LOOPBACK
from peira.models.http.request import DEFAULT, RequestHeaders, Timeouts
from peira.models.secrets import Key

HEADER_SECONDS = 1.0
"""Seconds for which a key that was looked up is reused."""


@dataclass(frozen=True, slots=True)
class Endpoint:
    """The endpoint of a provider; its repr shows no URL and no headers.

    A header value that starts with "$" is read from that environment variable.
    """

    base: str = field(repr=False)
    key: Key
    key_header: str = "authorization"
    """`authorization` sends "Bearer KEY", any other header the key alone."""
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    query: Mapping[str, str] = field(default_factory=dict)
    timeouts: Timeouts = DEFAULT

    def __post_init__(self) -> None:
        if not _reachable(self.base):
            raise Invalid(f'base URL: expected "https://host:port/path", not {_shown(self.base)!r}')

    def url(self, path: str, more: Mapping[str, str] = MappingProxyType({})) -> str:
        """The URL of a path below the base, with the query and without credentials."""
        parts = urlsplit(self.base)
        query = urlencode({**dict(parse_qsl(parts.query)), **self.query, **more})
        host = parts.netloc.rpartition("@")[2]
        return urlunsplit((parts.scheme, host, parts.path.rstrip("/") + path, query, ""))

    def sent(self) -> RequestHeaders:
        """The headers of a request, with the key as it is now, and the secrets in them."""
        headers, secrets, key = {"content-type": "application/json", **_own_name()}, [], self.key.find()
        for name, value in self.headers.items():
            if not value.startswith("$"):
                headers[name] = value
            elif found := os.environ.get(value[1:], ""):
                headers[name] = found
                secrets.append(found)
                remember(found)
        if key:
            headers[self.key_header] = f"Bearer {key}" if self.key_header == "authorization" else key
            secrets.append(key)
        elif userinfo := urlsplit(self.base).netloc.rpartition("@")[0]:
            headers["authorization"] = f"Basic {b64encode(unquote(userinfo).encode()).decode()}"
        return RequestHeaders(headers, (*secrets, *_held(self.base)))

    @property
    def address(self) -> str:
        """Host and port."""
        parts = urlsplit(self.base)
        return f"{parts.hostname}:{parts.port or (443 if parts.scheme == 'https' else 80)}"

    @property
    def place(self) -> str:
        """The endpoint as part of a model's identity: host and path, nothing secret."""
        parts = urlsplit(self.base)
        host = parts.hostname or ""
        port = f":{parts.port}" if parts.port and host not in LOOPBACK else ""
        return f"{'localhost' if host in LOOPBACK else host}{port}{parts.path.rstrip('/')}"


class HeaderCache:
    """A cache of an endpoint's headers; looked up again after HEADER_SECONDS, since a key may be renewed."""

    def __init__(self, endpoint: Endpoint) -> None:
        self._endpoint, self._until = endpoint, 0.0
        self._sent: RequestHeaders | None = None

    def __call__(self) -> RequestHeaders:
        """The headers and secrets, at most HEADER_SECONDS seconds old."""
        now = time.monotonic()
        if self._sent is None or now >= self._until:
            self._sent, self._until = self._endpoint.sent(), now + HEADER_SECONDS
        return self._sent


@lru_cache(1)
def _own_name() -> Mapping[str, str]:
    """The header by which providers can tell us from other programs."""
    from importlib.metadata import version  # slow, and not needed before this

    return {"user-agent": f"peira/{version('peira')}"}


@lru_cache(64)
def _held(base: str) -> tuple[str, ...]:
    """The secrets in a base URL: password, credentials as they are sent, query values."""
    parts = urlsplit(base)
    values = tuple(value for _, value in parse_qsl(parts.query))
    if not parts.password:
        return values
    credentials = b64encode(unquote(parts.netloc.rpartition("@")[0]).encode()).decode()
    return (parts.password, unquote(parts.password), credentials, *values)


def _reachable(base: str) -> bool:
    """Whether it is a URL of a host, with a port that exists."""
    try:
        parts = urlsplit(base)
        return parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        return False


def _shown(base: str) -> str:
    """An invalid base URL, as far as it can be shown."""
    return base.rpartition("@")[2].partition("?")[0][:100]
