"""Asks every source who it is. Imported for `--connect` only: it brings the adapters' libraries."""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Mapping

from triage.app.oneoff import Probed
from triage.app.sections import AnySource
from triage.app.sources import make_source
from triage.cli.source_report import SourceReport
from triage.errors import ConfigError, SourceFailed, ToolFailed
from triage.telemetry import logs


def probe(sections: Mapping[str, AnySource], *, timeout_s: float) -> list[SourceReport]:
    """Each source opened, asked who it is, and closed; all at once, in the order given."""
    logs.configure(format="console", level="critical", stream=sys.stderr)
    return asyncio.run(_probe_all(sections, timeout_s))


async def _probe_all(sections: Mapping[str, AnySource], timeout_s: float) -> list[SourceReport]:
    return list(
        await asyncio.gather(
            *(_probe(name, section, timeout_s) for name, section in sections.items())
        )
    )


async def _probe(name: str, section: AnySource, timeout_s: float) -> SourceReport:
    began = time.monotonic()
    version = problem = ""
    try:
        source = make_source(name, section)
        try:
            await source.open()
            if isinstance(source, Probed):
                version = await source.probe(timeout_s=timeout_s)
        finally:
            await source.close()
    except (ConfigError, SourceFailed, ToolFailed) as error:
        problem = str(error)
    return SourceReport(
        name=name,
        type=section.type,
        version=version,
        problem=problem,
        elapsed_ms=(time.monotonic() - began) * 1000,
    )
