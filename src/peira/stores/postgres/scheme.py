"""How stores are opened by their addresses (postgresql://...): the plug-in."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing

from peira.core.contracts import OpenStore
from peira.errors import Unknown
from peira.stores.postgres import roles, schema
from peira.stores.postgres.address import Address, public_address
from peira.stores.postgres.connection import connect, translated
from peira.stores.postgres.reads import StoreReader
from peira.stores.postgres.roles import StoreRoles
from peira.stores.postgres.store import PostgresStore, owner_facts


class PostgresScheme:
    """Stores by the address of their database."""

    def public(self, address: str) -> str:
        """The address without its password, by which this process opens the store from now on."""
        public = public_address(address)
        Address.parse(public)
        return public

    def exists(self, address: str) -> bool:
        where = Address.parse(address)
        with translated(where), closing(connect(where)) as db:
            return bool(schema.version(db, where.schema))

    def owner(self, address: str) -> dict[str, int] | None:
        if not self.exists(address):
            return None
        with closing(StoreReader(Address.parse(address), None)) as reader:
            row = reader.owner_row()
        return None if row is None else owner_facts(row)

    def set_up_roles(self, address: str, workers: Sequence[str], readers: Sequence[str]) -> StoreRoles:
        """Create or renew the roles of a store, and grant them to these logins; Unknown if there is none."""
        if not self.exists(address):
            raise Unknown(f"there is no store at {address}")
        where = Address.parse(address)
        with translated(where), closing(connect(where)) as db:
            schema.migrate(db, where.schema, "")
            return roles.set_up(db, where.schema, workers, readers)

    def own(self, address: str, wait: float | None, compression: str) -> OpenStore:
        return PostgresStore(address, wait=wait, compression=compression)

    def share(self, address: str, lease: float, wait: float | None, compression: str) -> PostgresStore:
        return PostgresStore(address, shared=True, lease=lease, wait=wait, compression=compression)

    def declare_gone(self, address: str, host: str, process: int) -> None:
        where = Address.parse(address)
        with translated(where), closing(connect(where)) as db:
            db.execute(
                "UPDATE member SET state = 'gone' "
                "WHERE host = %s AND pid = %s AND state IN ('alive', 'dead')",
                (host, process),
            )

    def environment(self, address: str) -> dict[str, str]:
        password = Address.parse(address).password
        return {} if password is None else {"PGPASSWORD": password}

    def read(self, address: str) -> OpenStore:
        return PostgresStore(address, readonly=True)
