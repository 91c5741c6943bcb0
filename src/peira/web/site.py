"""What all handlers of one server share: the reader of the store, the feed of events, who may do what."""

from __future__ import annotations

from dataclasses import dataclass

from aiohttp import web

from peira.web.feed import EventFeed
from peira.web.reader import SiteReader
from peira.web.security import Credentials


@dataclass(frozen=True)
class Site:
    """One server's parts."""

    reader: SiteReader
    feed: EventFeed
    credentials: Credentials
    read_only: bool
    store_option: str
    """The store as other commands need it: an argument of --store."""

    @property
    def store_name(self) -> str:
        """The store, as pages name it."""
        return str(self.reader.session.store)


SITE: web.AppKey[Site] = web.AppKey("site", Site)


def site_of(request: web.Request) -> Site:
    """The site that a request was sent to."""
    return request.app[SITE]
