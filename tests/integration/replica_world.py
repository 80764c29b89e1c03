"""Replicas that share a PostgreSQL database and a queue, each kind of which can be killed."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import ExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg

from bench.nats_server import NatsServer
from bench.redis_server import RedisServer
from tests.daemon import Daemon, Project, good_tool, running
from tests.daemon_neighbours import MetricsScript
from tests.postgres import PostgresServer
from tests.scripted_server import ScriptedServer

QUEUES = ("embedded", "redis", "nats")
BROKERS = ("redis", "nats")

Broker = RedisServer | NatsServer

_numbers = itertools.count()


@contextmanager
def broker(kind: str, folder: Path) -> Iterator[Broker | None]:
    """Running, and killed at the end; none for the embedded queue."""
    if kind == "embedded":
        yield None
        return
    server = RedisServer(folder) if kind == "redis" else NatsServer(folder)
    with server:
        yield server


def new_database(postgres: PostgresServer) -> str:
    """The URL of an empty one."""
    name = f"replicas_{next(_numbers)}"
    with psycopg.connect(postgres.url, autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name}".encode())
    return postgres.url.rpartition("/")[0] + f"/{name}"


@dataclass(slots=True, kw_only=True)
class Replicas:
    """`script` answers for the one source: the alarm `al_slow` waits until it is released."""

    project: Project
    script: MetricsScript
    broker: Broker | None
    database: str

    @asynccontextmanager
    async def serving(self, *names: str) -> AsyncIterator[list[Daemon]]:
        """Replicas that are ready."""
        with ExitStack() as stack:
            daemons = [
                stack.enter_context(running(Daemon(self.project, replica=name))) for name in names
            ]
            await asyncio.gather(*(daemon.started() for daemon in daemons))
            yield daemons

    def rows(self, sql: str) -> list[tuple[Any, ...]]:
        with psycopg.connect(self.database) as connection:
            return connection.execute(sql.encode()).fetchall()


@asynccontextmanager
async def replicas(
    folder: Path,
    postgres: PostgresServer,
    server: Broker | None,
    *,
    engine: Mapping[str, Any] | None = None,
    http: Mapping[str, Any] | None = None,
    hook_url: str = "",
) -> AsyncIterator[Replicas]:
    script = MetricsScript()
    database = new_database(postgres)
    async with ScriptedServer(script) as metrics:
        project = Project(
            folder=folder / "project",
            nodes={"good": good_tool(), "slow": good_tool("held")},
            metrics_url=metrics.url,
            hook_url=hook_url,
            store={"url": database},
            queue={"url": server.url} if server else {},
            engine={"deadline_s": 50, **(engine or {})},
            http=http or {},
            source={"timeout_s": 40},
        ).write()
        yield Replicas(project=project, script=script, broker=server, database=database)
        script.release()
