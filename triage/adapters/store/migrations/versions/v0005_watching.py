"""Shadows: counts and what did not agree. Findings about tools, and what their watchers learned."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"

_TEXT = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")
_IS_KEPT = sa.text("body IS NOT NULL")


def upgrade() -> None:
    op.create_table(
        "shadow_tallies",
        sa.Column("pair_id", _TEXT, primary_key=True),
        sa.Column("result", _TEXT, primary_key=True),
        sa.Column("shard", sa.SmallInteger, primary_key=True),
        sa.Column("node", _TEXT, nullable=False),
        sa.Column("shadow_version", sa.Integer, nullable=False),
        sa.Column("shadow_sha256", _TEXT, nullable=False),
        sa.Column("active_version", sa.Integer, nullable=False),
        sa.Column("active_sha256", _TEXT, nullable=False),
        sa.Column("count", sa.BigInteger, nullable=False),
        sa.Column("other_clauses", sa.BigInteger, nullable=False),
        sa.Column("first_at", sa.BigInteger, nullable=False),
        sa.Column("last_at", sa.BigInteger, nullable=False),
    )
    op.create_index("ix_shadow_tallies_node", "shadow_tallies", ["node"])
    op.create_table(
        "shadow_comparisons",
        sa.Column("pair_id", _TEXT, primary_key=True),
        sa.Column("alert_id", _TEXT, primary_key=True),
        sa.Column("result", _TEXT, nullable=False),
        sa.Column("at", sa.BigInteger, nullable=False),
        sa.Column("body", sa.LargeBinary),
    )
    op.create_index("ix_shadow_comparisons_at", "shadow_comparisons", ["at"])
    for name, columns in (
        ("pair", ["pair_id", "at", "alert_id"]),
        ("result", ["pair_id", "result", "at", "alert_id"]),
    ):
        op.create_index(
            f"ix_shadow_comparisons_{name}",
            "shadow_comparisons",
            columns,
            sqlite_where=_IS_KEPT,
            postgresql_where=_IS_KEPT,
        )
    op.create_table(
        "watch_findings",
        sa.Column("finding_id", _TEXT, primary_key=True),
        sa.Column("kind", _TEXT, nullable=False),
        sa.Column("node", _TEXT, nullable=False),
        sa.Column("subject", _TEXT, nullable=False),
        sa.Column("tool_sha256", _TEXT, nullable=False),
        sa.Column("detail", _TEXT, nullable=False),
        sa.Column("first_at", sa.BigInteger, nullable=False),
        sa.Column("last_at", sa.BigInteger, nullable=False),
        sa.Column("count", sa.BigInteger, nullable=False),
        sa.Column("evidence", _TEXT, nullable=False),
        sa.Column("closed_at", sa.BigInteger),
    )
    listed = ["closed_at", "last_at", "finding_id"]
    op.create_index("ix_watch_findings_list", "watch_findings", listed)
    op.create_index("ix_watch_findings_node", "watch_findings", ["node", *listed])
    op.create_table(
        "watch_states",
        sa.Column("watcher", _TEXT, primary_key=True),
        sa.Column("node", _TEXT, primary_key=True),
        sa.Column("saved_at", sa.BigInteger, nullable=False),
        sa.Column("body", sa.LargeBinary, nullable=False),
    )


def downgrade() -> None:
    for table in ("watch_states", "watch_findings", "shadow_comparisons", "shadow_tallies"):
        op.drop_table(table)
