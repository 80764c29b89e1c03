"""Alerts, decisions, evidence, outbox, queue and the counters of the ledger."""

from __future__ import annotations

import secrets

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None

_TEXT = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")
_ROW_ID = sa.BigInteger().with_variant(sa.Integer, "sqlite")


def upgrade() -> None:
    op.create_table(
        "alerts",
        sa.Column("alert_id", _TEXT, primary_key=True),
        sa.Column("integration", _TEXT, nullable=False),
        sa.Column("tenant", _TEXT, nullable=False),
        sa.Column("fingerprint", _TEXT, nullable=False),
        sa.Column("starts_at_ns", _TEXT),
        sa.Column("episode", sa.Integer),
        sa.Column("alarm", _TEXT, nullable=False),
        sa.Column("site", _TEXT, nullable=False),
        sa.Column("entity", _TEXT, nullable=False),
        sa.Column("severity", _TEXT, nullable=False),
        sa.Column("priority", sa.SmallInteger, nullable=False),
        sa.Column("fired_at", sa.BigInteger, nullable=False),
        sa.Column("accepted_at", sa.BigInteger, nullable=False),
        sa.Column("labels", _TEXT, nullable=False),
        sa.Column("annotations", _TEXT, nullable=False),
        sa.Column("raw", sa.LargeBinary, nullable=False),
        sa.Column("status", _TEXT, nullable=False),
        sa.Column("attempts", sa.Integer, nullable=False),
        sa.Column("resolved_at", sa.BigInteger),
        sa.Column("unmatched_resolve", sa.SmallInteger, nullable=False),
    )
    op.create_index("ix_alerts_status_accepted_at", "alerts", ["status", "accepted_at"])
    op.create_index("ix_alerts_key", "alerts", ["integration", "tenant", "fingerprint"])
    op.create_table(
        "deliveries",
        sa.Column("integration", _TEXT, primary_key=True),
        sa.Column("tenant", _TEXT, primary_key=True),
        sa.Column("delivery_key", _TEXT, primary_key=True),
        sa.Column("alert_id", _TEXT),
        sa.Column("at", sa.BigInteger, nullable=False),
    )
    op.create_table(
        "episodes",
        sa.Column("integration", _TEXT, primary_key=True),
        sa.Column("tenant", _TEXT, primary_key=True),
        sa.Column("fingerprint", _TEXT, primary_key=True),
        sa.Column("episode", sa.Integer, nullable=False),
        sa.Column("open", sa.SmallInteger, nullable=False),
        sa.Column("resolved_at", sa.BigInteger),
    )
    op.create_table(
        "events",
        sa.Column("id", _ROW_ID, primary_key=True, autoincrement=True),
        sa.Column("event", _TEXT, nullable=False),
        sa.Column("integration", _TEXT, nullable=False),
        sa.Column("tenant", _TEXT, nullable=False),
        sa.Column("fingerprint", _TEXT, nullable=False),
        sa.Column("alert_id", _TEXT),
        sa.Column("at", sa.BigInteger, nullable=False),
        sa.Column("raw", sa.LargeBinary, nullable=False),
    )
    op.create_table(
        "decisions",
        sa.Column("alert_id", _TEXT, primary_key=True),
        sa.Column("outcome", _TEXT, nullable=False),
        sa.Column("degraded", sa.SmallInteger, nullable=False),
        sa.Column("alarm", _TEXT, nullable=False),
        sa.Column("site", _TEXT, nullable=False),
        sa.Column("entity", _TEXT, nullable=False),
        sa.Column("decision_sha256", _TEXT, nullable=False),
        sa.Column("decided_at", sa.BigInteger, nullable=False),
        sa.Column("head", _TEXT, nullable=False),
        sa.Column("body", sa.LargeBinary, nullable=False),
    )
    op.create_index("ix_decisions_decided_at", "decisions", ["decided_at", "alert_id"])
    op.create_table(
        "evidence",
        sa.Column("answer_sha256", _TEXT, primary_key=True),
        sa.Column("body", sa.LargeBinary, nullable=False),
        sa.Column("size", sa.BigInteger, nullable=False),
        sa.Column("stored_at", sa.BigInteger, nullable=False),
        sa.Column("last_used_at", sa.BigInteger, nullable=False),
    )
    op.create_index("ix_evidence_last_used_at", "evidence", ["last_used_at"])
    op.create_table(
        "outbox",
        sa.Column("row", _ROW_ID, primary_key=True, autoincrement=True),
        sa.Column("sink", _TEXT, nullable=False),
        sa.Column("key", _TEXT, nullable=False),
        sa.Column("alert_id", _TEXT, nullable=False),
        sa.Column("body", sa.LargeBinary, nullable=False),
        sa.Column("attempts", sa.Integer, nullable=False),
        sa.Column("posted_at", sa.BigInteger, nullable=False),
        sa.Column("due_at", sa.BigInteger, nullable=False),
        sa.Column("state", _TEXT, nullable=False),
        sa.Column("error", _TEXT, nullable=False),
        sa.UniqueConstraint("sink", "key", name="uq_outbox_sink_key"),
    )
    op.create_index("ix_outbox_due", "outbox", ["sink", "state", "due_at"])
    counters = op.create_table(
        "counters",
        sa.Column("name", _TEXT, primary_key=True),
        sa.Column("value", sa.BigInteger, nullable=False),
    )
    op.create_table(
        "dead_letters",
        sa.Column("alert_id", _TEXT, primary_key=True),
        sa.Column("reason", _TEXT, nullable=False),
        sa.Column("detail", _TEXT, nullable=False),
        sa.Column("at", sa.BigInteger, nullable=False),
    )
    op.create_table(
        "queue",
        sa.Column("seq", _ROW_ID, primary_key=True, autoincrement=True),
        sa.Column("alert_id", _TEXT, nullable=False, unique=True),
        sa.Column("priority", sa.SmallInteger, nullable=False),
        sa.Column("published_at", sa.BigInteger, nullable=False),
        sa.Column("available_at", sa.BigInteger, nullable=False),
        sa.Column("token", _TEXT),
    )
    op.create_index("ix_queue_order", "queue", ["priority", "seq", "available_at"])
    secret = op.create_table(
        "secrets",
        sa.Column("name", _TEXT, primary_key=True),
        sa.Column("value", sa.LargeBinary, nullable=False),
    )
    names = (
        "accepted",
        "decided",
        "pending",
        "dead_lettered",
        "discarded",
        "outbox_pending",
        "outbox_given_up",
        "evidence_bytes",
    )
    op.bulk_insert(counters, [{"name": name, "value": 0} for name in names])
    op.bulk_insert(secret, [{"name": "cursor", "value": secrets.token_bytes(32)}])


def downgrade() -> None:
    for table in (
        "secrets",
        "queue",
        "dead_letters",
        "counters",
        "outbox",
        "evidence",
        "decisions",
        "events",
        "episodes",
        "deliveries",
        "alerts",
    ):
        op.drop_table(table)
