"""What making a tool needs of a configuration: model, sandbox, sources and collector, opened and
closed together."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, assert_never

from prometheus_client import CollectorRegistry
from pydantic import SecretStr

from triage.app import sections
from triage.app.collecting import collector
from triage.app.fallback import agent
from triage.app.fallback_section import FallbackSection
from triage.app.sections import AnySource
from triage.app.settings import Settings
from triage.app.sources import open_sources
from triage.app.trial_parts import asked_by, candidate_of, room_for, sandbox_trials
from triage.errors import ConfigError, SandboxFailed
from triage.fallback.masking import Mask
from triage.library.files import Unreadable
from triage.library.manifest import read_manifest
from triage.maker.answering import CaseSettings
from triage.maker.gates import ActiveVersion
from triage.maker.loop import Collector
from triage.maker.task import SourceKind
from triage.model.decision import NodeId
from triage.ports import ChatModel, Clock
from triage.sop.load import load_sop
from triage.sop.procedure import Sop
from triage.sop.sites import Sites, load_sites
from triage.telemetry.edge_metrics import SourceMetrics
from triage.telemetry.fallback_metrics import FallbackMetrics
from triage.trial.model import Trials

if TYPE_CHECKING:
    from triage.adapters.chat import ChatEndpoint

WORKERS = 2
"""Of the sandbox that trials run in: one for them, one that is warm for the next session."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Workbench:
    """What a tool is made from, read and checked, before anything is opened. `section` is what the
    collecting agent runs with."""

    settings: Settings
    sop: Sop
    sites: Sites
    section: FallbackSection
    model: str


def workbench(settings: Settings) -> Workbench:
    """Blocking: reads files. Raises ConfigError when no endpoint is configured, and for an SOP or
    sites file that cannot be used."""
    make, fallback = settings.make, settings.fallback
    if not make.llm_url and not fallback.is_on:
        raise ConfigError(
            "no model is configured to make a tool with: set llm_url and model of [make], or of"
            " [fallback]"
        )
    sop = load_sop(settings.sop.file)
    return Workbench(
        settings=settings,
        sop=sop,
        sites=load_sites(settings.sop.sites, sop),
        section=fallback if fallback.is_on else _as_fallback(settings),
        model=make.model if make.llm_url else fallback.model,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    model: ChatModel
    trials: Trials
    settings: CaseSettings
    collector: Collector | None


@asynccontextmanager
async def opened(
    bench: Workbench, node: NodeId, *, mask: Mask, clock: Clock, collects: bool
) -> AsyncIterator[Parts]:
    """Everything that a making asks, open until the block ends. Without `collects` there is no
    collector. Raises ConfigError and SandboxFailed; a source that is down raises nothing yet."""
    settings = bench.settings
    declared = _declared(bench, node)
    registry = CollectorRegistry()
    metrics = SourceMetrics.register(registry)
    section = bench.section if collects else None
    async with AsyncExitStack() as stack:
        model = await stack.enter_async_context(_endpoint(bench, clock))
        trials = await stack.enter_async_context(
            sandbox_trials(clock, room_for(declared), mask=mask, workers=WORKERS)
        )
        sources = await stack.enter_async_context(
            open_sources(declared, clock, metrics=metrics, fallback=section)
        )
        made: Collector | None = None
        if section is not None:
            helper = await stack.enter_async_context(
                agent(
                    section,
                    library=settings.sop.library,
                    secrets=settings.secrets(),
                    metrics=FallbackMetrics.register(registry),
                    clock=clock,
                )
            )
            if helper.fallback is None:
                raise SandboxFailed(helper.state)
            made = collector(
                fallback=helper.fallback,
                section=section,
                sop=bench.sop,
                sites=bench.sites,
                sources=sources,
                sections=declared,
                mask=mask,
                metrics=metrics,
                monotonic=clock.monotonic,
            )
        settings_of = CaseSettings(bench.sites, sources, monotonic=clock.monotonic)
        yield Parts(model=model, trials=trials, settings=settings_of, collector=made)


@asynccontextmanager
async def _endpoint(bench: Workbench, clock: Clock) -> AsyncIterator[ChatEndpoint]:
    from triage.adapters.chat import ChatEndpoint

    make = bench.settings.make
    where = make if make.llm_url else bench.settings.fallback
    model = ChatEndpoint(
        bench.model,
        where.llm_url,
        api_key=where.secret("api_key"),
        ca_file=str(where.ca_file or ""),
        temperature=make.temperature,
        request_timeout_s=make.request_timeout_s,
        max_requests=1,
        monotonic=clock.monotonic,
    )
    try:
        await model.open()
        yield model
    finally:
        await model.close()


def active_version(bench: Workbench, node: NodeId) -> ActiveVersion | None:
    """What decides for the node now, None where nothing does. Blocking: reads files. Raises
    ConfigError for one that is there and cannot be read."""
    root = bench.settings.sop.library
    try:
        manifest, _ = read_manifest(root, node)
    except Unreadable as error:
        if error.missing:
            return None
        raise
    entry = manifest.active_version
    if entry is None:
        return None
    return ActiveVersion(
        version=entry.version,
        candidate=candidate_of(root, bench.sop, node, entry),
        max_queries=entry.max_queries,
    )


def kind_of(section: AnySource) -> SourceKind:
    """What a prompt may say of a source: no more than its section does."""
    match section:
        case sections.PrometheusSource():
            return SourceKind.SERIES
        case sections.SqlSource():
            return SourceKind.TABLES
        case sections.McpSource():
            return SourceKind.TOOLS
        case sections.CustomSource():
            return SourceKind.ANY
        case _:
            assert_never(section)


def _declared(bench: Workbench, node: NodeId) -> dict[str, AnySource]:
    """Raises ConfigError for a source of the node that is not configured."""
    known = bench.settings.sources
    missing = [name for name in bench.sop.nodes[node].sources if name not in known]
    if missing:
        raise ConfigError(
            f"{node} asks source {missing[0]!r}, which is not configured (configured:"
            f" {', '.join(sorted(known)) or 'none'}): add [sources.{missing[0]}]"
        )
    return asked_by(bench.settings, bench.sop, node)


def _as_fallback(settings: Settings) -> FallbackSection:
    """The collecting agent where only [make] has an endpoint: that one."""
    make = settings.make
    section = settings.fallback.model_copy(
        update={"llm_url": make.llm_url, "model": make.model, "ca_file": make.ca_file}
    )
    return section.with_secrets({"api_key": SecretStr(make.secret("api_key"))})
