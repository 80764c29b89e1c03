"""Reads beside the writer: each in a snapshot of its own, none in the way of a commit."""

from __future__ import annotations

import asyncio
import sqlite3
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from triage.adapters.store.file import StoreFile
from triage.adapters.store.transaction import Compiler, Transaction
from triage.errors import StoreError

T = TypeVar("T")

THREADS = 2


class Readers:
    """A connection for each thread, opened at its first read."""

    def __init__(self, file: StoreFile, compiler: Compiler) -> None:
        self._file = file
        self._compiler = compiler
        self._executor: ThreadPoolExecutor | None = None
        self._own = threading.local()
        self._open: set[sqlite3.Connection] = set()

    def start(self) -> None:
        self._executor = ThreadPoolExecutor(THREADS, thread_name_prefix="store-reader")

    async def run(self, operation: Callable[[Transaction], T]) -> T:
        """All statements of `operation` see one state: the last commit before it began.

        Raises StoreError when the file could not be read.
        """
        if self._executor is None:
            raise StoreError(f"store {self._file.path} is not open")
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._executor, self._read, operation)

    async def close(self) -> None:
        executor, self._executor = self._executor, None
        if executor is not None:
            await asyncio.to_thread(executor.shutdown)
        while self._open:
            self._open.pop().close()

    def _read(self, operation: Callable[[Transaction], T]) -> T:
        connection: sqlite3.Connection | None = getattr(self._own, "connection", None)
        try:
            if connection is None:
                connection = self._own.connection = self._file.connect(read_only=True)
                self._open.add(connection)
            cursor = connection.cursor()
            cursor.execute("BEGIN")
            try:
                return operation(Transaction(cursor, self._compiler))
            finally:
                cursor.execute("ROLLBACK")
        except sqlite3.Error as error:
            if connection is not None:
                self._own.connection = None
                self._open.discard(connection)
                connection.close()
            raise StoreError(f"store {self._file.path}: {error}") from error
