"""One connection to PostgreSQL, as the store uses it."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Generator
from typing import Any, TypeVar

import psycopg
from psycopg.abc import PQGen
from psycopg.types.numeric import IntLoader
from psycopg.types.string import StrDumper

from triage.adapters.store.schema import COUNTER_NAMES, COUNTERS, insert_new
from triage.adapters.store.transaction import Compiler, Transaction
from triage.errors import ConfigError

T = TypeVar("T")

CONNECT_TIMEOUT_S = 3
IDLE_TIMEOUT_S = 5.0  # of a client inside a transaction: a process that was stopped holds locks
LOCK_TIMEOUT_S = 6.0  # above that, so that one that was stopped has been thrown out by then
STATEMENT_TIMEOUT_S = 8.0
ANSWER_TIMEOUT_S = 10.0  # and when not even those are kept
LATER_LOCK_TIMEOUT_MS = 50
SHARDS = 64  # of each counter, besides 0
_SHARD_CLASS = 0x74726961  # of the advisory locks that say which shards are taken
LOCKS_OF_ONE = 256  # names that a transaction locks one by one
_WAKE_S = 0.25  # how often a wait looks at its limit

_BEGIN = b"BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE"
_NOT_DURABLE = b"; SET LOCAL synchronous_commit = off"
_MARK = b"; SAVEPOINT one"
_NEXT = b"RELEASE one; SAVEPOINT one"
_SECOND = (
    f"RELEASE one; SET LOCAL lock_timeout = '{LATER_LOCK_TIMEOUT_MS}ms'; SAVEPOINT one".encode()
)
_BEGIN_READING = b"BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"
_CONFIGURE = b"""
SELECT set_config('statement_timeout', %(statement)s, false),
       set_config('lock_timeout', %(lock)s, false),
       set_config('idle_in_transaction_session_timeout', %(idle)s, false),
       -- A server whose default is off would not have what we call durable on its disk.
       set_config('synchronous_commit', CASE current_setting('synchronous_commit')
                  WHEN 'off' THEN 'on' ELSE current_setting('synchronous_commit') END, false),
       current_setting('server_encoding')
