"""Sources as agents reach them: over MCP, behind bounds of their own.

A source that is an MCP server itself shares its session; any other gets a face, a server of ours
over it. Either is guarded a second time, so that agents, however many, take no slot of a tool, and
what they provoke opens no breaker but theirs.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Collection, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from typing import assert_never

import structlog

from triage.adapters.mcp import EVERYTHING, METRICS, TABLES, FaceSource
from triage.app import sections
from triage.app.fallback_section import FallbackSection
from triage.app.sections import AnySource
from triage.errors import TriageError
from triage.evaluation.guard import GuardedSource, OverMcp, SourceLimits
from triage.ports import Shelf, Source
from triage.telemetry.edge_metrics import SourceCell, SourceMetrics


def cell_name(source: str) -> str:
    """What agents' calls are counted under; no source can have such a name itself."""
    return f"{source}:fallback"


def agent_limits(own: SourceLimits, section: FallbackSection) -> SourceLimits:
    """The source's own breaker, with the time, slots and size that agents are given."""
    return replace(
        own,
        timeout_s=section.source_timeout_s,
        max_concurrency=section.source_concurrency,
        max_answer_bytes=section.max_answer_bytes,
    )


def offered_by(section: AnySource) -> Collection[str]:
    """The tools of a face over such a source. One of somebody's own may take every kind of query,
    unless it tells what it has (`ports.Catalogued`); a kind that it does not take is a refused
    query."""
    match section:
        case sections.PrometheusSource():
            return METRICS
        case sections.SqlSource():
            return TABLES
        case sections.McpSource():
            return ()
        case sections.CustomSource():
            return EVERYTHING
        case _:
            assert_never(section)


async def reached_over_mcp(
    guarded: GuardedSource,
    offered: Collection[str],
    *,
    limits: SourceLimits,
    metrics: SourceCell,
    monotonic: Callable[[], float],
) -> OverMcp:
    """Open. `offered` are the tools of a face, where the source needs one."""
    source = guarded.source
    if isinstance(source, Shelf):
        return OverMcp(guarded=GuardedSource(source, limits, metrics, monotonic), shelf=source)
    face = FaceSource(source, offered, max_bytes=limits.max_answer_bytes, monotonic=monotonic)
    await face.open()
    return OverMcp(guarded=GuardedSource(face, limits, metrics, monotonic), shelf=face)


async def close_over_mcp(guarded: GuardedSource) -> None:
    """Close the source's face, where it has one. A session that it shares is its own to close."""
    over, guarded.over_mcp = guarded.over_mcp, None
    if over is not None and over.guarded.source is not guarded.source:
        await close_quietly(over.guarded.source)


async def close_quietly(source: Source) -> None:
    """What a source raises is logged: it is gone for us, and no alert may suffer from it."""
    try:
        await source.close()
    except (TriageError, OSError) as error:
        structlog.get_logger("triage.sources").warning(
            "source_not_closed", source=source.name, error=str(error)
        )


@asynccontextmanager
async def all_over_mcp(
    sources: Mapping[str, GuardedSource],
    *,
    limits: SourceLimits,
    metrics: SourceMetrics,
    monotonic: Callable[[], float],
    offered: Mapping[str, Collection[str]] | None = None,
) -> AsyncIterator[None]:
    """For sources that were put together by hand: within this, each has its `over_mcp`.

    `offered` maps a source to the tools of its face (METRICS, TABLES); one that it does not name
    has all of them. `metrics` has to have been told of `cell_name(…)` of each source to expose it.
    """
    async with AsyncExitStack() as stack:
        for name, guarded in sources.items():
            guarded.over_mcp = await reached_over_mcp(
                guarded,
                (offered or {}).get(name, EVERYTHING),
                limits=limits,
                metrics=metrics.cell(cell_name(name)),
                monotonic=monotonic,
            )
            stack.push_async_callback(close_over_mcp, guarded)
        yield
