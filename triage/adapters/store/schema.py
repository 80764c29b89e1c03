"""The tables, once: queries, migrations and the test that compares the two all read this.

Portable on purpose: text, integers and bytes only, so that a value needs no conversion on the way
to a driver. Times are integer microseconds since the epoch, UTC; JSON is text; flags are 0 or 1.
`starts_at_ns` is text because a sender may state a start that no 64-bit nanosecond count holds.
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
from sqlalchemy.dialects.sqlite import insert as sqlite_insert

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)

METADATA = MetaData()

_ROW_ID = BigInteger().with_variant(Integer, "sqlite")

ALERTS = Table(
    "alerts",
    METADATA,
    Column("alert_id", Text, primary_key=True),
    Column("integration", Text, nullable=False),
    Column("tenant", Text, nullable=False),
    Column("fingerprint", Text, nullable=False),
    Column("starts_at_ns", Text),
    Column("episode", Integer),
    Column("alarm", Text, nullable=False),
    Column("site", Text, nullable=False),
    Column("entity", Text, nullable=False),
    Column("severity", Text, nullable=False),
    Column("priority", SmallInteger, nullable=False),
    Column("fired_at", BigInteger, nullable=False),
    Column("accepted_at", BigInteger, nullable=False),
    Column("labels", Text, nullable=False),
    Column("annotations", Text, nullable=False),
    Column("raw", LargeBinary, nullable=False),
    Column("status", Text, nullable=False),
    Column("attempts", Integer, nullable=False),
    Column("resolved_at", BigInteger),
    Column("unmatched_resolve", SmallInteger, nullable=False),
    Index("ix_alerts_status_accepted_at", "status", "accepted_at"),
    Index("ix_alerts_key", "integration", "tenant", "fingerprint"),
)

DELIVERIES = Table(
    "deliveries",
    METADATA,
    Column("integration", Text, primary_key=True),
    Column("tenant", Text, primary_key=True),
    Column("delivery_key", Text, primary_key=True),
    Column("alert_id", Text),
    Column("at", BigInteger, nullable=False),
)

EPISODES = Table(
    "episodes",
    METADATA,
    Column("integration", Text, primary_key=True),
    Column("tenant", Text, primary_key=True),
    Column("fingerprint", Text, primary_key=True),
    Column("episode", Integer, nullable=False),
    Column("open", SmallInteger, nullable=False),
    Column("resolved_at", BigInteger),
)
"""`resolved_at` is the sender's time of the last resolve, kept while the next episode is open."""

EVENTS = Table(
    "events",
    METADATA,
    Column("id", _ROW_ID, primary_key=True, autoincrement=True),
    Column("event", Text, nullable=False),
    Column("integration", Text, nullable=False),
    Column("tenant", Text, nullable=False),
    Column("fingerprint", Text, nullable=False),
    Column("alert_id", Text),
    Column("at", BigInteger, nullable=False),
    Column("raw", LargeBinary, nullable=False),
)

DECISIONS = Table(
    "decisions",
    METADATA,
    Column("alert_id", Text, primary_key=True),
    Column("outcome", Text, nullable=False),
    Column("degraded", SmallInteger, nullable=False),
    Column("alarm", Text, nullable=False),
    Column("site", Text, nullable=False),
    Column("entity", Text, nullable=False),
    Column("decision_sha256", Text, nullable=False),
    Column("decided_at", BigInteger, nullable=False),
    Column("head", Text, nullable=False),
    Column("body", LargeBinary, nullable=False),
    Index("ix_decisions_decided_at", "decided_at", "alert_id"),
    Index("ix_decisions_outcome", "outcome", "decided_at", "alert_id"),
    Index("ix_decisions_alarm", "alarm", "decided_at", "alert_id"),
    Index("ix_decisions_site", "site", "decided_at", "alert_id"),
)

EVIDENCE = Table(
    "evidence",
    METADATA,
    Column("answer_sha256", Text, primary_key=True),
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
    Column("sink", Text, nullable=False),
    Column("key", Text, nullable=False),
    Column("alert_id", Text, nullable=False),
    Column("body", LargeBinary, nullable=False),
    Column("attempts", Integer, nullable=False),
    Column("posted_at", BigInteger, nullable=False),
    Column("due_at", BigInteger, nullable=False),
    Column("state", Text, nullable=False),
    Column("error", Text, nullable=False),
    UniqueConstraint("sink", "key", name="uq_outbox_sink_key"),
    Index("ix_outbox_due", "sink", "state", "due_at"),
)

COUNTERS = Table(
    "counters",
    METADATA,
    Column("name", Text, primary_key=True),
    Column("value", BigInteger, nullable=False),
)

DEAD_LETTERS = Table(
    "dead_letters",
    METADATA,
    Column("alert_id", Text, primary_key=True),
    Column("reason", Text, nullable=False),
    Column("detail", Text, nullable=False),
    Column("at", BigInteger, nullable=False),
)

QUEUE = Table(
    "queue",
    METADATA,
    Column("seq", _ROW_ID, primary_key=True, autoincrement=True),
    Column("alert_id", Text, nullable=False, unique=True),
    Column("priority", SmallInteger, nullable=False),
    Column("published_at", BigInteger, nullable=False),
    Column("available_at", BigInteger, nullable=False),
    Column("token", Text),
    Index("ix_queue_order", "priority", "seq", "available_at"),
)
"""A claim sets `token` and moves `available_at` to the lease's end, so one comparison tells both
a delayed row and a held one from what can be received. `seq` is the order of publishing."""

SECRETS = Table(
    "secrets",
    METADATA,
    Column("name", Text, primary_key=True),
    Column("value", LargeBinary, nullable=False),
)
"""Random keys made with the database, so that a cursor can be known as its own."""

GAPS = Table(
    "gaps",
    METADATA,
    Column("gap_id", Text, primary_key=True),
    Column("node", Text, nullable=False),
    Column("reason", Text, nullable=False),
    Column("tool_version", Integer, nullable=False),
    Column("tool_sha256", Text, nullable=False),
    Column("count", BigInteger, nullable=False),
    Column("first_at", BigInteger, nullable=False),
    Column("last_at", BigInteger, nullable=False),
    Column("closed_at", BigInteger),
    Column("closed_by", Text, nullable=False),
    Column("note", Text, nullable=False),
    Column("latest", Text, nullable=False),
    Index("ix_gaps_list", "closed_at", "last_at", "gap_id"),
    Index("ix_gaps_node", "node", "closed_at", "last_at", "gap_id"),
)
"""One row a kind of gap. `latest` is the newest case, as `gap_document` has it."""

GAP_CASES = Table(
    "gap_cases",
    METADATA,
    Column("gap_id", Text, primary_key=True),
    Column("alert_id", Text, primary_key=True),
    Column("at", BigInteger, nullable=False),
    Column("body", LargeBinary, nullable=False),
    Index("ix_gap_cases_at", "gap_id", "at", "alert_id"),
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
)


def insert_new(table: Table) -> Insert:
    """Insert unless a unique key is already there: rowcount tells which."""
    return sqlite_insert(table).on_conflict_do_nothing()


def to_us(moment: datetime) -> int:
    """Microseconds since the epoch of an aware datetime, exact."""
    return (moment - _EPOCH) // _MICROSECOND


def from_us(microseconds: int) -> datetime:
    """The inverse of `to_us`, aware UTC."""
    return _EPOCH + timedelta(microseconds=microseconds)


def storable(text: str, limit: int) -> str:
    """Text from outside as every database takes it: valid Unicode, at most `limit` characters."""
    return text[:limit].encode("utf-8", "replace").decode()
