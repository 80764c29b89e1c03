"""Group commit: one thread, one connection, one transaction for everything that is waiting.

Nobody waits for a batch to fill: the writer takes what has queued up while it was busy, so one
operation alone is committed at once, and two hundred at once share one fsync.
"""

from __future__ import annotations

import asyncio
import queue
import sqlite3
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Generic, Protocol, TypeVar

from triage.adapters.store.file import StoreFile
from triage.adapters.store.transaction import Compiler, Transaction
from triage.errors import StoreError

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)

BATCH_LIMIT = 256  # operations in one transaction: bounds how long the first of them waits
CHECKPOINT_EVERY_S = 1.0


class Operation(Protocol[T_co]):
    """A unit of the writer's work, all or nothing. It may run more than once."""

    def prepare(self) -> None:
        """What needs no transaction: encoding, compressing. Runs on the writer's thread."""

    def __call__(self, transaction: Transaction) -> T_co: ...


@dataclass(slots=True)
class Simple(Generic[T]):
    """An operation with nothing to prepare."""

    run: Callable[[Transaction], T]

    def prepare(self) -> None:
        return

    def __call__(self, transaction: Transaction) -> T:
        return self.run(transaction)


@dataclass(slots=True)
class _Job:
    operation: Operation[Any]
    durable: bool
    future: asyncio.Future[Any]
    then: Callable[[Any, bool], None] | None
    result: Any = None
    error: BaseException | None = None


