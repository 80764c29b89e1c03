"""The collector of a configuration: the fallback's agent, and what stands in for sources that were
recorded with a case."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Collection, Mapping
from contextlib import asynccontextmanager

from triage.app.fallback_section import FallbackSection
from triage.app.over_mcp import agent_limits, all_over_mcp, offered_by
from triage.app.sections import AnySource, McpSource
from triage.evaluation.guard import GuardedSource, SourceLimits
from triage.fallback.masking import Mask
from triage.maker.collect import Collector, Reached
from triage.ports import Fallback, Source
from triage.sop.procedure import Sop
from triage.sop.sites import Sites
from triage.telemetry.edge_metrics import SourceMetrics


def collector(
    *,
    fallback: Fallback,
    section: FallbackSection,
    sop: Sop,
    sites: Sites,
    sources: Mapping[str, GuardedSource],
    sections: Mapping[str, AnySource],
    mask: Mask,
    metrics: SourceMetrics,
    monotonic: Callable[[], float],
) -> Collector:
    """`sources` are open and over MCP (`SourcePool` with a `section` that is on), none where only
    recordings are to be asked. `sections` are those of the configuration."""
    return Collector(
        fallback=fallback,
        sop=sop,
        sites=sites,
        sources=sources,
        faces={
            name: offered_by(one)
            for name, one in sections.items()
            if not isinstance(one, McpSource)
        },
        reached=reached_by(section, metrics=metrics, monotonic=monotonic),
        mask=mask,
        timeout_s=section.timeout_s,
        monotonic=monotonic,
    )


def reached_by(
    section: FallbackSection, *, metrics: SourceMetrics, monotonic: Callable[[], float]
) -> Reached:
    """How sources made for one case are put over MCP, with the bounds that agents have."""
    limits = agent_limits(SourceLimits(), section)

    @asynccontextmanager
    async def reached(
        made: Mapping[str, Source], faces: Mapping[str, Collection[str]]
    ) -> AsyncIterator[Mapping[str, GuardedSource]]:
        guarded = {
            name: GuardedSource(source, limits, metrics.cell(name), monotonic)
            for name, source in made.items()
        }
        async with all_over_mcp(
            guarded, limits=limits, metrics=metrics, monotonic=monotonic, offered=faces
        ):
            yield guarded

    return reached
