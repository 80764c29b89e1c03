"""Whether a database has the tables this code expects, and how it comes to have them.

Alembic is imported only where a database has an older schema: it costs 0.3 s and 12 MB. A start
finds with one SELECT that nothing is to be done, and an empty database gets today's tables as
they stand, marked as if every migration had run; a test compares the two.
"""

from __future__ import annotations

import secrets
from pathlib import Path

from sqlalchemy import (
    Column,
    Connection,
    MetaData,
    PrimaryKeyConstraint,
    String,
    Table,
    insert,
    inspect,
    select,
)

from triage.adapters.store.database import Database, database_at
from triage.adapters.store.schema import COUNTER_NAMES, COUNTERS, METADATA, SECRETS
from triage.errors import ConfigError

REVISIONS = ("0001", "0002", "0003", "0004", "0005")
"""Oldest first, as in `migrations/versions`."""

# As Alembic makes it.
_VERSION = Table(
    "alembic_version",
    MetaData(),
    Column("version_num", String(32), nullable=False),
    PrimaryKeyConstraint("version_num", name="alembic_version_pkc"),
)


def current(location: str | Path) -> str | None:
    """The revision of the database, None while it has no tables or does not exist.

    Raises ConfigError when it cannot be read or is no database of this program.
    """
    return revision_of(database_at(location))


def needed(location: str | Path) -> bool:
    """Whether `upgrade` has something to do.

    Raises ConfigError when the database is newer than this code.
    """
    database = database_at(location)
    return _is_behind(database, revision_of(database))


def upgrade(location: str | Path) -> None:
    """Create what is missing, all steps in one transaction. Blocking.

    Replicas may do so at the same time: the first one does it. Raises ConfigError when the
    database cannot be made or changed.
    """
    database = database_at(location)
    if _is_behind(database, revision_of(database)):
        database.change(lambda connection: _bring_up(connection, step_by_step=False))


def migrate_step_by_step(location: str | Path) -> None:
    """As `upgrade`, through every migration even where there is nothing yet: what a database
    that has been upgraded since the first version looks like."""
    database = database_at(location)
    if _is_behind(database, revision_of(database)):
        database.change(lambda connection: _bring_up(connection, step_by_step=True))


def make_ready(database: Database, *, may_create: bool, may_upgrade: bool) -> None:
    """For opening: the tables are made where there are none, with `may_create`; older ones are
    brought up to date with `may_upgrade`. Raises ConfigError that says what to do instead."""
    revision = revision_of(database)
    if not _is_behind(database, revision):
        return
    if revision is None and not may_create:
        raise ConfigError(
            f"store {database.label} does not exist or has no tables: nothing was served from it"
        )
    if revision is not None and not may_upgrade:
        raise ConfigError(
            f"store {database.label} has schema {revision}, and this version needs "
            f"{REVISIONS[-1]}: back it up, then run: triage db upgrade"
        )
    database.change(lambda connection: _bring_up(connection, step_by_step=False))


def revision_of(database: Database) -> str | None:
    """See `current`."""
    found = database.tables()
    if found is None or not found[0]:
        return None
    names, revision = found
    if "alembic_version" not in names:
        raise ConfigError(
            f"store {database.label} is a database of another program: name another one"
        )
    return revision


def _is_behind(database: Database, revision: str | None) -> bool:
    if revision is not None and revision not in REVISIONS:
        raise ConfigError(
            f"store {database.label} has schema {revision}, newer than {REVISIONS[-1]}"
            " which this version knows: run the version that wrote it, or restore a backup"
        )
    return revision != REVISIONS[-1]


def _bring_up(connection: Connection, *, step_by_step: bool) -> None:
    # Looked at anew: whoever had the lock before us may have done it.
    revision = None
    if inspect(connection).has_table(_VERSION.name):
        revision = connection.execute(select(_VERSION.c.version_num)).scalar()
    if revision == REVISIONS[-1]:
        return
    if revision is None and not step_by_step:
        _create(connection)
    else:
        _migrate(connection)


def _create(connection: Connection) -> None:
    METADATA.create_all(connection)
    connection.execute(
        insert(COUNTERS), [{"name": name, "shard": 0, "value": 0} for name in COUNTER_NAMES]
    )
    connection.execute(insert(SECRETS), [{"name": "cursor", "value": secrets.token_bytes(32)}])
    _VERSION.create(connection)
    connection.execute(insert(_VERSION), {"version_num": REVISIONS[-1]})


def _migrate(connection: Connection) -> None:
    from alembic import command
    from alembic.config import Config

    config = Config()
    migrations = Path(__file__).with_name("migrations")
    config.set_main_option("script_location", str(migrations).replace("%", "%%"))
    config.set_main_option("path_separator", "os")
    config.attributes["connection"] = connection
    command.upgrade(config, "head")
