"""The store as one thing to open and close."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from triage.adapters.store import migrate
from triage.adapters.store.alerts import StoreAlertLog
from triage.adapters.store.database import Database, Fault, database_at
from triage.adapters.store.dead_letters import StoreDeadLetterLog
from triage.adapters.store.decisions import StoreDecisionLog
from triage.adapters.store.gaps import StoreGapLog
from triage.adapters.store.ledger import StoreLedgerView
from triage.adapters.store.outbox import StoreOutbox
from triage.adapters.store.readers import Readers
from triage.adapters.store.retention import StoreRetention
from triage.adapters.store.shadow_log import StoreShadowLog
from triage.adapters.store.watch_log import StoreWatchLog
from triage.adapters.store.work import StoreQueue
from triage.adapters.store.writer import Writer
from triage.errors import ConfigError, StoreError
from triage.ports import Clock

LEASE_S = 30.0
SWEEP_S = 10.0
MAX_PENDING = 10_000
RETRY_AFTER_S = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Store:
    """The ports of one database. All of them are used from the loop that opened it."""

    alerts: StoreAlertLog
    decisions: StoreDecisionLog
    dead_letters: StoreDeadLetterLog
    gaps: StoreGapLog
    outbox: StoreOutbox
    ledger: StoreLedgerView
    retention: StoreRetention
    shadows: StoreShadowLog
    watch: StoreWatchLog
    queue: StoreQueue
    _writer: Writer
    _resources: AsyncExitStack

    @classmethod
    async def open(
        cls,
        location: str | Path,
        *,
        clock: Clock,
        exclusive: bool = True,
        changes: bool = False,
        max_pending: int = MAX_PENDING,
        retry_after_s: int = RETRY_AFTER_S,
        lease_s: float = LEASE_S,
        sweep_s: float = SWEEP_S,
        coalesce_s: float = 0,
        embedded_queue: bool = True,
        upgrade: bool = False,
    ) -> Self:
        """Open for serving (`exclusive`), or for reading beside those that serve.

        An SQLite file is served by one process at a time, a PostgreSQL database by any number.
        Who opens for serving makes the tables where there are none; an older schema is brought up
        to date with `upgrade` and refused without. What a reader tries to change raises
        StoreError; with `changes` it may close gaps, deal with dead letters and purge, in short
        transactions that the database puts between those of the daemons: no lease is touched, and
        nothing of it is in a daemon's memory.

        `embedded_queue` lets `accept` write the queue's rows itself, in its own transaction.
        Raises ConfigError naming the process that serves this file already, or what is wrong, and
        StoreError for a server that is away.
        """
        database = database_at(location)
        async with AsyncExitStack() as resources:
            if exclusive:
                database.create()
                resources.enter_context(database.serving())
            await asyncio.to_thread(
                migrate.make_ready, database, may_create=exclusive, may_upgrade=upgrade
            )
            compiler = database.compiler()
            readers = Readers(database, compiler)
            readers.start()
            resources.push_async_callback(readers.close)
            writer = Writer(database=database, compiler=compiler)
            changing = writer if exclusive else Writer(database=database, compiler=compiler)
            if exclusive or changes:
                await _start(changing, database)
                resources.push_async_callback(changing.close)
            queue = StoreQueue(writer=writer, readers=readers, clock=clock, lease_s=lease_s)
            if exclusive and not database.shared:
                await queue.free_claims()
            return cls(
                alerts=StoreAlertLog(
                    writer=writer,
                    readers=readers,
                    queue=queue,
                    clock=clock,
                    max_pending=max_pending,
                    retry_after_s=retry_after_s,
                    enqueues=embedded_queue,
                    lease_s=lease_s,
                    sweep_s=sweep_s,
                    coalesce_s=coalesce_s,
                ),
                decisions=StoreDecisionLog(writer=writer, readers=readers, clock=clock),
                dead_letters=StoreDeadLetterLog(
                    writer=changing,
                    readers=readers,
                    queue=queue,
                    clock=clock,
                    enqueues=embedded_queue,
                ),
                gaps=StoreGapLog(writer=changing, readers=readers),
                outbox=StoreOutbox(writer=writer, readers=readers),
                ledger=StoreLedgerView(readers=readers),
                retention=StoreRetention(writer=changing, readers=readers, clock=clock),
                shadows=StoreShadowLog(writer=changing, readers=readers),
                watch=StoreWatchLog(writer=changing, readers=readers, clock=clock),
                queue=queue,
                _writer=writer,
                _resources=resources.pop_all(),
            )

    @property
    def label(self) -> str:
        """How messages name it, without a password."""
        return self._writer.database.label

    @property
    def trouble(self) -> str:
        """Why the last write failed, empty after one that did not: for readiness."""
        return self._writer.trouble

    @property
    def is_writing(self) -> bool:
        """Whether a change is under way that is not in the background, as accepting and deciding
        an alert are."""
        return self._writer.under_way > 0

    @property
    def is_shared(self) -> bool:
        """Whether other processes may serve from it at the same time."""
        return self._writer.database.shared

    async def close(self) -> None:
        """Finish what was submitted, then let go of the database. Idempotent."""
        await self._resources.aclose()


async def _start(writer: Writer, database: Database) -> None:
    try:
        await writer.start()
    except Exception as error:
        if database.fault_of(error) is Fault.FOREIGN:
            raise
        kind = StoreError if database.shared else ConfigError
        raise kind(f"store {database.label} cannot be opened: {database.told(error)}") from error
