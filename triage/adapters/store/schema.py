"""The tables, once: queries, migrations and the test that compares the two all read this.

Portable on purpose: text, integers and bytes only, so that a value needs no conversion on the way
to a driver. Text sorts by its bytes everywhere, as pages and prefixes want it. Times are integer
microseconds since the epoch, UTC; JSON is text; flags are 0 or 1. `starts_at_ns` is text because a
sender may state a start that no 64-bit nanosecond count holds.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from sqlalchemy import (
    BigInteger,
    Column,
    Index,
    Insert,
    Integer,
    LargeBinary,
    MetaData,
    SmallInteger,
    Table,
    Text,
    UniqueConstraint,
)
from sqlalchemy.dialects.postgresql import insert as upsert

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)

METADATA = MetaData()

_ROW_ID = BigInteger().with_variant(Integer, "sqlite")
_TEXT = Text().with_variant(Text(collation="C"), "postgresql")

ALERTS = Table(
    "alerts",
    METADATA,
    Column("alert_id", _TEXT, primary_key=True),
    Column("integration", _TEXT, nullable=False),
    Column("tenant", _TEXT, nullable=False),
    Column("fingerprint", _TEXT, nullable=False),
    Column("starts_at_ns", _TEXT),
    Column("episode", Integer),
    Column("alarm", _TEXT, nullable=False),
    Column("site", _TEXT, nullable=False),
    Column("entity", _TEXT, nullable=False),
    Column("severity", _TEXT, nullable=False),
    Column("priority", SmallInteger, nullable=False),
    Column("fired_at", BigInteger, nullable=False),
    Column("accepted_at", BigInteger, nullable=False),
    Column("labels", _TEXT, nullable=False),
    Column("annotations", _TEXT, nullable=False),
    Column("raw", LargeBinary, nullable=False),
    Column("status", _TEXT, nullable=False),
    Column("attempts", Integer, nullable=False),
    Column("resolved_at", BigInteger),
    Column("unmatched_resolve", SmallInteger, nullable=False),
    Column("wake_at", BigInteger, nullable=False, server_default="0"),
    Column("seen_at", BigInteger, nullable=False, server_default="0"),
    Column("coalesced_into", _TEXT),
    Index("ix_alerts_status_accepted_at", "status", "accepted_at"),
    Index("ix_alerts_key", "integration", "tenant", "fingerprint", "accepted_at"),
)
_IS_PENDING = ALERTS.c.status == "pending"
_IS_COALESCED = ALERTS.c.coalesced_into.is_not(None)
Index("ix_alerts_wake_at", ALERTS.c.wake_at, sqlite_where=_IS_PENDING, postgresql_where=_IS_PENDING)
Index(
    "ix_alerts_coalesced_into",
    ALERTS.c.coalesced_into,
    sqlite_where=_IS_COALESCED,
    postgresql_where=_IS_COALESCED,
)
"""`wake_at`: when the sweeper publishes it again, if it is still pending. `seen_at`: when a sender
last spoke of it, to the day."""

DELIVERIES = Table(
    "deliveries",
    METADATA,
    Column("integration", _TEXT, primary_key=True),
    Column("tenant", _TEXT, primary_key=True),
    Column("delivery_key", _TEXT, primary_key=True),
    Column("alert_id", _TEXT),
    Column("at", BigInteger, nullable=False),
    Index("ix_deliveries_at", "at"),
)

EPISODES = Table(
    "episodes",
    METADATA,
    Column("integration", _TEXT, primary_key=True),
    Column("tenant", _TEXT, primary_key=True),
    Column("fingerprint", _TEXT, primary_key=True),
    Column("episode", Integer, nullable=False),
    Column("open", SmallInteger, nullable=False),
    Column("resolved_at", BigInteger),
)
"""`resolved_at` is the sender's time of the last resolve, kept while the next episode is open."""

EVENTS = Table(
    "events",
    METADATA,
    Column("id", _ROW_ID, primary_key=True, autoincrement=True),
    Column("event", _TEXT, nullable=False),
    Column("integration", _TEXT, nullable=False),
    Column("tenant", _TEXT, nullable=False),
    Column("fingerprint", _TEXT, nullable=False),
    Column("alert_id", _TEXT),
    Column("at", BigInteger, nullable=False),
    Column("raw", LargeBinary, nullable=False),
    Index("ix_events_at", "at"),
)

