"""Alerts, and what arrives about them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import Enum, StrEnum
from typing import NewType

from triage.model.canonical import canonical_json, sha256_hex

AlertId = NewType("AlertId", str)

ALERT_ID_LENGTH = 32  # hex characters: 128 bits, no collision to fear at any number of alerts


class Severity(StrEnum):
    """Ordered from most to least urgent; UNKNOWN is served like WARNING."""

    CRITICAL = "critical"
    ERROR = "error"
    WARNING = "warning"
    INFO = "info"
    UNKNOWN = "unknown"

    @property
    def priority(self) -> int:
        """0 is served first."""
        return _PRIORITY[self]


_PRIORITY = {
    Severity.CRITICAL: 0,
    Severity.ERROR: 1,
    Severity.WARNING: 2,
    Severity.UNKNOWN: 2,
    Severity.INFO: 3,
}
PRIORITY_NAMES = ("critical", "error", "warning", "info")
"""What each priority is called where queues and metrics name it."""


class ArrivalKind(Enum):
    """FIRING opens or repeats an occurrence, RESOLVED ends one, EVENT is only recorded."""

    FIRING = "firing"
    RESOLVED = "resolved"
    EVENT = "event"


@dataclass(frozen=True, slots=True, kw_only=True)
class Arrival:
    """One alert, resolve or event as one payload format told it.

    Identity is (integration, tenant, fingerprint, starts_at_ns). `starts_at_ns` is nanoseconds
    since the epoch, or None for a format whose occurrences have no start of their own: then the
    store counts episodes of (integration, tenant, fingerprint).

    `observed_at` is the sender's own timestamp of this message, where it has one: it decides
    whether a trigger that arrives after a resolve belongs before it. `delivery_key` names this
    message, so that the same message sent again changes nothing; empty when the format gives
    nothing to tell a re-send by. `fired_at` is aware UTC. `raw` is the sender's document for
    this one alert, as JSON.
    """

    kind: ArrivalKind
    integration: str
    tenant: str
    fingerprint: str
    starts_at_ns: int | None
    observed_at: datetime | None = None
    delivery_key: str = ""
    alarm: str
    site: str
    entity: str
    severity: Severity
    fired_at: datetime
    labels: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)
    raw: bytes = b"{}"
    event: str = ""
    """For EVENT: acknowledge, ok, insufficient_data, truncated, rejected, …"""
    ends_open_occurrences: bool = False
    """For EVENT: the condition is over, so open occurrences of the fingerprint are resolved;
    unlike RESOLVED it opens none (CloudWatch's OK)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Alert:
    """One firing occurrence, as accepted. All datetimes are aware UTC.

    `resolved_at` is when a resolve of this occurrence became durable, None while it fires.
    `unmatched_resolve` marks an occurrence of which only the resolve ever came. `coalesced_into`
    is the occurrence of the same fingerprint shortly before, whose decision is this one's too.
    """

    alert_id: AlertId
    integration: str
    tenant: str
    fingerprint: str
    alarm: str
    site: str
    entity: str
    severity: Severity
    fired_at: datetime
    accepted_at: datetime
    labels: Mapping[str, str]
    annotations: Mapping[str, str]
    resolved_at: datetime | None = None
    unmatched_resolve: bool = False
    coalesced_into: AlertId | None = None


class AcceptStatus(StrEnum):
    """What an arrival turned out to be. Only NEW makes work for the queue."""

    NEW = "new"
    KNOWN = "known"
    RESOLVED = "resolved"
    RECORDED = "recorded"
    DUPLICATE = "duplicate"


@dataclass(frozen=True, slots=True, kw_only=True)
class Accepted:
    """The store's answer to one arrival, durable when returned. `alert_id` is None for events."""

    alert_id: AlertId | None
    status: AcceptStatus
    severity: Severity = Severity.UNKNOWN


def occurrence_id(integration: str, tenant: str, fingerprint: str, starts_at_ns: int) -> AlertId:
    """Identity of an occurrence whose start the sender states."""
    return _digest_id("at", integration, tenant, fingerprint, str(starts_at_ns))


def episode_id(integration: str, tenant: str, fingerprint: str, episode: int) -> AlertId:
    """Identity of the `episode`-th (from 1) occurrence of a key that states no start."""
    return _digest_id("episode", integration, tenant, fingerprint, str(episode))


def _digest_id(*parts: str) -> AlertId:
    return AlertId(sha256_hex(canonical_json(list(parts)))[:ALERT_ID_LENGTH])
