"""Reads beside the writer: each in a snapshot of its own, none in the way of a commit."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from triage.adapters.store.database import Database, Dialer, Fault, Session
from triage.adapters.store.transaction import Compiler, Transaction
from triage.errors import StoreError

T = TypeVar("T")

THREADS = 2


class _Own(threading.local):
    """A connection for each thread, opened at its first read."""

    dial: Dialer | None = None
    session: Session | None = None


class Readers:
    def __init__(self, database: Database, compiler: Compiler) -> None:
        self._database = database
        self._compiler = compiler
        self._executor: ThreadPoolExecutor | None = None
        self._own = _Own()
        self._open: set[Session | Dialer] = set()

    def start(self) -> None:
        self._executor = ThreadPoolExecutor(THREADS, thread_name_prefix="store-reader")

    async def run(
        self, operation: Callable[[Transaction], T], *, patience_s: float | None = None
    ) -> T:
        """All statements of `operation` see one state: the last commit before it began.

        A read that may take long, because it is of everything, says how long with `patience_s`;
        a server gives up others after some seconds. Raises StoreError when the database could not
        be read.
        """
        if self._executor is None:
            raise StoreError(f"store {self._database.label} is not open")
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._executor, self._read, operation, patience_s)

    async def close(self) -> None:
        executor, self._executor = self._executor, None
        if executor is not None:
            await asyncio.to_thread(executor.shutdown)
        while self._open:
            self._open.pop().close()

    def _read(self, operation: Callable[[Transaction], T], patience_s: float | None) -> T:
        try:
            transaction = self._begun(patience_s)
            session = self._own.session
            assert session is not None
            try:
                result = operation(transaction)
            except Exception as error:
                if self._database.fault_of(error) is not Fault.LOST:
                    session.rollback()
                raise
            session.end_reading()
        except Exception as error:
            fault = self._database.fault_of(error)
            if fault is Fault.FOREIGN:
                raise
            if fault is Fault.LOST:
                self._disconnect()
            raise StoreError(
                f"store {self._database.label}: {self._database.told(error)}"
            ) from error
        return result

    def _begun(self, patience_s: float | None) -> Transaction:
        if self._own.session is not None:
            try:
                return self._own.session.begin_reading(patience_s=patience_s)
            except Exception as error:
                if self._database.fault_of(error) is not Fault.LOST:
                    raise
                self._disconnect()
        if self._own.dial is None:
            self._own.dial = self._database.dialer(self._compiler, writes=False)
            self._open.add(self._own.dial)
        session = self._own.session = self._own.dial()
        self._open.add(session)
        return session.begin_reading(patience_s=patience_s)

    def _disconnect(self) -> None:
        session, self._own.session = self._own.session, None
        if session is not None:
            self._open.discard(session)
            session.close()
