"""The rows of a store, past its ports: what a test looks at, or breaks, on either database."""

from __future__ import annotations

import re
import sqlite3
from contextlib import closing
from typing import Any

import psycopg

from tests.contract.conftest import StoreMaker

_NAMED = re.compile(r":(\w+)")


def query(maker: StoreMaker, sql: str, **values: Any) -> list[tuple[Any, ...]]:
    """`:name` stands for a value. Sums are integers on both."""
    if maker.backend == "sqlite":
        with closing(sqlite3.connect(maker.location)) as connection:
            return connection.execute(sql, values).fetchall()
    with psycopg.connect(str(maker.location)) as server:
        return server.execute(_NAMED.sub(r"%(\1)s", sql).encode(), values).fetchall()


def change(maker: StoreMaker, sql: str, **values: Any) -> int:
    """The number of rows changed, committed."""
    if maker.backend == "sqlite":
        with closing(sqlite3.connect(maker.location)) as connection, connection:
            return connection.execute(sql, values).rowcount
    with psycopg.connect(str(maker.location)) as server:
        return server.execute(_NAMED.sub(r"%(\1)s", sql).encode(), values).rowcount


def count(maker: StoreMaker, table: str) -> int:
    [(number,)] = query(maker, f"SELECT count(*) FROM {table}")  # noqa: S608 - ours
    return int(number)
