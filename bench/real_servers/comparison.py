"""The same alerts decided on the embedded sources, and on a real Prometheus, PostgreSQL and MCP
server over HTTP that hold the same data: every decision has to be the same.

One site and a week of its alerts, the weeks before it as far as tools look back.
"""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import uvloop

from bench.dock import (
    ANSWER_BYTES,
    CACHE,
    CONNECT_S,
    ROOT,
    DockFiles,
    dock_files,
    embedded_sources,
    procedure,
)
from bench.real_servers.agreement import agreement, asked
from bench.real_servers.backfill import Filled, Ranges, fill_prometheus, possible_queries, windows
from bench.real_servers.postgres import postgres_binaries, running_postgres
from bench.replay.alerts import HistoricalAlert, historical_alerts
from bench.replay.deciding import Decided, triage, warm_up
from bench.servers import HOST, Prometheus, binary
from bench.watching import Progress, Say, silent, unseen
from bench.world.layout import SITES
from bench.world.served import ServedSeries
from bench.world.warehouse import fill_postgres
from bench.world.world import OPEN_SEED, WHOLE, Extent
from triage.adapters.mcp import McpSource
from triage.adapters.prometheus import PrometheusSource
from triage.adapters.sql import SqlSource
from triage.app.procedure import Loaded
from triage.model.query import Query
from triage.ports import Source
from triage.tool_api import aggregate

ALERTS = 150
DAYS = 7
DAY_S = 86_400
SITE = 3
"""FC4, if the world has it: feet a minute, psi and Fahrenheit, and the clocks change in the weeks
before the last one."""
WARM_UP = 5
CONNECTIONS = 10
DATABASE_CONNECTIONS = 4
ASK_S = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Servers:
    """What runs, and how much of the past it was given. `held` are samples, as the server
    itself counts them."""

    prometheus: str
    postgres: str
    equipment: str
    filled: Filled
    held: int
    rows: int
    seconds: float


def measure(
    seed: int = OPEN_SEED,
    extent: Extent = WHOLE,
    folder: Path = CACHE,
    *,
    alerts: int = ALERTS,
    site: int | None = None,
    progress: Progress = unseen,
    say: Say = silent,
) -> dict[str, Any]:
    """Both runs and what differs between them; `site` is an index, SITE or the last by default.
    `seconds` are without building the world, `backfill_seconds` with starting the servers.

    Must not be called where an event loop runs. Raises MissingServer before anything else,
    InvalidFiles for a procedure that cannot be served, ValueError when there are no alerts, and
    RuntimeError when a server does not hold what it was given.
    """
    _installed()
    loaded = procedure()
    say("the world and its files")
    files = dock_files(seed, extent, folder)
    began = time.perf_counter()
    chosen = min(SITE, extent.sites - 1) if site is None else site
    history = historical_alerts(
        files.world,
        alerts,
        between=(max(extent.alerts_from, extent.end - DAYS * DAY_S), extent.end),
        sites=[chosen],
    )
    if not history:
        raise ValueError(f"{SITES[chosen].facts.name} has no alerts in its last week")

    def seen(before: int) -> Progress:
        return lambda done, _of: progress(before + done, 2 * len(history))

    say("deciding on the embedded sources")
    embedded = uvloop.run(_embedded(loaded, files, history, seen(0)))
    queries = possible_queries(loaded, history)
    queries.update(one.query for decided in embedded for one in asked(decided.decision))
    with _servers(files, chosen, queries, say) as servers:
        say("deciding on real servers")
        real = uvloop.run(_real(loaded, servers, history, seen(len(history))))
    return {
        **agreement(embedded, real),
        "site": SITES[chosen].facts.name,
        "samples_backfilled": servers.filled.written,
        "samples_held": servers.held,
        "samples_in_windows": servers.filled.asked,
        "rows_backfilled": servers.rows,
        "backfill_seconds": round(servers.seconds, 1),
        "seconds": round(time.perf_counter() - began, 1),
    }


# --- deciding ---------------------------------------------------------------------------------


async def _embedded(
    loaded: Loaded, files: DockFiles, alerts: Sequence[HistoricalAlert], progress: Progress
) -> list[Decided]:
    async with embedded_sources(files) as sources:
        return await _decided(loaded, sources, alerts, progress)


