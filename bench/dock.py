"""The dock as the runtime meets it: its procedure, and its three sources."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.demo.world import built_world
from bench.world.cache import digest_of, world_sources
from bench.world.equipment_facts import write_equipment
from bench.world.metrics import WorldMetrics
from bench.world.served import ServedSeries
from bench.world.warehouse import fill_sqlite
from bench.world.world import OPEN_SEED, WHOLE, Extent, World
from triage.adapters.mcp import McpSource
from triage.adapters.sql import SqlSource
from triage.app.procedure import Loaded
from triage.errors import ConfigError, InvalidFiles
from triage.library.check import check_parents
from triage.library.loader import load_library
from triage.ports import Source
from triage.sop.load import load_sop
from triage.sop.sites import load_sites

ROOT = Path(__file__).resolve().parent.parent
SOP = ROOT / "sop.yaml"
SITES = ROOT / "sites.yaml"
LIBRARY = ROOT / "tools_lib"
CACHE = ROOT / ".bench"
"""Where built worlds lie, out of version control."""

DEMO = CACHE / "demo"
"""The world that `triage.toml` serves."""

ANSWER_BYTES = 8 << 20
CONNECT_S = 30.0


def procedure(sop: Path = SOP, sites: Path = SITES, library: Path = LIBRARY) -> Loaded:
    """Raises InvalidFiles."""
    loaded = load_sop(sop)
    tools = load_library(library, loaded)
    findings = (*tools.findings, *check_parents(library, loaded, tools))
    if any(not finding.warning for finding in findings):
        raise InvalidFiles(findings)
    return Loaded(
        sop=loaded, sites=load_sites(sites, loaded), library=tools, warnings=tuple(findings)
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class DockFiles:
    """A world on disk, as far as it is served from files."""

    world: World
    warehouse: Path
    equipment: Path


def dock_files(seed: int = OPEN_SEED, extent: Extent = WHOLE, folder: Path = CACHE) -> DockFiles:
    """The world and its files, built where `folder` does not have them."""
    # Before the world is built: a source that is edited meanwhile must not name these files.
    name = f"{seed}-{extent.start}-{extent.days}-{extent.sites}-{digest_of(world_sources())}"
    world = World.load(seed, folder, extent)
    equipment = folder / f"equipment-{name}.json"
    if not equipment.exists():
        write_equipment(equipment, world.minutes, seed)
    warehouse = folder / f"warehouse-{name}.db"
    if not warehouse.exists():
        fill_sqlite(warehouse, world.tables, range(extent.sites))
    return DockFiles(world=world, warehouse=warehouse, equipment=equipment)


def metrics_source(files: DockFiles) -> WorldMetrics:
    return WorldMetrics(ServedSeries(files.world.series, files.world.seed))


def open_metrics(
    name: str, *, path: Path | None, options: Mapping[str, Any], address: str
) -> WorldMetrics:
    """What `type = "custom"` in triage.toml names: the metrics of the world in the folder `path`.

    Takes some seconds, so that no first answer does: a real Prometheus is up already when triage
    starts. Raises ConfigError when no world lies there.
    """
    if path is None or options or address:
        raise ConfigError(f"source {name}: give `path`, the folder of a world, and nothing else")
    world = built_world(path)
    served = ServedSeries(world.series, world.seed)
    for site in range(len(world.sites)):
        served.prepare(site)
    return WorldMetrics(served, name)


@asynccontextmanager
async def embedded_sources(files: DockFiles) -> AsyncIterator[dict[str, Source]]:
    """Metrics from the world itself, tables from SQLite, equipment from an MCP server that is
    started here. All are open, and closed at the end."""
    sources: dict[str, Source] = {
        "metrics": metrics_source(files),
        "warehouse": SqlSource(
            "warehouse",
            f"sqlite:///{files.warehouse}",
            max_rows=100_000,
            max_bytes=ANSWER_BYTES,
            pool_size=2,
        ),
        "equipment": McpSource(
            "equipment",
            command=sys.executable,
            args=("-m", "bench.world.equipment_server", "stdio", str(files.equipment)),
            cwd=str(ROOT),
            max_bytes=ANSWER_BYTES,
        ),
    }
    async with AsyncExitStack() as stack:
        for source in sources.values():
            await source.open()
            stack.push_async_callback(source.close)
        await sources["equipment"].probe(timeout_s=CONNECT_S)  # type: ignore[attr-defined] # the MCP adapter's own
        yield sources