"""
_LOCK = b"SELECT pg_advisory_xact_lock(key) FROM unnest(%(keys)s::bigint[]) AS key"
_SHARE_AND_LOCK = b"SELECT pg_advisory_xact_lock_shared(%(all)s)::text UNION ALL " + _LOCK.replace(
    b"(key)", b"(key)::text"
)
_CLAIM_SHARD = b"""
SELECT shard FROM generate_series(1, %(last)s) AS shard
WHERE pg_try_advisory_lock(%(class)s, shard) LIMIT 1
"""
_NEW_COUNTER = insert_new(COUNTERS)


class BoundedConnection(psycopg.Connection[Any]):
    """One that waits for no answer longer than `patience_s`: what waits is told that the
    connection is lost. `statement_timeout` alone would leave us to a server that is stopped."""

    patience_s: float = ANSWER_TIMEOUT_S

    def wait(self, gen: PQGen[T], interval: float = _WAKE_S) -> T:  # type: ignore[override]
        return super().wait(self._bounded(gen), interval=interval)

    def _bounded(self, gen: PQGen[T]) -> Generator[Any, Any, T]:
        ends = time.monotonic() + self.patience_s
        try:
            wanted = next(gen)
            while True:
                ready = yield wanted
                if not ready and time.monotonic() > ends:
                    raise psycopg.OperationalError(
                        f"the server has not answered for {self.patience_s:g} s"
                    )
                wanted = gen.send(ready)
        except StopIteration as ended:
            result: T = ended.value
            return result


class _SearchedText(StrDumper):
    """Text to look for: with NUL it can be nowhere, and is no error."""

    def dump(self, obj: str) -> Any:
        return super().dump(obj.replace("\0", "\ufffd"))


def configure(connection: psycopg.Connection[Any]) -> None:
    """Raises ConfigError for a database that cannot hold every text."""
    row = connection.execute(
        _CONFIGURE,
        {
            "statement": f"{STATEMENT_TIMEOUT_S:.0f}s",
            "lock": f"{LOCK_TIMEOUT_S:.0f}s",
            "idle": f"{IDLE_TIMEOUT_S:.0f}s",
        },
    ).fetchone()
    assert row is not None
    if row[-1] != "UTF8":
        raise ConfigError(
            f"the database's encoding is {row[-1]}: make one with ENCODING 'UTF8' for the store"
        )
    # A sum of integers is one, as on SQLite.
    connection.adapters.register_loader("numeric", IntLoader)


class PostgresSession:
    """See `Session`.

    Each writer has a shard of the counters to itself while its connection lives: an advisory lock
    of the session on the shard's number, which the server lets go with the session, however that
    ends. Rows of a shard stay and are taken up by its next owner, so there are at most SHARDS of
    each. Who finds all taken shares 0, which is as true and only slower.
    """

    def __init__(self, connection: BoundedConnection, compiler: Compiler, *, writes: bool) -> None:
        self._connection = connection
        self._compiler = compiler
        self._shard = 0
        self._is_marked = False
        self._waits_briefly = False
        configure(connection)
        if not writes:
            connection.adapters.register_dumper(str, _SearchedText)
        self._cursor = connection.cursor()
        if writes:
            self._shard = self._claim_shard()

    def begin(self, *, durable: bool, several: bool) -> Transaction:
        text = _BEGIN + (b"" if durable else _NOT_DURABLE) + (_MARK if several else b"")
        self._execute(text)
        self._is_marked, self._waits_briefly = False, False
        return PostgresTransaction(self._cursor, self._compiler, self._shard)

    def begin_reading(self, *, patience_s: float | None) -> Transaction:
        text = _BEGIN_READING
        self._connection.patience_s = ANSWER_TIMEOUT_S
        if patience_s is not None:
            text += f"; SET LOCAL statement_timeout = '{patience_s:.0f}s'".encode()
            self._connection.patience_s = patience_s + ANSWER_TIMEOUT_S - STATEMENT_TIMEOUT_S
        self._execute(text)
        return PostgresTransaction(self._cursor, self._compiler)

    def next_operation(self, _transaction: Transaction) -> None:
        """Only the first of a batch may wait for others' locks. One that did while it holds those
        of the operations before it could wait in a circle, which the server finds after a second;
        now it ends in LATER_LOCK_TIMEOUT_MS, they are committed, and it is the first next time."""
        if not self._is_marked:
            self._is_marked = True  # `begin` did that
            return
        self._execute(_NEXT if self._waits_briefly else _SECOND)
        self._waits_briefly = True

    def undo_operation(self, transaction: Transaction) -> None:
        self._execute(b"ROLLBACK TO one")
        assert isinstance(transaction, PostgresTransaction)
        transaction.forget_locks()

    def commit(self, _transaction: Transaction) -> None:
        self._execute(b"COMMIT")
        if self._cursor.statusmessage != "COMMIT":
            # So it answers for a transaction that had failed before.
            raise psycopg.InternalError("the transaction was not committed")

    def end_reading(self) -> None:
        # Not ROLLBACK: the driver would forget its prepared statements.
        self._execute(b"COMMIT")

    def rollback(self) -> None:
        self._execute(b"ROLLBACK")

    def close(self) -> None:
        self._connection.close()

    def _execute(self, text: bytes) -> None:
        self._cursor.execute(text, prepare=False)

    def _claim_shard(self) -> int:
        found = self._cursor.execute(
            _CLAIM_SHARD, {"class": _SHARD_CLASS, "last": SHARDS}
        ).fetchone()
        if found is None:
            return 0
        Transaction(self._cursor, self._compiler).run_each(
            _NEW_COUNTER, [{"name": name, "shard": found[0], "value": 0} for name in COUNTER_NAMES]
        )
        return int(found[0])


class PostgresTransaction(Transaction):
    """One that other processes' transactions run beside."""

    __slots__ = ("_held",)

    def __init__(self, cursor: Any, compiler: Compiler, shard: int = 0) -> None:
        super().__init__(cursor, compiler, shard)
        self._held: set[int] = set()

    def lock(self, *names: str) -> None:
        """In one order, so that two operations never wait for each other. The server has room for
        some thousand locks in all, and a request may be of thousands of alerts: above LOCKS_OF_ONE
        names a transaction locks everything instead, which each of the others shares."""
        keys = sorted({_key(name) for name in names} - self._held)
        if not keys or _EVERYTHING in self._held:
            return
        if len(self._held) + len(keys) > LOCKS_OF_ONE:
            keys = [_EVERYTHING]
        if self._held or keys == [_EVERYTHING]:
            self._cursor.execute(_LOCK, {"keys": keys})
        else:
            self._cursor.execute(_SHARE_AND_LOCK, {"all": _EVERYTHING, "keys": keys})
        self._held.update(keys)

    def forget_locks(self) -> None:
        """Some were let go with what was undone: take all anew. It costs a statement, no more."""
        self._held.clear()


def _key(name: str) -> int:
    digest = hashlib.blake2b(name.encode(), digest_size=8).digest()
    return int.from_bytes(digest, "big", signed=True)


_EVERYTHING = _key("\0everything")  # no name of an alert has a NUL