@dataclass(slots=True)
class Writer:
    """`trouble` is what kept the last batch from being committed, empty after one that was."""

    file: StoreFile
    compiler: Compiler
    trouble: str = ""
    _loop: asyncio.AbstractEventLoop | None = None
    _jobs: queue.SimpleQueue[_Job | None] = field(default_factory=queue.SimpleQueue)
    _connection: sqlite3.Connection | None = None
    _synchronous: str = ""
    _closed: bool = True
    _threads: list[threading.Thread] = field(default_factory=list)
    _finished: threading.Event = field(default_factory=threading.Event)
    _commits: int = 0

    def start(self) -> None:
        """Raises sqlite3.Error when the file cannot be opened."""
        self._loop = asyncio.get_running_loop()
        self._connect()
        self._closed = False
        # Daemon threads: a process that forgets `close` must still be able to end.
        self._threads = [
            threading.Thread(
                target=self._serve, args=(self._loop,), name="store-writer", daemon=True
            ),
            threading.Thread(target=self._checkpoint, name="store-checkpoint", daemon=True),
        ]
        for thread in self._threads:
            thread.start()

    async def run(
        self,
        operation: Operation[T],
        *,
        durable: bool,
        then: Callable[[T, bool], None] | None = None,
    ) -> T:
        """Run one operation; when this returns it is committed, and on disk when `durable`.

        Raises StoreError when the file could not be written, and whatever the operation raised;
        either way it left no trace. A cancelled call stops waiting, the operation goes on:
        `then(result, wanted)` runs on the loop after the commit in both cases.
        """
        if self._closed or self._loop is None:
            raise StoreError(f"store {self.file.path} is not open for writing")
        future: asyncio.Future[T] = self._loop.create_future()
        self._jobs.put(_Job(operation=operation, durable=durable, future=future, then=then))
        return await future

    def send(self, operation: Operation[T], *, then: Callable[[T, bool], None]) -> None:
        """As `run`, not durable, with nobody waiting: a failure has no consequence. Nothing
        happens after `close`."""
        if self._closed or self._loop is None:
            return
        future: asyncio.Future[T] = self._loop.create_future()
        future.add_done_callback(lambda done: done.exception())
        self._jobs.put(_Job(operation=operation, durable=False, future=future, then=then))

    async def close(self) -> None:
        """Finish what was submitted, then close the file. Idempotent."""
        if self._closed:
            return
        self._closed = True
        self._jobs.put(None)
        self._finished.set()
        for thread in self._threads:
            await asyncio.to_thread(thread.join)

    # --- the writer's thread ------------------------------------------------------------------

    def _serve(self, loop: asyncio.AbstractEventLoop) -> None:
        stopping = False
        while not stopping:
            jobs, stopping = self._take()
            if not jobs:
                continue
            self._attempt(jobs)
            try:
                loop.call_soon_threadsafe(self._tell, jobs)
            except RuntimeError:  # the loop was closed under us: there is nobody left to tell
                break
        self._disconnect()

    def _take(self) -> tuple[list[_Job], bool]:
        jobs: list[_Job] = []
        job = self._jobs.get()
        while job is not None:
            jobs.append(job)
            if len(jobs) >= BATCH_LIMIT:
                return jobs, False
            try:
                job = self._jobs.get_nowait()
            except queue.Empty:
                return jobs, False
        return jobs, True

    def _attempt(self, jobs: list[_Job]) -> None:
        ready: list[_Job] = []
        for job in jobs:
            try:
                job.operation.prepare()
            except Exception as error:  # noqa: BLE001 - it is the caller's, who gets it
                job.error = error
            else:
                ready.append(job)
        if not ready:
            return
        try:
            self._commit(self._connection or self._connect(), ready)
            self.trouble = ""
        except sqlite3.Error as error:
            # After a failed write or fsync nothing is known about the connection: a new one
            # reads what the file really holds.
            self._disconnect()
            self.trouble = f"store {self.file.path}: {error}"
            for job in ready:
                job.error = job.error or StoreError(self.trouble)
        except Exception as error:  # noqa: BLE001 - a bug: the waiters get it, the thread lives on
            self._disconnect()
            for job in ready:
                job.error = job.error or error

    def _commit(self, connection: sqlite3.Connection, jobs: list[_Job]) -> None:
        cursor = connection.cursor()
        synchronous = "FULL" if any(job.durable for job in jobs) else "NORMAL"
        if synchronous != self._synchronous:
            cursor.execute(f"PRAGMA synchronous={synchronous}")
            self._synchronous = synchronous
        cursor.execute("BEGIN IMMEDIATE")
        transaction = Transaction(cursor, self.compiler)
        alone = len(jobs) == 1  # then the transaction itself is what an error rolls back
        for job in jobs:
            if not alone:
                cursor.execute("SAVEPOINT one")
            before = dict(transaction.deltas)
            try:
                job.result = job.operation(transaction)
            except Exception as error:
                if _is_of_the_file(error):
                    raise
                job.error = (
                    StoreError(f"store {self.file.path}: {error}")
                    if isinstance(error, sqlite3.Error)
                    else error
                )
                if alone:
                    cursor.execute("ROLLBACK")
                    return
                cursor.execute("ROLLBACK TO one")
                transaction.deltas = before
            if not alone:
                cursor.execute("RELEASE one")
        transaction.flush()
        cursor.execute("COMMIT")
        self._commits += 1

    def _connect(self) -> sqlite3.Connection:
        self._connection = self.file.connect(read_only=False)
        self._synchronous = ""
        return self._connection

    def _disconnect(self) -> None:
        if self._connection is not None:
            self._connection.close()  # rolls back what is open
            self._connection = None

    # --- the checkpointer's thread ------------------------------------------------------------

    def _checkpoint(self) -> None:
        """Copy the journal into the database beside the writer, which would otherwise pay for it
        inside some unlucky commit. The connection's own limit stays as the backstop."""
        seen = 0
        while not self._finished.wait(CHECKPOINT_EVERY_S):
            if seen == self._commits:
                continue
            seen = self._commits
            try:
                connection = self.file.connect(read_only=False)
                try:
                    connection.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchall()
                finally:
                    connection.close()
            except sqlite3.Error:
                continue  # a full disk: the writer meets it too, and reports it

    # --- the loop's thread --------------------------------------------------------------------

    @staticmethod
    def _tell(jobs: list[_Job]) -> None:
        for job in jobs:
            wanted = not job.future.done()  # done already: its caller was cancelled
            if job.error is None and job.then is not None:
                job.then(job.result, wanted)
            if not wanted:
                continue
            if job.error is not None:
                job.future.set_exception(job.error)
            else:
                job.future.set_result(job.result)


def _is_of_the_file(error: Exception) -> bool:
    """Whether the whole batch is lost (disk full, I/O, lock, corruption) and not one operation."""
    return isinstance(error, sqlite3.DatabaseError) and not (
        isinstance(error, sqlite3.IntegrityError | sqlite3.ProgrammingError | sqlite3.DataError)
        or getattr(error, "sqlite_errorcode", 0) == sqlite3.SQLITE_ERROR
    )
