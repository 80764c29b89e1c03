"""A gap as material for the tool maker, and its closing once a version answers it."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from triage.app.exits import Exit
from triage.app.sections import McpSource
from triage.app.settings import Settings
from triage.cli.exit_codes import CommandFailed
from triage.cli.origin import Origin
from triage.cli.reading import reader, whole_gap_id
from triage.cli.text import printable
from triage.clock import SystemClock
from triage.errors import ConfigError, SandboxFailed, StoreError
from triage.fallback.masking import Mask
from triage.maker.from_gap import GapMaterial, gap_material
from triage.model.gap import NOTE_CHARS
from triage.sop.load import load_sop
from triage.sop.procedure import Sop
from triage.sop.sites import Sites, load_sites

if TYPE_CHECKING:
    from triage.library.manifest import ManifestVersion
    from triage.model.decision import NodeId

MOST_CASES = 50
"""Of a gap that are taken, the newest: a tool that answers those answers the rest."""


async def read_material(
    origin: Origin, given: str, *, settings: Settings, sop: Sop, sites: Sites
) -> GapMaterial:
    """`given` is a gap's id, or how it begins. It is read from the store of the configuration,
    beside a daemon that may be serving from it, or over HTTP; there alerts' labels cannot be had.
    Raises CommandFailed when there is no such gap, and what `reading.reader` does."""
    async with reader(origin) as source:
        gap_id = await whole_gap_id(source, given)
        group = await source.gap(gap_id, cases=MOST_CASES)
        if group is None:
            raise CommandFailed(
                f"no gap {printable(given)} was ever recorded — see `triage gaps list`",
                Exit.FINDINGS,
            )
        documents: dict[str, Mapping[str, Any]] = {}
        labels: dict[str, Mapping[str, str]] = {}
        for case in group.get("cases", ()):
            alert_id = str(case["alert_id"])
            if (document := await source.decision(alert_id)) is not None:
                documents[alert_id] = document
            if (told := await source.labels(alert_id)) is not None:
                labels[alert_id] = told
        try:
            return await gap_material(
                group,
                documents,
                source.evidence,
                labels=labels,
                sop=sop,
                sites=sites,
                mask=Mask(settings.fallback.mask, settings.secrets()),
                own=own_servers(settings),
            )
        except ValueError as error:
            raise CommandFailed(
                f"gap {gap_id}: {error} — it was written by another version", Exit.UNAVAILABLE
            ) from None


def close_gap(config: Path, node: NodeId, entry: ManifestVersion, *, by: str) -> str:
    """Closes the gap that a version was made for, when it answers it; what came of it, in one line.

    For a version that is promoted already: whatever keeps it from being closed is told with what to
    do next, and raises nothing that a person could mend.
    """
    by_hand = f"close it by hand when it is dealt with: triage gaps close {entry.gap}"
    try:
        return asyncio.run(_close(config, node, entry, by))
    except (ConfigError, StoreError, SandboxFailed, CommandFailed, OSError) as error:
        return f"gap {entry.gap} stays open: {error} — {by_hand}"


async def _close(config: Path, node: NodeId, entry: ManifestVersion, by: str) -> str:
    from triage.app.gap_closing import close_gap_of

    settings = with_secrets(config)
    sop = load_sop(settings.sop.file)
    sites = load_sites(settings.sop.sites, sop)
    origin = Origin(config=config)
    material = await read_material(origin, entry.gap, settings=settings, sop=sop, sites=sites)
    if material.node != node:
        raise ConfigError(f"it is a gap of {material.node}, and the version one of {node}")

    async def close(note: str) -> None:
        async with reader(origin, changes=True) as source:
            await source.close_gap(material.gap_id, by=by, note=note[:NOTE_CHARS])

    clock = SystemClock()
    found = await close_gap_of(settings, sop, sites, entry, material, close=close, clock=clock)
    return found.detail


def own_servers(settings: Settings) -> list[str]:
    """Names of the sources that are MCP servers themselves: traces call their tools as they are."""
    return [name for name, one in settings.sources.items() if isinstance(one, McpSource)]


def with_secrets(config: Path) -> Settings:
    """With the secrets that can be had here: whoever looks at traces and gaps need not have those
    of every source. Raises ConfigError."""
    try:
        return Settings.load(config, os.environ)
    except ConfigError:
        return Settings.load(config, os.environ, read_secrets=False)
