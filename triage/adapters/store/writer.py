"""Group commit: one thread, one connection, one transaction for everything that is waiting.

Nobody waits for a batch to fill: the writer takes what has queued up while it was busy, so one
operation alone is committed at once, and two hundred at once share one fsync.

Where other processes write too, an operation may meet one of theirs. It is then undone, what came
before it in the batch is committed, and it is done again alone, a few times with a little chance
between them.
"""

from __future__ import annotations

import asyncio
import queue
import random
import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Generic, Protocol, TypeVar

from triage.adapters.store.database import Database, Dialer, Fault, Session
from triage.adapters.store.transaction import Compiler, Transaction
from triage.errors import StoreError

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)

TRIES = 6  # of an operation that meets others
TRIES_WITHIN_S = 10.0
LONGEST_PAUSE_S = 0.02  # before a second try; it grows with each


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


@dataclass(slots=True, eq=False)
class _Job:
    operation: Operation[Any]
    durable: bool
    future: asyncio.Future[Any]
    then: Callable[[Any, bool], None] | None
    in_background: bool = False
    result: Any = None
    error: BaseException | None = None
    is_prepared: bool = False
    conflicts: int = 0
    tried_until: float = 0.0

    def may_try_again(self) -> bool:
        now = time.monotonic()
        self.conflicts += 1
        self.tried_until = self.tried_until or now + TRIES_WITHIN_S
        return self.conflicts < TRIES and now < self.tried_until