async def _real(
    loaded: Loaded, servers: Servers, alerts: Sequence[HistoricalAlert], progress: Progress
) -> list[Decided]:
    async with real_sources(servers) as sources:
        return await _decided(loaded, sources, alerts, progress)


async def _decided(
    loaded: Loaded,
    sources: Mapping[str, Source],
    alerts: Sequence[HistoricalAlert],
    progress: Progress,
) -> list[Decided]:
    await warm_up(loaded, sources, alerts, WARM_UP)
    async with triage(loaded, sources) as running:
        return await running.as_fast_as_possible(alerts, progress)


# --- servers ----------------------------------------------------------------------------------


def _installed() -> None:
    """Raises MissingServer."""
    binary("prometheus")
    binary("promtool", package="prometheus")
    postgres_binaries()


@contextmanager
def _servers(files: DockFiles, site: int, queries: set[Query], say: Say) -> Iterator[Servers]:
    began = time.perf_counter()
    with TemporaryDirectory(prefix="triage-bench-") as folder:
        prometheus = Prometheus(Path(folder))
        say("back-filling Prometheus")
        served = ServedSeries(files.world.series, files.world.seed)
        filled = fill_prometheus(prometheus, served, site, queries)
        with (
            prometheus,
            running_postgres() as postgres,
            equipment_server(files.equipment) as equipment,
        ):
            say("back-filling PostgreSQL")
            rows = fill_postgres(postgres.url, files.world.tables, [site])
            held = uvloop.run(_held(prometheus.url, site, windows(queries)))
            if held != filled.written or held <= filled.asked:
                raise RuntimeError(
                    f"Prometheus holds {held} samples of {filled.written} that were written,"
                    f" {filled.asked} of them within windows"
                )
            yield Servers(
                prometheus=prometheus.url,
                postgres=postgres.url,
                equipment=equipment,
                filled=filled,
                held=held,
                rows=rows,
                seconds=time.perf_counter() - began,
            )


async def _held(url: str, site: int, ranges: Ranges) -> int:
    """Samples of the site on the server, by its own count."""
    source = PrometheusSource("metrics", url, max_bytes=ANSWER_BYTES)
    await source.open()
    first = min(start for stretches in ranges.values() for start, _ in stretches)
    last = max(end for stretches in ranges.values() for _, end in stretches)
    around = aggregate(
        "metrics",
        "",
        datetime.fromtimestamp(last + DAY_S, UTC),
        last - first + 2 * DAY_S,
        "count",
    )
    found = 0.0
    try:
        for metric in ranges:
            selected = f'{metric}{{site="{SITES[site].facts.name}"}}'
            query = around._replace(selector=selected)
            found += sum(one.value for one in await source.ask(query, timeout_s=ASK_S))
    finally:
        await source.close()
    return int(found)


@contextmanager
def equipment_server(file: Path) -> Iterator[str]:
    """The URL of the dock's controllers as an MCP server over streamable HTTP."""
    process = subprocess.Popen(
        [sys.executable, "-m", "bench.world.equipment_server", "http", str(file), "0"],
        stdout=subprocess.PIPE,
        stdin=subprocess.DEVNULL,
        cwd=ROOT,
    )
    assert process.stdout is not None
    try:
        # It prints its port when it listens; one that cannot start ends its output instead.
        port = process.stdout.readline().strip().decode()
        if not port:
            raise RuntimeError(f"the equipment server ended with code {process.wait()}")
        yield f"http://{HOST}:{port}/mcp"
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


@asynccontextmanager
async def real_sources(servers: Servers) -> AsyncIterator[dict[str, Source]]:
    """All are open, and closed at the end."""
    equipment = McpSource("equipment", url=servers.equipment, max_bytes=ANSWER_BYTES)
    sources: dict[str, Source] = {
        "metrics": PrometheusSource(
            "metrics",
            servers.prometheus,
            max_bytes=ANSWER_BYTES,
            max_connections=CONNECTIONS,
        ),
        "warehouse": SqlSource(
            "warehouse",
            servers.postgres,
            max_rows=100_000,
            max_bytes=ANSWER_BYTES,
            pool_size=DATABASE_CONNECTIONS,
        ),
        "equipment": equipment,
    }
    async with AsyncExitStack() as stack:
        for source in sources.values():
            await source.open()
            stack.push_async_callback(source.close)
        await equipment.probe(timeout_s=CONNECT_S)
        yield sources
