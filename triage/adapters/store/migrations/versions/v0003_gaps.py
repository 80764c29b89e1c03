"""Gaps: what no tool could answer, by kind, and every case of each."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"

_TEXT = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")


def upgrade() -> None:
    op.create_table(
        "gaps",
        sa.Column("gap_id", _TEXT, primary_key=True),
        sa.Column("node", _TEXT, nullable=False),
        sa.Column("reason", _TEXT, nullable=False),
        sa.Column("tool_version", sa.Integer, nullable=False),
        sa.Column("tool_sha256", _TEXT, nullable=False),
        sa.Column("count", sa.BigInteger, nullable=False),
        sa.Column("first_at", sa.BigInteger, nullable=False),
        sa.Column("last_at", sa.BigInteger, nullable=False),
        sa.Column("closed_at", sa.BigInteger),
        sa.Column("closed_by", _TEXT, nullable=False),
        sa.Column("note", _TEXT, nullable=False),
        sa.Column("latest", _TEXT, nullable=False),
    )
    op.create_index("ix_gaps_list", "gaps", ["closed_at", "last_at", "gap_id"])
    op.create_index("ix_gaps_node", "gaps", ["node", "closed_at", "last_at", "gap_id"])
    op.create_table(
        "gap_cases",
        sa.Column("gap_id", _TEXT, primary_key=True),
        sa.Column("alert_id", _TEXT, primary_key=True),
        sa.Column("at", sa.BigInteger, nullable=False),
        sa.Column("body", sa.LargeBinary, nullable=False),
    )
    op.create_index("ix_gap_cases_at", "gap_cases", ["gap_id", "at", "alert_id"])


def downgrade() -> None:
    op.drop_table("gap_cases")
    op.drop_table("gaps")