DECISIONS = Table(
    "decisions",
    METADATA,
    Column("alert_id", _TEXT, primary_key=True),
    Column("outcome", _TEXT, nullable=False),
    Column("degraded", SmallInteger, nullable=False),
    Column("alarm", _TEXT, nullable=False),
    Column("site", _TEXT, nullable=False),
    Column("entity", _TEXT, nullable=False),
    Column("decision_sha256", _TEXT, nullable=False),
    Column("decided_at", BigInteger, nullable=False),
    Column("head", _TEXT, nullable=False),
    Column("body", LargeBinary, nullable=False),
    Index("ix_decisions_decided_at", "decided_at", "alert_id"),
    Index("ix_decisions_outcome", "outcome", "decided_at", "alert_id"),
    Index("ix_decisions_alarm", "alarm", "decided_at", "alert_id"),
    Index("ix_decisions_site", "site", "decided_at", "alert_id"),
)

EVIDENCE = Table(
    "evidence",
    METADATA,
    Column("answer_sha256", _TEXT, primary_key=True),
    Column("body", LargeBinary, nullable=False),
    Column("size", BigInteger, nullable=False),
    Column("stored_at", BigInteger, nullable=False),
    Column("last_used_at", BigInteger, nullable=False),
    Index("ix_evidence_last_used_at", "last_used_at"),
)
"""`size` is bytes as stored, compressed: what the limit on the whole is about."""

OUTBOX = Table(
    "outbox",
    METADATA,
    Column("row", _ROW_ID, primary_key=True, autoincrement=True),
    Column("sink", _TEXT, nullable=False),
    Column("key", _TEXT, nullable=False),
    Column("alert_id", _TEXT, nullable=False),
    Column("body", LargeBinary, nullable=False),
    Column("attempts", Integer, nullable=False),
    Column("posted_at", BigInteger, nullable=False),
    Column("due_at", BigInteger, nullable=False),
    Column("state", _TEXT, nullable=False),
    Column("error", _TEXT, nullable=False),
    UniqueConstraint("sink", "key", name="uq_outbox_sink_key"),
    Index("ix_outbox_due", "sink", "state", "due_at"),
    Index("ix_outbox_alert_id", "alert_id"),
)

COUNTERS = Table(
    "counters",
    METADATA,
    Column("name", _TEXT, primary_key=True),
    Column("shard", SmallInteger, primary_key=True),
    Column("value", BigInteger, nullable=False),
)
"""A count is the sum of its shards. Where several processes write, each has a shard of its own:
one row would be locked by each of them until its commit is on disk."""

DEAD_LETTERS = Table(
    "dead_letters",
    METADATA,
    Column("dead_letter_id", _TEXT, primary_key=True),
    Column("alert_id", _TEXT),
    Column("stream", _TEXT, nullable=False),
    Column("format", _TEXT, nullable=False),
    Column("payload", LargeBinary, nullable=False),
    Column("headers", _TEXT, nullable=False),
    Column("reason", _TEXT, nullable=False),
    Column("detail", _TEXT, nullable=False),
    Column("attempts", Integer, nullable=False),
    Column("at", BigInteger, nullable=False),
    Index("ix_dead_letters_at", "at", "dead_letter_id"),
    Index("ix_dead_letters_alert_id", "alert_id"),
)
"""Of an alert the id is the alert's, and the payload is in its own row."""

QUEUE = Table(
    "queue",
    METADATA,
    Column("seq", _ROW_ID, primary_key=True, autoincrement=True),
    Column("alert_id", _TEXT, nullable=False, unique=True),
    Column("priority", SmallInteger, nullable=False),
    Column("published_at", BigInteger, nullable=False),
    Column("available_at", BigInteger, nullable=False),
    Column("token", _TEXT),
    Index("ix_queue_order", "priority", "seq", "available_at"),
)
"""A claim sets `token` and moves `available_at` to the lease's end, so one comparison tells both
a delayed row and a held one from what can be received. `seq` is the order of publishing."""

SECRETS = Table(
    "secrets",
    METADATA,
    Column("name", _TEXT, primary_key=True),
    Column("value", LargeBinary, nullable=False),
)
"""Random keys made with the database, so that a cursor can be known as its own."""

GAPS = Table(
    "gaps",
    METADATA,
    Column("gap_id", _TEXT, primary_key=True),
    Column("node", _TEXT, nullable=False),
    Column("reason", _TEXT, nullable=False),
    Column("tool_version", Integer, nullable=False),
    Column("tool_sha256", _TEXT, nullable=False),
    Column("count", BigInteger, nullable=False),
    Column("first_at", BigInteger, nullable=False),
    Column("last_at", BigInteger, nullable=False),
    Column("closed_at", BigInteger),
    Column("closed_by", _TEXT, nullable=False),
    Column("note", _TEXT, nullable=False),
    Column("latest", _TEXT, nullable=False),
    Index("ix_gaps_list", "closed_at", "last_at", "gap_id"),
    Index("ix_gaps_node", "node", "closed_at", "last_at", "gap_id"),
)
"""One row a kind of gap. `latest` is the newest case, as `gap_document` has it."""

