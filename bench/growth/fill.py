"""A store as a long time of serving leaves it, made in minutes.

The rows are those that accepting, deciding and delivering each specimen through the ports would
leave; a test compares them column by column. Made this way they cost a tenth, because a decision's
document is a form that is filled in, and nothing is synced.
"""

from __future__ import annotations

import multiprocessing
import sqlite3
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from contextlib import closing
from dataclasses import dataclass
from itertools import starmap
from pathlib import Path
from typing import Any

import orjson
from sqlalchemy import Table

from bench.growth.forms import form_of
from bench.growth.specimen import SINK, STORM, Identity, answers, arrival, identity, message_key
from triage.adapters.store import migrate
from triage.adapters.store.evidence import pack
from triage.adapters.store.schema import ALERTS, DECISIONS, EVIDENCE, OUTBOX, to_us
from triage.adapters.store.store import LEASE_S, SWEEP_S

CHUNK = 1000 * STORM  # decisions in one transaction, and one piece of a maker's work
MAKERS = 2  # processes
AHEAD = 4  # pieces that are made before they are written
CACHE_KIB = 1 << 19
HELD_US = round((LEASE_S + SWEEP_S) * 1e6)  # the sweeper leaves an alert that was begun so long

Row = tuple[Any, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Rows:
    """Of some decisions: each row in the order of its table's columns."""

    alerts: list[Row]
    decisions: list[Row]
    evidence: list[Row]
    outbox: list[Row]


@dataclass(frozen=True, slots=True, kw_only=True)
class Filled:
    """`evidence` counts bodies."""

    seconds: float
    file_bytes: int
    evidence: int


def fill(path: Path, decisions: int, progress: Callable[[int, int], None]) -> Filled:
    """Makes the database at `path` with that many decisions. `progress` is told how many are in."""
    began = time.monotonic()
    migrate.upgrade(path)
    kept = kept_bytes = done = 0
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        # Nobody reads it before it is whole; a bench that was interrupted begins anew.
        for pragma in ("journal_mode=OFF", "synchronous=OFF", f"cache_size=-{CACHE_KIB}"):
            connection.execute(f"PRAGMA {pragma}").fetchall()
        for rows in _made(decisions):
            connection.execute("BEGIN")
            _insert(connection, ALERTS, rows.alerts)
            _insert(connection, DECISIONS, rows.decisions)
            _insert(connection, EVIDENCE, rows.evidence)
            _insert(connection, OUTBOX, rows.outbox)
            connection.execute("COMMIT")
            done += len(rows.decisions)
            kept += len(rows.evidence)
            kept_bytes += sum(size for _, _, size, *_ in rows.evidence)
            progress(done, decisions)
        counted = {"accepted": decisions, "decided": decisions, "evidence_bytes": kept_bytes}
        connection.executemany(
            "UPDATE counters SET value = ? WHERE name = ?",
            [(value, name) for name, value in counted.items()],
        )
    return Filled(seconds=time.monotonic() - began, file_bytes=path.stat().st_size, evidence=kept)


def rows_of(first: int, end: int, of: int) -> Rows:
    """Of the specimens from `first`, which begins a storm, up to `end`, in a store of `of`."""
    rows = Rows(alerts=[], decisions=[], evidence=[], outbox=[])
    kept: set[str] = set()
    for n in range(first, end):
        if n % STORM == 0:
            kept.clear()
        one = identity(n, of)
        decided_at = to_us(one.decided_at)
        digests = []
        for digest, body in answers(one):
            digests.append(digest)
            if digest not in kept:
                kept.add(digest)
                packed = pack(body)
                rows.evidence.append((digest, packed, len(packed), decided_at, decided_at))
        rows.alerts.append(_alert(one))
        rows.decisions.append(_decision(one, digests, decided_at))
        rows.outbox.append(_delivered(n, one, decided_at))
    return rows


def _alert(one: Identity) -> Row:
    told = arrival(one)
    return (
        one.alert_id,
        told.integration,
        told.tenant,
        told.fingerprint,
        str(told.starts_at_ns),
        None,  # episode: the sender states its start
        told.alarm,
        told.site,
        told.entity,
        told.severity.value,
        told.severity.priority,
        to_us(told.fired_at),
        to_us(one.accepted_at),
        orjson.dumps(told.labels).decode(),
        orjson.dumps(told.annotations).decode(),
        told.raw,
        "decided",
        1,  # attempts
        None,  # resolved_at
        0,  # unmatched_resolve
        to_us(one.accepted_at) + HELD_US,  # wake_at: begun at once
        to_us(one.accepted_at),  # seen_at
        None,  # coalesced_into
    )


def _decision(one: Identity, digests: Sequence[str], decided_at: int) -> Row:
    filled = form_of(one.outcome).fill(one, digests)
    return (
        one.alert_id,
        one.outcome.value,
        0,  # degraded
        one.alarm,
        one.site,
        one.entity,
        filled.decision_sha256,
        decided_at,
        filled.head,
        pack(filled.document),
    )


def _delivered(n: int, one: Identity, decided_at: int) -> Row:
    key = message_key(one)
    return (n + 1, SINK, key, one.alert_id, b"", 1, decided_at, decided_at, "delivered", "")


def _made(decisions: int) -> Iterator[Rows]:
    """In order; by several processes when there is more than one piece."""
    pieces = [
        (first, min(first + CHUNK, decisions), decisions) for first in range(0, decisions, CHUNK)
    ]
    if len(pieces) == 1:
        yield from starmap(rows_of, pieces)
        return
    with ProcessPoolExecutor(MAKERS, mp_context=multiprocessing.get_context("spawn")) as makers:
        waiting: deque[Future[Rows]] = deque()
        try:
            for piece in pieces:
                waiting.append(makers.submit(rows_of, *piece))
                if len(waiting) == AHEAD:
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()
        finally:
            makers.shutdown(wait=False, cancel_futures=True)


def _insert(connection: sqlite3.Connection, table: Table, rows: Sequence[Row]) -> None:
    names = [f'"{column.name}"' for column in table.columns]
    connection.executemany(
        f"INSERT INTO {table.name} ({', '.join(names)})"  # noqa: S608 - the schema's own names
        f" VALUES ({', '.join('?' * len(names))})",
        rows,
    )
