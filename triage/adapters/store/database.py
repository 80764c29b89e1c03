"""What a database gives the store that lives in it: SQLite in `file`, PostgreSQL in `postgres`.

Statements, operations and tables are the same for both. Here is what is not: how to connect, how
a transaction begins and ends, which errors mean what, and who else may be writing.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from enum import Enum
from pathlib import Path
from typing import ClassVar, Protocol

from sqlalchemy import Connection

from triage.adapters.store.transaction import Compiler, Transaction
from triage.errors import ConfigError


class Fault(Enum):
    """What an error says of the work that met it."""

    LOST = "lost"
    """The connection or the database: the whole batch is undone, the next one connects anew."""
    CONFLICT = "conflict"
    """Somebody else was there at the same moment: done again, it may succeed."""
    REFUSED = "refused"
    """The statement or its values: this operation fails, the others of its batch do not."""
    FOREIGN = "foreign"
    """No error of the database's: whatever the operation raised."""


class Session(Protocol):
    """One connection, used by one thread at a time. Everything raises the driver's errors, which
    `Database.fault_of` sorts; after one that is LOST only `close` may be called."""

    def begin(self, *, durable: bool, several: bool) -> Transaction:
        """To write. When the commit of a `durable` one returns, it is on disk; another may be
        undone by a power cut, never in part. `several`: it is the batch of several operations."""

    def begin_reading(self, *, patience_s: float | None) -> Transaction:
        """All statements see one state. `patience_s` is for a read that is known to be long."""

    def next_operation(self, transaction: Transaction) -> None:
        """What came before is kept, what follows can be undone alone."""

    def undo_operation(self, transaction: Transaction) -> None: ...

    def commit(self, transaction: Transaction) -> None: ...

    def end_reading(self) -> None: ...

    def rollback(self) -> None: ...

    def close(self) -> None:
        """Rolls back what is open. Never waits for a server, raises nothing."""


class Dialer(Protocol):
    """Connects for one thread, again after each loss."""

    def __call__(self, *, first: bool = False) -> Session:
        """`first` waits as long as a connection may take; later ones take a second at most, and
        raise the last failure at once while it is too early to try again."""

    def close(self) -> None: ...


class Database(Protocol):
    shared: ClassVar[bool]
    """Several processes may serve from it at once."""
    batch_limit: ClassVar[int]
    """Operations in one transaction."""
    checkpoint_every_s: ClassVar[float | None]

    @property
    def label(self) -> str:
        """How messages name it, without a password."""

    def compiler(self) -> Compiler: ...

    def create(self) -> None:
        """Make the place that a new database needs, where that is ours to make; what is there
        stays as it is. Raises ConfigError."""

    def serving(self) -> AbstractContextManager[None]:
        """Held by whoever serves from it. Raises ConfigError when it is not `shared` and somebody
        does already."""

    def dialer(self, compiler: Compiler, *, writes: bool) -> Dialer: ...

    def fault_of(self, error: BaseException) -> Fault: ...

    def told(self, error: BaseException) -> str:
        """An error of the database in one line for people, without a password."""

    def checkpoint(self) -> None:
        """Called every `checkpoint_every_s` in which something was committed, beside the writer."""

    def weaknesses(self, transaction: Transaction) -> list[str]:
        """How what was committed could be lost in a crash, one sentence each."""

    # --- for migrations -----------------------------------------------------------------------

    def tables(self) -> tuple[set[str], str | None] | None:
        """The names of its tables and the revision that is written there; None while there is no
        database. Raises ConfigError when it cannot be read, StoreError when it is away."""

    def change(self, change: Callable[[Connection], None]) -> None:
        """Run `change` in one transaction that nobody else's `change` runs beside, with as much
        time as it needs. Raises ConfigError, and StoreError when it is away."""


def database_at(location: str | Path) -> Database:
    """From a path, a `sqlite:///…` or a `postgresql://…` URL. Connects to nothing. Raises
    ConfigError for anything else."""
    if isinstance(location, str) and location.startswith("postgresql://"):
        # Here: psycopg is an extra, and whoever serves from a file needs neither it nor its time.
        try:
            from triage.adapters.store.postgres import Postgres
        except ImportError as error:
            raise ConfigError(
                "a postgresql:// store needs the psycopg driver: pip install 'triage[postgres]'"
                f" ({error})"
            ) from error

        return Postgres.at(location)
    from triage.adapters.store.file import StoreFile

    return StoreFile.at(location)
