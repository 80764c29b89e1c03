"""Whether a database has the tables this code expects, and how it comes to have them.

Alembic is imported only where a database has an older schema: it costs 0.3 s and 12 MB. A start
finds with one SELECT that nothing is to be done, and an empty database gets today's tables as
they stand, marked as if every migration had run; a test compares the two.
"""

from __future__ import annotations

import secrets
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, insert

from triage.adapters.store.file import StoreFile
from triage.adapters.store.schema import COUNTER_NAMES, COUNTERS, METADATA, SECRETS
from triage.errors import ConfigError

REVISIONS = ("0001", "0002", "0003")
"""Oldest first, as in `migrations/versions`."""


def current(location: str | Path) -> str | None:
    """The revision of the database, None while it has no tables or does not exist.

    Raises ConfigError when the file is no database of this program.
    """
    file = StoreFile.at(location)
    if not file.path.exists():
        return None
    try:
        connection = file.connect(read_only=True)
        try:
            tables = {
                row[0]
                for row in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")
            }
            if not tables:
                return None
            if "alembic_version" not in tables:
                raise ConfigError(
                    f"store {file.path} is a database of another program: name another file"
                )
            row = connection.execute("SELECT version_num FROM alembic_version").fetchone()
        finally:
            connection.close()
    except sqlite3.Error as error:
        raise ConfigError(f"store {file.path} cannot be read: {error}") from error
    return None if row is None else str(row[0])


def needed(location: str | Path) -> bool:
    """Whether `upgrade` has something to do.

    Raises ConfigError when the database is newer than this code.
    """
    revision = current(location)
    if revision is not None and revision not in REVISIONS:
        raise ConfigError(
            f"store {StoreFile.at(location).path} has schema {revision}, newer than {REVISIONS[-1]}"
            " which this version knows: run the version that wrote it, or restore a backup"
        )
    return revision != REVISIONS[-1]


def upgrade(location: str | Path) -> None:
    """Create what is missing, all steps in one transaction. Blocking.

    Raises ConfigError when the file cannot be made or changed.
    """
    if needed(location):
        _change(location, _migrate if current(location) is not None else _create)


def migrate_step_by_step(location: str | Path) -> None:
    """As `upgrade`, through every migration even where there is nothing yet: what a database
    that has been upgraded since the first version looks like."""
    if needed(location):
        _change(location, _migrate)


def _create(connection: Connection) -> None:
    METADATA.create_all(connection)
    connection.execute(insert(COUNTERS), [{"name": name, "value": 0} for name in COUNTER_NAMES])
    connection.execute(insert(SECRETS), [{"name": "cursor", "value": secrets.token_bytes(32)}])
    # As Alembic makes it.
    connection.exec_driver_sql(
        "CREATE TABLE alembic_version (version_num VARCHAR(32) NOT NULL,"
        " CONSTRAINT alembic_version_pkc PRIMARY KEY (version_num))"
    )
    connection.exec_driver_sql(
        "INSERT INTO alembic_version (version_num) VALUES (?)", (REVISIONS[-1],)
    )


def _migrate(connection: Connection) -> None:
    from alembic import command
    from alembic.config import Config

    config = Config()
    migrations = Path(__file__).with_name("migrations")
    config.set_main_option("script_location", str(migrations).replace("%", "%%"))
    config.set_main_option("path_separator", "os")
    config.attributes["connection"] = connection
    command.upgrade(config, "head")


def _change(location: str | Path, change: Callable[[Connection], None]) -> None:
    from sqlalchemy import create_engine, event
    from sqlalchemy.exc import SQLAlchemyError
    from sqlalchemy.pool import NullPool

    file = StoreFile.at(location)
    file.create()
    engine = create_engine(
        "sqlite://", creator=lambda: file.connect(read_only=False), poolclass=NullPool
    )

    @event.listens_for(engine, "begin")
    def begin(connection: Any) -> None:
        # The driver would begin only at the first change and leave DDL outside.
        connection.exec_driver_sql("BEGIN IMMEDIATE")

    try:
        with engine.begin() as connection:
            change(connection)
    except (SQLAlchemyError, sqlite3.Error) as error:
        raise ConfigError(f"store {file.path} cannot be upgraded: {error}") from error
    finally:
        engine.dispose()
