"""The store as one thing to open and close."""

from __future__ import annotations

import asyncio
import sqlite3
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from triage.adapters.store import migrate
from triage.adapters.store.alerts import SqliteAlertLog
from triage.adapters.store.decisions import SqliteDecisionLog
from triage.adapters.store.file import FileLock, StoreFile
from triage.adapters.store.gaps import SqliteGapLog
from triage.adapters.store.ledger import SqliteLedgerView
from triage.adapters.store.outbox import SqliteOutbox
from triage.adapters.store.readers import Readers
from triage.adapters.store.transaction import Compiler
from triage.adapters.store.work import SqliteQueue
from triage.adapters.store.writer import Writer
from triage.errors import ConfigError
from triage.ports import Clock

LEASE_S = 30.0
MAX_PENDING = 10_000
RETRY_AFTER_S = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Store:
    """The ports of one SQLite file. All of them are used from the loop that opened it."""

    alerts: SqliteAlertLog
    decisions: SqliteDecisionLog
    gaps: SqliteGapLog
    outbox: SqliteOutbox
    ledger: SqliteLedgerView
    queue: SqliteQueue
    _writer: Writer
    _resources: AsyncExitStack

    @classmethod
    async def open(
        cls,
        location: str | Path,
        *,
        clock: Clock,
        exclusive: bool = True,
        closes_gaps: bool = False,
        max_pending: int = MAX_PENDING,
        retry_after_s: int = RETRY_AFTER_S,
        lease_s: float = LEASE_S,
        embedded_queue: bool = True,
        upgrade: bool = True,
    ) -> Self:
        """Open for serving (`exclusive`), or for reading beside a daemon that serves.

        A missing file is created and, with `upgrade`, an older schema brought up to date; a
        reader does neither, and what it tries to change raises StoreError. With `closes_gaps` it
        may close gaps, in a transaction of one statement, which SQLite puts between the daemon's
        own: no lease or counter is touched, and nothing of it is in the daemon's memory.
        `embedded_queue`
        lets `accept` write the queue's rows itself, in its own transaction. Raises ConfigError
        naming the process that serves this file already, or what is wrong with the file.
        """
        file = StoreFile.at(location)
        async with AsyncExitStack() as resources:
            if exclusive:
                file.create()
                lock = FileLock(file.path)
                lock.acquire()
                resources.callback(lock.release)
            elif not file.path.exists():
                raise ConfigError(f"store {file.path} does not exist: nothing was served from it")
            await asyncio.to_thread(_ensure_schema, file, may_upgrade=exclusive, wanted=upgrade)
            compiler = Compiler()
            readers = Readers(file, compiler)
            readers.start()
            resources.push_async_callback(readers.close)
            writer = Writer(file=file, compiler=compiler)
            closer = writer if exclusive else Writer(file=file, compiler=compiler)
            if exclusive or closes_gaps:
                try:
                    closer.start()
                except sqlite3.Error as error:
                    raise ConfigError(f"store {file.path} cannot be opened: {error}") from error
                resources.push_async_callback(closer.close)
            queue = SqliteQueue(writer=writer, clock=clock, lease_s=lease_s)
            if exclusive:
                await queue.free_claims()
            return cls(
                alerts=SqliteAlertLog(
                    writer=writer,
                    readers=readers,
                    queue=queue,
                    clock=clock,
                    max_pending=max_pending,
                    retry_after_s=retry_after_s,
                    enqueues=embedded_queue,
                ),
                decisions=SqliteDecisionLog(writer=writer, readers=readers, clock=clock),
                gaps=SqliteGapLog(writer=closer, readers=readers),
                outbox=SqliteOutbox(writer=writer, readers=readers),
                ledger=SqliteLedgerView(readers=readers),
                queue=queue,
                _writer=writer,
                _resources=resources.pop_all(),
            )

    @property
    def trouble(self) -> str:
        """Why the last write failed, empty after one that did not: for readiness."""
        return self._writer.trouble

    async def close(self) -> None:
        """Finish what was submitted, then let go of the file. Idempotent."""
        await self._resources.aclose()


def _ensure_schema(file: StoreFile, *, may_upgrade: bool, wanted: bool) -> None:
    if not migrate.needed(file.path):
        return
    fresh = migrate.current(file.path) is None
    if may_upgrade and (fresh or wanted):
        migrate.upgrade(file.path)
        return
    raise ConfigError(
        f"store {file.path} has an older schema than this version needs: "
        "start the daemon once, which upgrades it"
    )
