"""The project and the store of one command or API call, each found and opened once."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from pathlib import Path
from typing import Any

from peira.app.store.access import Located, StoreLike, beside_streams, exists, locate, owned, reading
from peira.spec.project import Project


class Session:
    """A project, and a store that is opened when it is first needed.

    Inside `with session:` the store is opened for reading at most once and stays open until the end of the
    block. Outside of it, every `reading()` opens the store and closes it again; results rely on that, since
    they may be read long after the call that made them.
    """

    def __init__(self, project: Project, store: Located) -> None:
        """`store` is a path, an address, or an open store that its owner will close."""
        self.project, self.store = project, store
        self._open: ExitStack | None = None
        self._reader: Any = None

    @classmethod
    def find(cls, store: SessionLike = None, study: object = None) -> Session:
        """The session of the project of a study's file, or else of the working folder.

        `store` is by default the project's own. A session is returned as it is.
        """
        if isinstance(store, Session):
            return store
        project = Project.find(study)
        return cls(project, locate(store, project))

    def store_option(self, store: str | None) -> str | None:
        """The --store that other commands need to find this store: as given, or if it is another's own."""
        if store is not None or not isinstance(self.store, Path):
            return store
        if self.project.folder == Path.cwd():  # it is the nearest project, also without the study
            return None
        here = locate(None, Project.find())
        return None if here == self.store else os.path.relpath(self.store)

    @property
    def exists(self) -> bool:
        """Whether the store exists."""
        return exists(self.store, self.project)

    @contextmanager
    def reading(self) -> Iterator[Any]:
        """The store, open for reading; another process may write to it. Unknown if it does not exist."""
        if self._open is None:
            with reading(self.store, self.project) as opened:
                yield opened
            return
        if self._reader is None:
            self._reader = self._open.enter_context(reading(self.store, self.project))
        yield self._reader

    @contextmanager
    def reading_if_any(self) -> Iterator[Any]:
        """The store, open for reading, or None if it does not exist."""
        if not self.exists:
            yield None
            return
        with self.reading() as opened:
            yield opened

    def owned(self, wait: float | None = 0.0, compression: str = "zstd") -> AbstractContextManager[Any]:
        """The store, owned by this process for writing; StoreInUse if another owns it after `wait`."""
        return owned(self.store, self.project, wait, compression)

    def beside_streams(self, wait: float | None = 0.0) -> AbstractContextManager[Any]:
        """As `owned`, for a study: also while streams are served in the store by this process."""
        return beside_streams(self.store, self.project, wait)

    def __enter__(self) -> Session:
        self._open = ExitStack()
        return self

    def __exit__(self, *problem: object) -> None:
        opened, self._open, self._reader = self._open, None, None
        if opened is not None:
            opened.close()


SessionLike = Session | StoreLike
"""A session, or the store to make one for."""