GAP_CASES = Table(
    "gap_cases",
    METADATA,
    Column("gap_id", _TEXT, primary_key=True),
    Column("alert_id", _TEXT, primary_key=True),
    Column("at", BigInteger, nullable=False),
    Column("body", LargeBinary, nullable=False),
    Index("ix_gap_cases_at", "gap_id", "at", "alert_id"),
)

SHADOW_TALLIES = Table(
    "shadow_tallies",
    METADATA,
    Column("pair_id", _TEXT, primary_key=True),
    Column("result", _TEXT, primary_key=True),
    Column("shard", SmallInteger, primary_key=True),
    Column("node", _TEXT, nullable=False),
    Column("shadow_version", Integer, nullable=False),
    Column("shadow_sha256", _TEXT, nullable=False),
    Column("active_version", Integer, nullable=False),
    Column("active_sha256", _TEXT, nullable=False),
    Column("count", BigInteger, nullable=False),
    Column("other_clauses", BigInteger, nullable=False),
    Column("first_at", BigInteger, nullable=False),
    Column("last_at", BigInteger, nullable=False),
    Index("ix_shadow_tallies_node", "node"),
)
"""Sharded as the counters are: replicas count the same pair at the same time."""

SHADOW_COMPARISONS = Table(
    "shadow_comparisons",
    METADATA,
    Column("pair_id", _TEXT, primary_key=True),
    Column("alert_id", _TEXT, primary_key=True),
    Column("result", _TEXT, nullable=False),
    Column("at", BigInteger, nullable=False),
    Column("body", LargeBinary),
    Index("ix_shadow_comparisons_at", "at"),
)
_IS_KEPT = SHADOW_COMPARISONS.c.body.is_not(None)
Index(
    "ix_shadow_comparisons_pair",
    SHADOW_COMPARISONS.c.pair_id,
    SHADOW_COMPARISONS.c.at,
    SHADOW_COMPARISONS.c.alert_id,
    sqlite_where=_IS_KEPT,
    postgresql_where=_IS_KEPT,
)
Index(
    "ix_shadow_comparisons_result",
    SHADOW_COMPARISONS.c.pair_id,
    SHADOW_COMPARISONS.c.result,
    SHADOW_COMPARISONS.c.at,
    SHADOW_COMPARISONS.c.alert_id,
    sqlite_where=_IS_KEPT,
    postgresql_where=_IS_KEPT,
)
"""One row an alert that was compared, so that it counts once. One that agrees has no body."""

WATCH_FINDINGS = Table(
    "watch_findings",
    METADATA,
    Column("finding_id", _TEXT, primary_key=True),
    Column("kind", _TEXT, nullable=False),
    Column("node", _TEXT, nullable=False),
    Column("subject", _TEXT, nullable=False),
    Column("tool_sha256", _TEXT, nullable=False),
    Column("detail", _TEXT, nullable=False),
    Column("first_at", BigInteger, nullable=False),
    Column("last_at", BigInteger, nullable=False),
    Column("count", BigInteger, nullable=False),
    Column("evidence", _TEXT, nullable=False),
    Column("closed_at", BigInteger),
    Index("ix_watch_findings_list", "closed_at", "last_at", "finding_id"),
    Index("ix_watch_findings_node", "node", "closed_at", "last_at", "finding_id"),
)

WATCH_STATES = Table(
    "watch_states",
    METADATA,
    Column("watcher", _TEXT, primary_key=True),
    Column("node", _TEXT, primary_key=True),
    Column("saved_at", BigInteger, nullable=False),
    Column("body", LargeBinary, nullable=False),
)

COUNTER_NAMES = (
    "accepted",
    "decided",
    "pending",
    "dead_lettered",
    "discarded",
    "outbox_pending",
    "outbox_given_up",
    "evidence_bytes",
    "purged",
)


def insert_new(table: Table) -> Insert:
    """Insert unless a unique key is already there: rowcount tells which."""
    return upsert(table).on_conflict_do_nothing()  # SQLite's compiler writes it the same way


def to_us(moment: datetime) -> int:
    """Microseconds since the epoch of an aware datetime, exact."""
    return (moment - _EPOCH) // _MICROSECOND


def from_us(microseconds: int) -> datetime:
    """The inverse of `to_us`, aware UTC."""
    return _EPOCH + timedelta(microseconds=microseconds)


def storable(text: str, limit: int) -> str:
    """Text from outside as every database takes it: valid Unicode without NUL, which PostgreSQL
    has no place for; at most `limit` characters."""
    return text[:limit].encode("utf-8", "replace").decode().replace("\0", "?")
