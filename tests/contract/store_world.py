"""Alerts, decisions and a clock for the tests of stores and queues."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

from triage.adapters.store import migrate
from triage.model.alert import AlertId, Arrival, ArrivalKind, Severity
from triage.model.decision import (
    Decision,
    NodeId,
    NodeKind,
    NodeResult,
    Outcome,
    Pinned,
)
from triage.model.verdict import Truth, Verdict

START = datetime(2026, 3, 1, 12, tzinfo=UTC)


@dataclass(slots=True)
class HandClock:
    """Moves only when told to."""

    at: datetime = START

    def now(self) -> datetime:
        return self.at

    def monotonic(self) -> float:
        return (self.at - START).total_seconds()

    def advance(self, seconds: float) -> None:
        self.at += timedelta(seconds=seconds)


def arrival(
    fingerprint: str = "f",
    *,
    kind: ArrivalKind = ArrivalKind.FIRING,
    starts_at_ns: int | None = 1,
    observed_at: datetime | None = None,
    delivery_key: str = "",
    severity: Severity = Severity.WARNING,
    tenant: str = "",
    fired_at: datetime = START,
    event: str = "",
    ends_open_occurrences: bool = False,
    alarm: str = "al_queue",
    site: str = "north",
) -> Arrival:
    return Arrival(
        kind=kind,
        integration="alertmanager",
        tenant=tenant,
        fingerprint=fingerprint,
        starts_at_ns=starts_at_ns,
        observed_at=observed_at,
        delivery_key=delivery_key,
        alarm=alarm,
        site=site,
        entity="unit-7",
        severity=severity,
        fired_at=fired_at,
        labels={"job": "über"},
        annotations={"summary": "a\nb"},
        raw=b'{"raw":true}',
        event=event,
        ends_open_occurrences=ends_open_occurrences,
    )


def resolve(
    fingerprint: str = "f",
    *,
    starts_at_ns: int | None = 1,
    observed_at: datetime | None = None,
    delivery_key: str = "",
) -> Arrival:
    return arrival(
        fingerprint,
        kind=ArrivalKind.RESOLVED,
        starts_at_ns=starts_at_ns,
        observed_at=observed_at,
        delivery_key=delivery_key,
    )


def decision(
    alert_id: AlertId,
    outcome: Outcome = Outcome.NO_FAULT,
    *,
    alarm: str = "al_queue",
    site: str = "north",
) -> Decision:
    return Decision(
        alert_id=alert_id,
        alarm=alarm,
        site=site,
        entity="unit-7",
        outcome=outcome,
        nodes=(
            NodeResult(
                node=NodeId("obs_queue"),
                kind=NodeKind.OBSERVATION,
                layer=0,
                verdict=Verdict(value=Truth.FALSE, explanation="three waiting"),
            ),
        ),
        pinned=Pinned(
            sop="sop", sop_version=1, sop_sha256="a", sites_sha256="b", library_sha256="c"
        ),
        fired_at=START,
        accepted_at=START,
        evaluated_at=START,
        decision_sha256="0" * 64,
    )


@cache
def _migrated() -> bytes:
    with TemporaryDirectory() as directory:
        path = Path(directory) / "template.db"
        migrate.upgrade(path)
        return path.read_bytes()


def migrated(path: Path) -> Path:
    """An empty database at `path`; migrating one for each test would cost most of the time."""
    path.write_bytes(_migrated())
    return path
