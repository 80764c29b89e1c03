"""What is served now: loaded at start, replaced whole by a reload or not at all."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import structlog
from prometheus_client.core import Metric

from triage.app.field_maps import field_maps
from triage.app.garbage import undisturbed
from triage.app.procedure import Loaded, load_procedure
from triage.app.settings import Settings, restart_needed
from triage.app.sources import SourcePool, close_source
from triage.engine.snapshot import Snapshot, SnapshotHolder, downstream, snapshot
from triage.errors import ConfigError, Finding
from triage.intake.fields import FieldMap
from triage.library import linted, quarantine
from triage.library.ahead import Ahead
from triage.library.catalogue import Library
from triage.library.memory import Memory, Remembered
from triage.library.shadow import ShadowTool
from triage.model.decision import NodeId
from triage.telemetry import logs
from triage.telemetry.metrics import Metrics
from triage.telemetry.state_metrics import ToolMetrics, ToolRow

NODES_AT_ONCE = 200  # new ones exposed in one go: about 5 ms


@dataclass(frozen=True, slots=True, kw_only=True)
class Files:
    """Where the configuration, the quarantine and the memory of lints are. `override` is put over
    the environment; without `linted` every start lints every tool."""

    config: Path
    quarantine: Path
    linted: Path | None = None
    override: Mapping[str, str]

    def settings(self) -> Settings:
        return Settings.load(self.config, {**os.environ, **self.override})


@dataclass(frozen=True, slots=True, kw_only=True)
class _Prepared:
    """All that can be made ready off the event loop."""

    loaded: Loaded
    ways: Mapping[str, tuple[NodeId, ...]]
    tool_families: list[Metric]


class Current:
    """Settings, snapshot and field maps that go together. Belongs to the event loop's thread."""

    def __init__(
        self,
        *,
        files: Files,
        settings: Settings,
        pool: SourcePool,
        metrics: Metrics,
    ) -> None:
        self._files = files
        self._pool = pool
        self._metrics = metrics
        self._maps: Mapping[str, FieldMap] = {}
        self._shadows: Mapping[NodeId, ShadowTool] = {}
        self._holder: SnapshotHolder | None = None
        self._reloading = asyncio.Lock()
        self._log = structlog.get_logger("triage.config")
        self._started_with = settings
        self._memory = Memory()
        self.settings = settings

    @property
    def snapshots(self) -> SnapshotHolder:
        assert self._holder is not None, "start() comes first"
        return self._holder

    @property
    def shadows(self) -> Mapping[NodeId, ShadowTool]:
        """What runs beside the snapshot's tools. An attempt that pinned an older snapshot is
        compared with these: a pair is known by its contents."""
        return self._shadows

    def field_map(self, name: str) -> FieldMap | None:
        return self._maps.get(name)

    async def start(self, ahead: Ahead | None = None) -> None:
        """Raises ConfigError; then nothing is open. `ahead` was begun for the library."""
        if self._files.linted is not None:
            self._memory.latest = Remembered(passed=linted.read(self._files.linted))
        known = self._memory.latest.passed
        with undisturbed():
            new, maps, shadows = await self._load(self.settings, ahead)
        self._maps, self._shadows = maps, shadows
        self._holder = SnapshotHolder(new, close_source)
        await self._remember_linted(known)

    async def reload(self) -> Mapping[str, Any]:
        """Read everything again and serve it from the next attempt on; attempts under way keep
        what they have. Raises ConfigError, and then nothing has changed."""
        async with self._reloading:
            known = self._memory.latest.passed
            with undisturbed():
                document = await self._reload()
            await self._remember_linted(known)
            return document

    async def _reload(self) -> Mapping[str, Any]:
        try:
            settings = self._files.settings()
            new, maps, shadows = await self._load(settings)
        except ConfigError as error:
            self._metrics.runtime.reload(accepted=False)
            self._log.error("reload_refused", error=str(error))
            raise
        # What the process runs with, not what the reload before this one read.
        restart = restart_needed(self._started_with, settings)
        self._maps, self._shadows = maps, shadows
        self.settings = settings
        await self._hand_over(new)
        logs.set_level(settings.log.level)
        self._metrics.runtime.reload(accepted=True)
        self._log.info("reloaded", sop_sha256=new.pinned.sop_sha256, restart_needed=restart)
        return {
            "reloaded": True,
            "sop": new.pinned.sop,
            "sop_version": new.pinned.sop_version,
            "sop_sha256": new.pinned.sop_sha256,
            "library_sha256": new.pinned.library_sha256,
            "restart_needed": restart,
        }

    async def _hand_over(self, new: Snapshot) -> None:
        """Make `new` current, and free the old one off the event loop."""
        old = self.snapshots.current
        parts: list[object] = [
            *old.sop.nodes.values(),
            *old.sop.steps.values(),
            *old.library.tools.values(),
            *old.downstream.values(),
        ]
        await self.snapshots.replace(new)
        del old
        await asyncio.to_thread(_free, parts)

    async def close(self) -> None:
        if self._holder is not None:
            await self._holder.close()

    async def _load(
        self, settings: Settings, ahead: Ahead | None = None
    ) -> tuple[Snapshot, Mapping[str, FieldMap], Mapping[NodeId, ShadowTool]]:
        maps = field_maps(settings.intake)
        quarantined = quarantine.read(self._files.quarantine)
        # In a thread: a large SOP takes a second to check, and alerts are decided meanwhile.
        prepared = await asyncio.to_thread(self._prepare, settings, quarantined, ahead)
        loaded = prepared.loaded
        for finding in loaded.warnings:
            self._warn(finding)
        sources = await self._pool.take_up(settings.sources)
        await self._expose(prepared)
        made = snapshot(loaded.sop, loaded.sites, loaded.library, sources, ways=prepared.ways)
        return made, maps, loaded.shadows

    def _prepare(
        self, settings: Settings, quarantined: Mapping[str, str], ahead: Ahead | None
    ) -> _Prepared:
        loaded = load_procedure(settings, quarantined, memory=self._memory, ahead=ahead)
        library = loaded.library
        return _Prepared(
            loaded=loaded,
            ways=downstream(loaded.sop),
            tool_families=ToolMetrics.families(
                _tool_rows(library),
                {node: failed.reason for node, failed in library.broken.items()},
            ),
        )

    async def _remember_linted(self, known: frozenset[str]) -> None:
        file, passed = self._files.linted, self._memory.latest.passed
        if file is None or passed == known:
            return
        try:
            await asyncio.to_thread(linted.write, file, passed)
        except OSError as error:
            self._log.warning("lints_not_remembered", file=str(file), error=str(error))

    def _warn(self, finding: Finding) -> None:
        self._log.warning(
            "finding",
            file=finding.file,
            line=finding.line,
            where=finding.where,
            problem=finding.problem,
            fix=finding.fix,
        )

    async def _expose(self, prepared: _Prepared) -> None:
        metrics, loaded = self._metrics, prepared.loaded
        new = metrics.nodes.missing(loaded.sop.nodes)
        for at in range(0, len(new), NODES_AT_ONCE):
            for node in new[at : at + NODES_AT_ONCE]:
                metrics.nodes.cell(node)
            await asyncio.sleep(0)
        metrics.nodes.for_nodes(loaded.sop.nodes)
        metrics.shadows.for_nodes(loaded.shadows)
        await asyncio.sleep(0)
        # Whoever renders the old ones just now holds them too: they are left whole.
        before = [
            s for family in metrics.tools.show(prepared.tool_families) for s in family.samples
        ]
        await asyncio.to_thread(_free, before)
        metrics.runtime.snapshot.update(
            sop=loaded.sop.name,
            sop_version=loaded.sop.version,
            sop_sha256=loaded.sop.sha256,
        )


def _free(parts: list[Any]) -> None:
    """One by one, so that the event loop gets the interpreter in between: 4,400 nodes at once
    take 20 ms."""
    while parts:
        parts.pop()


def _tool_rows(library: Library) -> list[ToolRow]:
    return [
        ToolRow(
            node=tool.node,
            version=tool.version,
            sha256=tool.sha256,
            status=tool.status.value,
            stale=tool.stale,
        )
        for tool in library.tools.values()
    ]
