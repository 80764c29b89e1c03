"""A store and a queue for a measurement, with the servers that they need."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from bench.chaos.options import EMBEDDED
from bench.chaos.servers import KillablePostgres, make_broker
from bench.real_servers.postgres import running_cluster
from bench.servers import HOST, Server


@dataclass(frozen=True, slots=True, kw_only=True)
class Queued:
    """`settings` are for a daemon; `servers` are the process ids behind it, by name."""

    settings: Mapping[str, str]
    servers: Mapping[str, int]


@contextmanager
def queue_servers(queue: str, store: str, folder: Path) -> Iterator[Queued]:
    """The servers of `queue` and `store`, running; a store of SQLite is the daemon's own. Raises
    MissingServer."""
    settings: dict[str, str] = {}
    servers: dict[str, int] = {}
    with ExitStack() as stack:
        if store == "postgres":
            postgres: KillablePostgres = stack.enter_context(running_cluster(KillablePostgres))
            settings["STORE__URL"] = postgres.url
            servers["postgres"] = postgres.pid
        if queue not in EMBEDDED:
            broker = make_broker(queue, folder / queue)
            stack.callback(broker.kill)
            broker.start()
            settings["QUEUE__URL"] = f"{queue}://{HOST}:{broker.port}"
            assert isinstance(broker, Server)
            assert broker.process is not None
            servers[queue] = broker.process.pid
        yield Queued(settings=settings, servers=servers)