@dataclass(slots=True)
class Writer:
    """`trouble` is what kept the last batch from being committed, empty after one that was.
    `under_way` are the operations that were submitted and have not ended, but for those in the
    background; it belongs to the loop's thread."""

    database: Database
    compiler: Compiler
    trouble: str = ""
    under_way: int = 0
    _loop: asyncio.AbstractEventLoop | None = None
    _jobs: queue.SimpleQueue[_Job | None] = field(default_factory=queue.SimpleQueue)
    _left: deque[_Job] = field(default_factory=deque)
    _dial: Dialer | None = None
    _session: Session | None = None
    _closed: bool = True
    _ending: bool = False
    _threads: list[threading.Thread] = field(default_factory=list)
    _finished: threading.Event = field(default_factory=threading.Event)
    _commits: int = 0

    async def start(self) -> None:
        """Raises the driver's error when the database cannot be opened."""
        self._loop = asyncio.get_running_loop()
        self._dial = self.database.dialer(self.compiler, writes=True)
        self._session = await asyncio.to_thread(self._dial, first=True)
        self._closed = False
        # Daemon threads: a process that forgets `close` must still be able to end.
        self._threads = [
            threading.Thread(
                target=self._serve, args=(self._loop,), name="store-writer", daemon=True
            )
        ]
        if self.database.checkpoint_every_s is not None:
            self._threads.append(
                threading.Thread(
                    target=self._checkpoint,
                    args=(self.database.checkpoint_every_s,),
                    name="store-checkpoint",
                    daemon=True,
                )
            )
        for thread in self._threads:
            thread.start()

    async def run(
        self,
        operation: Operation[T],
        *,
        durable: bool,
        then: Callable[[T, bool], None] | None = None,
        background: bool = False,
    ) -> T:
        """Run one operation; when this returns it is committed, and on disk when `durable`. In the
        `background` it is no reason for anybody to wait.

        Raises StoreError when the database could not be written, and whatever the operation
        raised; either way it left no trace, unless the server went away in the very commit: then
        nobody knows, so what is asked for again must be found done. A cancelled call stops
        waiting, the operation goes on: `then(result, wanted)` runs on the loop after the commit in
        both cases.
        """
        if self._closed or self._loop is None:
            raise StoreError(f"store {self.database.label} is not open for writing")
        future: asyncio.Future[T] = self._loop.create_future()
        self._submit(
            _Job(
                operation=operation,
                durable=durable,
                future=future,
                then=then,
                in_background=background,
            )
        )
        return await future

    def send(self, operation: Operation[T], *, then: Callable[[T, bool], None]) -> None:
        """As `run`, not durable, with nobody waiting: a failure has no consequence. Nothing
        happens after `close`."""
        if self._closed or self._loop is None:
            return
        future: asyncio.Future[T] = self._loop.create_future()
        future.add_done_callback(lambda done: done.exception())
        self._submit(_Job(operation=operation, durable=False, future=future, then=then))

    def _submit(self, job: _Job) -> None:
        self.under_way += not job.in_background
        self._jobs.put(job)

    async def close(self) -> None:
        """Finish what was submitted, then let go of the database. Idempotent."""
        if self._closed:
            return
        self._closed = True
        self._jobs.put(None)
        self._finished.set()
        for thread in self._threads:
            await asyncio.to_thread(thread.join)

    # --- the writer's thread ------------------------------------------------------------------

    def _serve(self, loop: asyncio.AbstractEventLoop) -> None:
        while self._left or not self._ending:
            jobs = self._take()
            if not jobs:
                continue
            settled = self._attempt(jobs)
            try:
                loop.call_soon_threadsafe(self._tell, settled)
            except RuntimeError:  # the loop was closed under us: there is nobody left to tell
                break
        self._disconnect()
        if self._dial is not None:
            self._dial.close()

    def _take(self) -> list[_Job]:
        """What is waiting, the left-over first. One that has met others comes alone."""
        jobs: list[_Job] = []
        if self._left and self._left[0].conflicts:
            return [self._left.popleft()]
        limit = self.database.batch_limit
        while self._left and not self._left[0].conflicts and len(jobs) < limit:
            jobs.append(self._left.popleft())
        while len(jobs) < limit and not self._ending:
            try:
                job = self._jobs.get_nowait() if jobs else self._jobs.get()
            except queue.Empty:
                break
            if job is None:
                self._ending = True
            else:
                jobs.append(job)
        return jobs

    def _attempt(self, jobs: list[_Job]) -> list[_Job]:
        """Those that are done with, well or ill; the others are left for the next batch."""
        ready = [job for job in jobs if job.is_prepared or self._prepare(job)]
        if not ready:
            return jobs
        left: list[_Job] = []
        try:
            left = self._commit(self._begun(ready), ready)
            self.trouble = ""
        except Exception as error:  # noqa: BLE001 - whoever waits gets it, the thread lives on
            # After a failed write or fsync nothing is known about the connection: a new one
            # reads what the database really holds.
            self._disconnect()
            match self.database.fault_of(error):
                case Fault.FOREIGN:  # a bug
                    failure: Exception = error
                case Fault.CONFLICT:
                    # In the counters or the commit itself: nobody knows whose it was.
                    left = [job for job in ready if job.error is None and job.may_try_again()]
                    failure = StoreError(self._told(error))
                case _:
                    self.trouble = self._told(error)
                    failure = StoreError(self.trouble)
            for job in ready:
                if job not in left:
                    job.error = job.error or failure
        self._left.extendleft(reversed(left))
        return [job for job in jobs if job not in left] if left else jobs

    def _prepare(self, job: _Job) -> bool:
        try:
            job.operation.prepare()
        except Exception as error:  # noqa: BLE001 - it is the caller's, who gets it
            job.error = error
        else:
            job.is_prepared = True
        return job.is_prepared

    def _begun(self, jobs: list[_Job]) -> Transaction:
        durable, several = any(job.durable for job in jobs), len(jobs) > 1
        if self._session is not None:
            try:
                return self._session.begin(durable=durable, several=several)
            except Exception as error:
                is_stale = self.database.fault_of(error) is Fault.LOST
                if not (is_stale and self.database.shared):
                    raise
                # The server was restarted while nobody asked it anything: nothing is lost yet.
                self._disconnect()
        assert self._dial is not None
        self._session = self._dial()
        return self._session.begin(durable=durable, several=several)

    def _commit(self, transaction: Transaction, jobs: list[_Job]) -> list[_Job]:
        """Those that are left, because the first of them met another process."""
        session = self._session
        assert session is not None
        several = len(jobs) > 1  # else the transaction itself is what an error rolls back
        for index, job in enumerate(jobs):
            if several:
                session.next_operation(transaction)
            before = dict(transaction.deltas)
            try:
                job.result = job.operation(transaction)
            except Exception as error:
                fault = self.database.fault_of(error)
                if fault is Fault.LOST:
                    raise
                if several:
                    session.undo_operation(transaction)
                    transaction.deltas = before
                else:
                    session.rollback()
                is_left = fault is Fault.CONFLICT and job.may_try_again()
                if is_left and index:
                    self._finish(session, transaction)
                    return jobs[index:]
                if is_left:
                    if several:
                        session.rollback()
                    # Those that met here must not meet again at once.
                    self._finished.wait(random.uniform(0, job.conflicts * LONGEST_PAUSE_S))
                    return jobs
                job.error = error if fault is Fault.FOREIGN else StoreError(self._told(error))
                if not several:
                    return []
        self._finish(session, transaction)
        return []

    def _finish(self, session: Session, transaction: Transaction) -> None:
        transaction.flush()
        session.commit(transaction)
        self._commits += 1

    def _told(self, error: BaseException) -> str:
        return f"store {self.database.label}: {self.database.told(error)}"

    def _disconnect(self) -> None:
        if self._session is not None:
            self._session.close()
            self._session = None

    # --- the checkpointer's thread ------------------------------------------------------------

    def _checkpoint(self, every_s: float) -> None:
        """Copy the journal into the database beside the writer, which would otherwise pay for it
        inside some unlucky commit. The connection's own limit stays as the backstop."""
        seen = 0
        while not self._finished.wait(every_s):
            if seen != self._commits:
                seen = self._commits
                self.database.checkpoint()

    # --- the loop's thread --------------------------------------------------------------------

    def _tell(self, jobs: list[_Job]) -> None:
        self.under_way -= sum(not job.in_background for job in jobs)
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
