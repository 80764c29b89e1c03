"""Tables over SQL, read only: SQLite files and PostgreSQL."""

from triage.adapters.sql.source import SqlSource

__all__ = ["SqlSource"]
