"""What is known at the end: the store's rows, read past the daemons, and the sources' records."""

from __future__ import annotations

import hashlib
import sqlite3
import zlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson

SQLITE = "sqlite:///"

_ALERTS = "SELECT alert_id, entity, priority, status, accepted_at, attempts FROM alerts"
_DECISIONS = "SELECT alert_id, outcome, degraded, decided_at, body FROM decisions"
_BURIED = "SELECT count(*) FROM dead_letters WHERE alert_id IS NULL"


@dataclass(frozen=True, slots=True, kw_only=True)
class AlertRow:
    """Times are seconds since the epoch."""

    alert_id: str
    entity: str
    priority: int
    status: str
    accepted_at: float
    attempts: int


@dataclass(frozen=True, slots=True, kw_only=True)
class DecisionRow:
    """`sha256` is of the decision's document: what every message about it has to be. `failures` are
    the reasons of nodes that failed, in a degraded decision."""

    alert_id: str
    outcome: str
    degraded: bool
    decided_at: float
    sha256: str
    failures: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreRows:
    """`decisions` holds every row, in case there are two of an alert. `buried` are messages of
    streams that are dead letters without an alert."""

    alerts: Mapping[str, AlertRow]
    decisions: Sequence[DecisionRow]
    buried: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Ask:
    """One query of a replica's source for an alert's entity."""

    at: float
    replica: int
    entity: str


Asks = Mapping[str, Sequence[Ask]]
"""The queries for each entity, ascending."""


def read_store(url: str) -> StoreRows:
    """All rows that count, from an SQLite file or a PostgreSQL server."""
    with _connected(url) as connection:
        alerts = [
            AlertRow(
                alert_id=alert_id,
                entity=entity,
                priority=priority,
                status=status,
                accepted_at=accepted_at / 1e6,
                attempts=attempts,
            )
            for alert_id, entity, priority, status, accepted_at, attempts in _rows(
                connection, _ALERTS
            )
        ]
        decisions = [_decision(*row) for row in _rows(connection, _DECISIONS)]
        ((buried,),) = _rows(connection, _BURIED)
    return StoreRows(
        alerts={one.alert_id: one for one in alerts}, decisions=decisions, buried=buried
    )


def read_asks(records: Mapping[int, Path]) -> Asks:
    """`records` maps a replica to its source's record. A line that a kill cut off is left out."""
    asks: list[Ask] = []
    for replica, path in records.items():
        if not path.exists():
            continue
        for line in path.read_text().splitlines(keepends=True):
            at, _, entity = line.rstrip("\n").partition(" ")
            if line.endswith("\n") and entity:
                asks.append(Ask(at=float(at), replica=replica, entity=entity))
    found: dict[str, list[Ask]] = {}
    for ask in sorted(asks, key=lambda one: one.at):
        found.setdefault(ask.entity, []).append(ask)
    return found


def _decision(
    alert_id: str, outcome: str, degraded: int, decided_at: int, packed: bytes
) -> DecisionRow:
    body = zlib.decompress(packed)
    nodes = orjson.loads(body)["nodes"] if degraded else []
    return DecisionRow(
        alert_id=alert_id,
        outcome=outcome,
        degraded=bool(degraded),
        decided_at=decided_at / 1e6,
        sha256=hashlib.sha256(body).hexdigest(),
        failures=tuple(node["failure"]["reason"] for node in nodes if node["failure"]),
    )


def _rows(connection: Any, sql: str) -> Iterator[tuple[Any, ...]]:
    yield from connection.execute(sql).fetchall()


@contextmanager
def _connected(url: str) -> Iterator[Any]:
    """Either driver's connection: both take `execute(sql).fetchall()`."""
    if url.startswith(SQLITE):
        path = url.removeprefix(SQLITE)
        with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as connection:
            yield connection
        return
    import psycopg

    with psycopg.connect(url) as connection_of_postgres:
        yield connection_of_postgres
