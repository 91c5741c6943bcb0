"""Bringing a store up to date, and adding the runs of another store to it."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path

from peira.app.session import Session, SessionLike
from peira.app.store.access import StoreLike, display_path, locate, reading, scheme_of, store_folder
from peira.app.store.listing import list_missing
from peira.core.contracts import Merged, Merges, Versioned
from peira.errors import Invalid, StoreInUse, Unknown
from peira.stores.memory import MemoryStore
from peira.stores.merge import plan_merge


@dataclass(frozen=True)
class Migration:
    """The version of a store's format before and after, and how many plans became readable elsewhere.

    The versions are None for stores of a kind that has none.
    """

    before: int | None
    after: int | None
    listed: int


def migrate(store: SessionLike = None) -> Migration:
    """Bring a store up to date: its tables, and what other programs read of its runs (see `ListsPlans`).

    Opening a store does the first anyway. Unknown if there is none, StoreInUse if another process uses it.
    """
    session = Session.find(store)
    if not session.exists:
        raise Unknown(f"there is no store at {display_path(session.store)}")
    before, after = _versions(session)
    with session.owned() as opened:
        return Migration(before, after, list_missing(opened))


def _versions(session: Session) -> tuple[int | None, int | None]:
    """The version of the store's format, and the current one."""
    if not isinstance(session.store, (str, Path)):
        return None, None
    scheme = scheme_of(session.store)
    return scheme.versions(str(session.store)) if isinstance(scheme, Versioned) else (None, None)


def merge(
    other: StoreLike, store: SessionLike = None, *, ours: bool = False, dry_run: bool = False
) -> Merged:
    """Add the runs of another store to a store. What both have made is there once; the other is only read.

    Raises Invalid with a line for each conflict: a name that two runs have, a run that went on differently, a
    result that is not the same (with `ours`, this store's is kept). Unknown if there is no such store: one in
    a database is created. StoreInUse if another process uses one of the two.
    """
    session = Session.find(store)
    if locate(other, session.project) == session.store:
        raise Invalid("OTHER: it is the store itself")
    with reading(other, session.project) as theirs:
        if theirs.owner() is not None and theirs.readonly:
            raise StoreInUse(
                f"the store {other} is in use: merge a copy of it (peira backup), or wait for its run"
            )
        if not session.exists and isinstance(session.store, Path):
            raise Unknown(
                f"there is no store at {display_path(session.store)}; a copy of the other is enough"
            )
        if not session.exists and dry_run:
            return plan_merge(MemoryStore(), theirs, ours).brought
        with session.owned() as opened:
            shutil.rmtree(store_folder(opened, "tables"), ignore_errors=True)
            if not isinstance(opened, Merges):
                raise Invalid("merge: nothing can be added to this kind of store; use its own tools")
            found = opened.merge(theirs, ours=ours, dry_run=dry_run)
    if found.records and not dry_run:
        with session.owned() as opened:  # which also ends what the other's killed runs had under way
            list_missing(opened)
    return found
