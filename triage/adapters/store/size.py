"""How many bytes the store uses, as an expression that each database has its own words for."""

from __future__ import annotations

from typing import Any

from sqlalchemy import BigInteger, select
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.functions import FunctionElement

from triage.adapters.store.transaction import Transaction

_SAMPLE = 200  # of the latest decisions
_EACH_BYTES = (
    2_000  # of an alert on PostgreSQL beside its documents: short columns, indexes, outbox
)


class _UsedBytes(FunctionElement[int]):
    """Not what the files take up: SQLite's keeps the pages of deleted rows for the next ones, and
    so does PostgreSQL, whose tables never shrink by a DELETE."""

    type = BigInteger()
    inherit_cache = True


@compiles(_UsedBytes, "sqlite")
def _of_sqlite(_element: _UsedBytes, _compiler: Any, **_: Any) -> str:
    return (
        "(SELECT (page_count - freelist_count) * page_size"
        " FROM pragma_page_count(), pragma_freelist_count(), pragma_page_size())"
    )


@compiles(_UsedBytes, "postgresql")
def _of_postgresql(_element: _UsedBytes, _compiler: Any, **_: Any) -> str:
    # Stored alerts, which the counters know exactly, times what the latest ones take. No figure of
    # the server's own falls with a DELETE before a vacuum; the database's size bounds it.
    return f"""(SELECT CAST(LEAST(
        pg_database_size(current_database()), counted.alerts * sample.bytes + counted.evidence
    ) AS BIGINT) FROM (
        SELECT
            SUM(CASE
                WHEN name IN ('pending', 'decided', 'dead_lettered', 'discarded') THEN value
                WHEN name = 'purged' THEN -value
                ELSE 0
            END) AS alerts,
            SUM(CASE WHEN name = 'evidence_bytes' THEN value ELSE 0 END) AS evidence
        FROM counters
    ) AS counted, (
        SELECT {_EACH_BYTES} + COALESCE(AVG(
            pg_column_size(alerts.raw) + pg_column_size(alerts.labels)
            + pg_column_size(alerts.annotations) + pg_column_size(latest.head)
            + pg_column_size(latest.body)
        ), 0) AS bytes
        FROM (
            SELECT alert_id, head, body FROM decisions
            ORDER BY decided_at DESC, alert_id DESC LIMIT {_SAMPLE}
        ) AS latest JOIN alerts ON alerts.alert_id = latest.alert_id
    ) AS sample)"""  # noqa: S608 - two numbers of ours


_USED = select(_UsedBytes())


def used_bytes(transaction: Transaction) -> int:
    """What rows, their indexes and evidence use. Exact in pages on SQLite. On PostgreSQL it is
    estimated from the latest decisions, leaving events and delivery keys out, and never more than
    the size of the database; the space of deleted rows that no vacuum has freed comes on top."""
    found = transaction.row(_USED)
    assert found is not None
    return int(found[0])
