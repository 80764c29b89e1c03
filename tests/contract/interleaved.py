"""The store's operations one at a time on a database that can be put back: for exhaustive search.

What an interleaving of processes can do to the store is a sequence of its transactions, since each
is all or nothing. So the real operations run here on one SQLite connection in memory. What was done
to it is undone, and its rows are copied and put back: to put back the whole file has SQLite read
its schema and compile every statement again, which took most of a search.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar, cast

from sqlalchemy import create_engine
from sqlalchemy.pool import StaticPool

from tests.contract.store_world import HandClock
from triage.adapters.store import migrate
from triage.adapters.store.alerts import StoreAlertLog
from triage.adapters.store.decisions import StoreDecisionLog
from triage.adapters.store.file import StoreFile
from triage.adapters.store.ledger import StoreLedgerView
from triage.adapters.store.readers import Readers
from triage.adapters.store.schema import METADATA
from triage.adapters.store.transaction import Transaction
from triage.adapters.store.work import StoreQueue
from triage.adapters.store.writer import Operation, Writer

T = TypeVar("T")
Rows = tuple[list[tuple[Any, ...]], ...]
"""What each table holds, in the order of its row ids."""

LEASE_S = 30.0
SWEEP_S = 10.0
LAPSE_S = 1_000.0
"""Past every lease, delay and sweep, so that states differ by what is due and not by when."""

_TABLES = [
    (
        f"SELECT * FROM {table.name} ORDER BY rowid",  # noqa: S608
        f"DELETE FROM {table.name}",  # noqa: S608
        f"INSERT INTO {table.name} VALUES ({', '.join('?' * len(table.columns))})",  # noqa: S608
    )
    for table in METADATA.tables.values()
]


class InlineStore:
    """A store without threads or files. `save` and `put_back` are its whole state but the clock."""

    def __init__(self, clock: HandClock) -> None:
        self.clock = clock
        self._connection = sqlite3.connect(
            ":memory:", isolation_level=None, check_same_thread=False, cached_statements=1_000
        )
        engine = create_engine("sqlite://", creator=lambda: self._connection, poolclass=StaticPool)
        with engine.begin() as connection:
            migrate._create(connection)  # noqa: SLF001 - what an empty database gets
        database = StoreFile(path=Path("memory"))
        self._compiler = database.compiler()
        inline = _Inline(database=database, run_now=self.run)
        writer, readers = cast(Writer, inline), cast(Readers, _InlineReaders(self.run))
        self.queue = StoreQueue(writer=writer, readers=readers, clock=clock, lease_s=LEASE_S)
        self.alerts = StoreAlertLog(
            writer=writer,
            readers=readers,
            queue=self.queue,
            clock=clock,
            max_pending=100,
            retry_after_s=1,
            enqueues=True,
            lease_s=LEASE_S,
            sweep_s=SWEEP_S,
            coalesce_s=0,
        )
        self.decisions = StoreDecisionLog(writer=writer, readers=readers, clock=clock)
        self.ledger = StoreLedgerView(readers=readers)

    def run(self, operation: Callable[[Transaction], T]) -> T:
        cursor = self._connection.cursor()
        cursor.execute("SAVEPOINT operation")
        transaction = Transaction(cursor, self._compiler)
        try:
            result = operation(transaction)
            transaction.flush()
        except BaseException:
            cursor.execute("ROLLBACK TO operation")
            cursor.execute("RELEASE operation")
            raise
        cursor.execute("RELEASE operation")
        return result

    @contextmanager
    def undone(self) -> Iterator[None]:
        """What is done to the rows inside has not happened afterwards."""
        self._connection.execute("BEGIN IMMEDIATE")
        try:
            yield
        finally:
            self._connection.execute("ROLLBACK")

    def rows(self, sql: str) -> list[tuple[Any, ...]]:
        return self._connection.execute(sql).fetchall()

    def execute(self, sql: str) -> None:
        self._connection.execute(sql)

    def save(self) -> Rows:
        return tuple(self.rows(read) for read, _, _ in _TABLES)

    def put_back(self, saved: Rows) -> None:
        self._connection.execute("BEGIN IMMEDIATE")
        for (_, empty, fill), rows in zip(_TABLES, saved, strict=True):
            self._connection.execute(empty)
            if rows:
                self._connection.executemany(fill, rows)
        self._connection.execute("COMMIT")

    def close(self) -> None:
        self._connection.close()


@dataclass(slots=True)
class _Inline:
    """What the store's parts use of a Writer. Nobody waits, so nobody is cancelled."""

    database: StoreFile
    run_now: Callable[[Callable[[Transaction], Any]], Any]
    trouble: str = ""

    async def run(
        self,
        operation: Operation[T],
        *,
        durable: bool,
        then: Callable[[T, bool], None] | None = None,
    ) -> T:
        operation.prepare()
        result: T = self.run_now(operation)
        if then is not None:
            then(result, True)
        return result


@dataclass(slots=True)
class _InlineReaders:
    run_now: Callable[[Callable[[Transaction], Any]], Any]

    async def run(self, operation: Callable[[Transaction], T], **_: Any) -> T:
        result: T = self.run_now(operation)
        return result
