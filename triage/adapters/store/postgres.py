"""A PostgreSQL database: shared by any number of processes, gone and back again at any moment.

Everything is bounded, twice. The server ends a statement, a wait for a lock and a transaction that
its client has left lying; and a server that does not even do that (stopped, cut off) is given up
here, by closing the connection. Sessions keep prepared statements and one advisory lock, so the
address must be the server's own or that of a pooler in session mode.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from typing import Any, ClassVar, Self

import psycopg
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from sqlalchemy import Connection, func, select
from sqlalchemy.dialects.postgresql.psycopg import PGDialect_psycopg
from sqlalchemy.exc import SQLAlchemyError

from triage.adapters.store.database import Fault
from triage.adapters.store.dialling import BackingOffDialer
from triage.adapters.store.pg_session import (
    CONNECT_TIMEOUT_S,
    BoundedConnection,
    PostgresSession,
    configure,
)
from triage.adapters.store.transaction import Compiler, Transaction
from triage.errors import ConfigError, StoreError

_CONFLICTS = {"23505", "55P03"}  # a key that was not there a moment ago, a lock not had in time
_FOR_A_PERSON = (
    "authentication failed",
    "no password supplied",
    "does not exist",
    "pg_hba.conf",
    "could not translate host name",
    "does not support SSL",
    "connection is bad",  # an option of the URL
)
"""What libpq says of a connection that no waiting will bring about: it gives no code there."""
_LOST_CLASSES = {"08", "53", "57", "58", "XX", "F0"}
_LOST = {
    "25006",  # a standby: the server we had is no longer the primary
    "25P02",
    "25P03",  # we were away for too long inside a transaction
}
_UPGRADE_KEY = int.from_bytes(hashlib.sha256(b"triage upgrade").digest()[:8], "big", signed=True)
_UPGRADE_LOCK_S = 60  # another replica is at it: how long it may take
# Weaker settings than these lose what was committed.
_SAFE = {"fsync": "on", "full_page_writes": "on"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Postgres:
    """See `Database`."""

    label: str
    _conninfo: str = field(repr=False)
    _password: str = field(repr=False)

    shared: ClassVar[bool] = True
    # An operation is a millisecond of round trips here, so that thirty of them are far longer
    # than the fsync they share, and no lock of the first is held for longer than that.
    batch_limit: ClassVar[int] = 32
    checkpoint_every_s: ClassVar[float | None] = None

    @classmethod
    def at(cls, url: str) -> Self:
        """From a URL as libpq reads it. Raises ConfigError."""
        parts = _parsed(url)
        if parts is None:
            raise ConfigError(
                "store: the postgresql:// URL cannot be read: write "
                "postgresql://user:password@host:5432/database, with %40 for an @ in the password"
            )
        defaults: dict[str, Any] = {
            "application_name": "triage",
            "connect_timeout": CONNECT_TIMEOUT_S,
            "client_encoding": "utf8",
            "keepalives": 1,
            "keepalives_idle": 5,
            "keepalives_interval": 2,
            "keepalives_count": 3,
            "tcp_user_timeout": 10_000,  # milliseconds
        }
        user, host, port, name = (parts.get(key) for key in ("user", "host", "port", "dbname"))
        where = f"{host or 'localhost'}{f':{port}' if port else ''}"
        return cls(
            label=f"postgresql://{f'{user}@' if user else ''}{where}/{name or user or ''}",
            _conninfo=make_conninfo("", **{**defaults, **parts}),
            _password=str(parts.get("password") or ""),
        )

    def compiler(self) -> Compiler:
        return Compiler(PGDialect_psycopg())  # type: ignore[no-untyped-call]

    def create(self) -> None:
        """A database is made by whoever runs the server."""

    def serving(self) -> nullcontext[None]:
        return nullcontext()

    def dialer(self, compiler: Compiler, *, writes: bool) -> BackingOffDialer:
        def connect() -> PostgresSession:
            connection = self._connect()
            try:
                return PostgresSession(connection, compiler, writes=writes)
            except BaseException:
                connection.close()
                raise

        return BackingOffDialer(connect, lambda error: psycopg.OperationalError(self.told(error)))

    def fault_of(self, error: BaseException) -> Fault:
        if not isinstance(error, psycopg.Error):
            return Fault.FOREIGN
        state = error.sqlstate
        if state is None:
            is_lost = isinstance(
                error, psycopg.OperationalError | psycopg.InterfaceError | psycopg.InternalError
            )
            return Fault.LOST if is_lost else Fault.REFUSED
        if state in _CONFLICTS or state.startswith("40"):
            return Fault.CONFLICT
        return Fault.LOST if state[:2] in _LOST_CLASSES or state in _LOST else Fault.REFUSED

    def told(self, error: BaseException) -> str:
        text = " ".join(str(error).split())
        return text.replace(self._password, "***") if self._password else text

    def checkpoint(self) -> None:
        """The server does that."""

    def weaknesses(self, transaction: Transaction) -> list[str]:
        row = transaction.row(_SETTINGS)
        assert row is not None
        return [
            f"{self.label} runs with {name} = {value}: a crash of its machine can lose or damage "
            "what was accepted"
            for name, value in zip(_SAFE, row, strict=True)
            if value != _SAFE[name]
        ]

    def tables(self) -> tuple[set[str], str | None] | None:
        with self._told_as("cannot be read"), self._connect() as connection:
            configure(connection)
            found = connection.execute(
                "SELECT tablename FROM pg_catalog.pg_tables WHERE schemaname = current_schema()"
            ).fetchall()
            names = {row[0] for row in found}
            if "alembic_version" not in names:
                return names, None
            row = connection.execute("SELECT version_num FROM alembic_version").fetchone()
            return names, None if row is None else str(row[0])

    def change(self, change: Callable[[Connection], None]) -> None:
        from sqlalchemy import create_engine
        from sqlalchemy.pool import NullPool

        engine = create_engine(
            "postgresql+psycopg://",
            creator=lambda: psycopg.connect(self._conninfo),
            poolclass=NullPool,
        )
        try:
            with self._told_as("cannot be changed"), engine.begin() as connection:
                # As much time as it needs, once it is our turn.
                connection.exec_driver_sql("SET LOCAL statement_timeout = 0")
                connection.exec_driver_sql(f"SET LOCAL lock_timeout = '{_UPGRADE_LOCK_S}s'")
                connection.exec_driver_sql(f"SELECT pg_advisory_xact_lock({_UPGRADE_KEY})")
                change(connection)
        finally:
            engine.dispose()

    def _connect(self) -> BoundedConnection:
        """Transactions are begun by hand."""
        return BoundedConnection.connect(self._conninfo, autocommit=True)

    @contextmanager
    def _told_as(self, what: str) -> Iterator[None]:
        try:
            yield
        except (psycopg.Error, SQLAlchemyError) as error:
            cause: BaseException = getattr(error, "orig", None) or error
            said = self.told(cause)
            is_away = self.fault_of(cause) is Fault.LOST and not any(
                words in said for words in _FOR_A_PERSON
            )
            kind = StoreError if is_away else ConfigError
            raise kind(f"store {self.label} {what}: {said}") from None


def _parsed(url: str) -> dict[str, Any] | None:
    """None when it cannot be: the error quotes what it fell over, which may be the password, and
    so must not even be the context of another one."""
    try:
        return conninfo_to_dict(url)
    except psycopg.Error:
        return None


_SETTINGS = select(*(func.current_setting(name) for name in _SAFE))
