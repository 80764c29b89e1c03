"""Whether a database has the tables this code expects, and how it comes to have them.

Alembic is imported by `upgrade` alone: it costs 0.3 s and 12 MB, and a start finds with one
SELECT that nothing is to be done.
"""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Any

from triage.adapters.store.file import StoreFile
from triage.errors import ConfigError

REVISIONS = ("0001",)
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
    if not needed(location):
        return
    from alembic import command
    from alembic.config import Config
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

    config = Config()
    migrations = Path(__file__).with_name("migrations")
    config.set_main_option("script_location", str(migrations).replace("%", "%%"))
    config.set_main_option("path_separator", "os")
    try:
        with engine.begin() as connection:
            config.attributes["connection"] = connection
            command.upgrade(config, "head")
    except (SQLAlchemyError, sqlite3.Error) as error:
        raise ConfigError(f"store {file.path} cannot be upgraded: {error}") from error
    finally:
        engine.dispose()
