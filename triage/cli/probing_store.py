"""Asks the store what it is, and whether its server keeps what it says it has."""

from __future__ import annotations

import asyncio
import time

from triage.adapters.store import migrate
from triage.adapters.store.database import Database, database_at
from triage.cli.source_report import ServerReport
from triage.errors import ConfigError, StoreError

WHERE = "store"


async def probe_store(address: str, *, timeout_s: float) -> ServerReport:
    """`address` is the store's URL. Changes nothing there, and makes no file."""
    began = time.monotonic()
    label = state = problem = fix = ""
    weaknesses: tuple[str, ...] = ()
    try:
        database = database_at(address)
        label = database.label
        async with asyncio.timeout(timeout_s):
            state, problem, weaknesses = await asyncio.to_thread(_ask, database, address)
        fix = "back it up, then run: triage db upgrade" if problem else ""
    except TimeoutError:
        problem = f"store {label} did not answer in {timeout_s:g} s"
        fix = "is it running, and not overloaded?"
    except (ConfigError, StoreError) as error:
        problem = str(error)
    return ServerReport(
        where=WHERE,
        label=label,
        state=state,
        problem=problem,
        fix=fix,
        weaknesses=weaknesses,
        elapsed_ms=(time.monotonic() - began) * 1000,
    )


def _ask(database: Database, address: str) -> tuple[str, str, tuple[str, ...]]:
    """State, problem, weaknesses. Blocking, and bounded by the database's own limits."""
    needed, found = migrate.needed(address), migrate.revision_of(database)
    if found is None and not database.shared:
        return "no file yet: triage serve makes it", "", ()
    weaknesses = tuple(_weaknesses(database))
    if found is None:
        return "no tables yet: triage serve makes them", "", weaknesses
    if needed:
        wanted = migrate.REVISIONS[-1]
        problem = f"store {database.label} has schema {found}, and this version needs {wanted}"
        return "", problem, weaknesses
    return f"schema {found}", "", weaknesses


def _weaknesses(database: Database) -> list[str]:
    """Raises ConfigError."""
    dialer = database.dialer(database.compiler(), writes=False)
    try:
        session = dialer(first=True)
        try:
            return database.weaknesses(session.begin_reading(patience_s=None))
        finally:
            session.close()
    except Exception as error:
        if isinstance(error, ConfigError):
            raise
        raise ConfigError(
            f"store {database.label} cannot be read: {database.told(error)}"
        ) from error
    finally:
        dialer.close()
