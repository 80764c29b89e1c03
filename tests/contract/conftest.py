"""Stores on every database that can hold one: what the contract tests of the store run on."""

from __future__ import annotations

import itertools
import sqlite3
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psycopg
import pytest

from tests.contract.store_world import HandClock, migrated
from tests.postgres import PostgresServer, running_postgres
from triage.adapters.store import Store, migrate

BACKENDS = ("sqlite", "postgres")
TEMPLATE = "template_triage"


@dataclass(slots=True)
class Databases:
    """Databases of one cluster, each a copy of a migrated one. Their default collation is that of
    a language, and not of bytes: what sorts by accident would not show otherwise."""

    server: PostgresServer
    _numbers: Iterator[int] = field(default_factory=itertools.count)

    def prepare(self) -> None:
        self.execute(
            f"CREATE DATABASE {TEMPLATE} TEMPLATE template0"
            " LOCALE_PROVIDER icu ICU_LOCALE 'en-US' ENCODING 'UTF8'"
        )
        migrate.upgrade(self.url(TEMPLATE))

    def url(self, name: str) -> str:
        return self.server.url.rpartition("/")[0] + f"/{name}"

    def new(self, *, template: str = TEMPLATE) -> str:
        """The URL of a database with the tables and no row; `template0` for one without tables."""
        name = f"test_{next(self._numbers)}"
        self.execute(f"CREATE DATABASE {name} TEMPLATE {template} STRATEGY FILE_COPY")
        return self.url(name)

    def drop(self, url: str) -> None:
        self.execute(f"DROP DATABASE {url.rpartition('/')[2]} WITH (FORCE)")

    def end_sessions(self, url: str) -> None:
        """As when all processes that use it were killed. Gone when this returns."""
        with psycopg.connect(self.server.url, autocommit=True) as connection:
            connection.execute(
                "SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity WHERE datname = %s",
                (url.rpartition("/")[2],),
            )

    @property
    def postmaster(self) -> int:
        """The id of the process that takes connections."""
        return int((self.server.home / "data/postmaster.pid").read_text().split()[0])

    def execute(self, sql: str) -> None:
        with psycopg.connect(self.server.url, autocommit=True) as connection:
            connection.execute(sql.encode())


def run_sql(location: str | Path, *statements: str) -> list[tuple[Any, ...]]:
    rows: list[tuple[Any, ...]] = []
    if isinstance(location, Path):
        with closing(sqlite3.connect(location)) as file, file:
            for statement in statements:
                rows = file.execute(statement).fetchall()
        return rows
    with psycopg.connect(location) as server:
        for statement in statements:
            cursor = server.execute(statement.encode())
            rows = cursor.fetchall() if cursor.description else []
    return rows


@dataclass(slots=True)
class StoreMaker:
    """`await make_store(clock=…, **options of Store.open)`: the same database at every call.

    While one is open, PostgreSQL opens another beside it, as a second replica would; SQLite
    refuses a second one for serving. What is still open at the end of the test is closed.
    """

    backend: str
    location: str | Path
    _empty: Callable[[], str | Path]
    _opened: AsyncExitStack = field(default_factory=AsyncExitStack)

    async def __call__(self, *, clock: HandClock, **options: Any) -> Store:
        return await self._open(self.location, clock, options)

    async def elsewhere(self, *, clock: HandClock, **options: Any) -> Store:
        """A store on another database, which it makes itself: with a key of its own."""
        return await self._open(self._empty(), clock, options)

    def empty(self) -> str | Path:
        """The location of another database, without tables."""
        return self._empty()

    def sql(self, *statements: str, where: str | Path | None = None) -> list[tuple[Any, ...]]:
        """Behind the store's back, in one transaction. The rows of the last statement."""
        return run_sql(where or self.location, *statements)

    async def _open(self, where: str | Path, clock: HandClock, options: dict[str, Any]) -> Store:
        store = await Store.open(where, clock=clock, **options)
        self._opened.push_async_callback(store.close)
        return store

    async def close(self) -> None:
        await self._opened.aclose()


@pytest.fixture(scope="session")
def postgres_databases() -> Iterator[Databases]:
    with running_postgres() as server:
        databases = Databases(server)
        databases.prepare()
        yield databases


@asynccontextmanager
async def store_maker(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[StoreMaker]:
    """Of the backend that the request is parametrised with."""
    if request.param == "sqlite":
        numbers = itertools.count()
        maker = StoreMaker(
            backend="sqlite",
            location=migrated(tmp_path / "triage.db"),
            _empty=lambda: tmp_path / f"empty-{next(numbers)}.db",
        )
        yield maker
        await maker.close()
        return
    databases: Databases = request.getfixturevalue("postgres_databases")
    made = [databases.new()]

    def empty() -> str:
        made.append(databases.new(template="template0"))
        return made[-1]

    maker = StoreMaker(backend="postgres", location=made[0], _empty=empty)
    yield maker
    await maker.close()
    for url in made:
        databases.drop(url)


@pytest.fixture(params=BACKENDS)
async def make_store(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[StoreMaker]:
    async with store_maker(request, tmp_path) as maker:
        yield maker
