"""What is served now: loaded at start, replaced whole by a reload or not at all."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import structlog

from triage.app.field_maps import field_maps
from triage.app.procedure import Loaded, load_procedure
from triage.app.settings import Settings, restart_needed
from triage.app.sources import SourcePool, close_source
from triage.engine.snapshot import Snapshot, SnapshotHolder, snapshot
from triage.errors import ConfigError, Finding
from triage.intake.fields import FieldMap
from triage.library import quarantine
from triage.library.catalogue import Library
from triage.telemetry import logs
from triage.telemetry.metrics import Metrics
from triage.telemetry.state_metrics import ToolRow


@dataclass(frozen=True, slots=True, kw_only=True)
class Files:
    """Where the configuration and the quarantine are. `override` is put over the environment."""

    config: Path
    quarantine: Path
    override: Mapping[str, str]

    def settings(self) -> Settings:
        return Settings.load(self.config, {**os.environ, **self.override})


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
        self._holder: SnapshotHolder | None = None
        self._reloading = asyncio.Lock()
        self._log = structlog.get_logger("triage.config")
        self._started_with = settings
        self.settings = settings

    @property
    def snapshots(self) -> SnapshotHolder:
        assert self._holder is not None, "start() comes first"
        return self._holder

    def field_map(self, name: str) -> FieldMap | None:
        return self._maps.get(name)

    async def start(self) -> None:
        """Raises ConfigError; then nothing is open."""
        new, maps = await self._load(self.settings)
        self._maps = maps
        self._holder = SnapshotHolder(new, close_source)

    async def reload(self) -> Mapping[str, Any]:
        """Read everything again and serve it from the next attempt on; attempts under way keep
        what they have. Raises ConfigError, and then nothing has changed."""
        async with self._reloading:
            try:
                settings = self._files.settings()
                new, maps = await self._load(settings)
            except ConfigError as error:
                self._metrics.runtime.reload(accepted=False)
                self._log.error("reload_refused", error=str(error))
                raise
            # What the process runs with, not what the reload before this one read.
            restart = restart_needed(self._started_with, settings)
            self._maps = maps
            self.settings = settings
            await self.snapshots.replace(new)
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

    async def close(self) -> None:
        if self._holder is not None:
            await self._holder.close()

    async def _load(self, settings: Settings) -> tuple[Snapshot, Mapping[str, FieldMap]]:
        maps = field_maps(settings.intake)
        quarantined = quarantine.read(self._files.quarantine)
        # In a thread: a large SOP takes a second to check, and alerts are decided meanwhile.
        loaded: Loaded = await asyncio.to_thread(load_procedure, settings, quarantined)
        for finding in loaded.warnings:
            self._warn(finding)
        sources = await self._pool.take_up(settings.sources)
        self._expose(loaded)
        return snapshot(loaded.sop, loaded.sites, loaded.library, sources), maps

    def _warn(self, finding: Finding) -> None:
        self._log.warning(
            "finding",
            file=finding.file,
            line=finding.line,
            where=finding.where,
            problem=finding.problem,
            fix=finding.fix,
        )

    def _expose(self, loaded: Loaded) -> None:
        metrics = self._metrics
        metrics.nodes.for_nodes(loaded.sop.nodes)
        metrics.tools.update(
            _tool_rows(loaded.library),
            {node: failed.reason for node, failed in loaded.library.broken.items()},
        )
        metrics.runtime.snapshot.update(
            sop=loaded.sop.name,
            sop_version=loaded.sop.version,
            sop_sha256=loaded.sop.sha256,
        )


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
