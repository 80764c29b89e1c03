"""Decisions by outcome, alarm and site, newest first, without reading the others."""

from __future__ import annotations

from alembic import op

revision = "0002"
down_revision = "0001"

_LISTED_BY = ("outcome", "alarm", "site")


def upgrade() -> None:
    for name in _LISTED_BY:
        op.create_index(f"ix_decisions_{name}", "decisions", [name, "decided_at", "alert_id"])


def downgrade() -> None:
    for name in _LISTED_BY:
        op.drop_index(f"ix_decisions_{name}", "decisions")
