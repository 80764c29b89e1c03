"""From a `[sources.NAME]` section to an adapter behind its bounds."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from importlib import import_module
from typing import assert_never

from prometheus_client import CollectorRegistry

from triage.app import sections
from triage.app.fallback_section import FallbackSection
from triage.app.over_mcp import (
    agent_limits,
    cell_name,
    close_over_mcp,
    close_quietly,
    offered_by,
    reached_over_mcp,
)
from triage.app.sections import AnySource
from triage.errors import ConfigError
from triage.evaluation.guard import GuardedSource, SourceLimits
from triage.ports import Clock, Connecting, Source
from triage.telemetry.edge_metrics import SourceMetrics


def make_source(name: str, section: AnySource) -> Source:
    """Not yet open. Raises ConfigError for settings that contradict each other.

    Each adapter is imported when a section asks for it: a daemon that speaks to Prometheus alone
    does not pay for the SQL and MCP libraries.
    """
    match section:
        case sections.PrometheusSource():
            from triage.adapters.prometheus import PrometheusSource

            return PrometheusSource(
                name,
                section.address,
                token=section.secret("bearer_token"),
                username=section.username,
                password=section.secret("password"),
                ca_file=str(section.ca_file or ""),
                max_bytes=section.max_answer_bytes,
                max_connections=section.max_concurrency,
            )
        case sections.SqlSource():
            from triage.adapters.sql import SqlSource

            return SqlSource(
                name,
                section.address,
                max_rows=section.max_rows,
                max_bytes=section.max_answer_bytes,
                pool_size=min(section.max_concurrency, MAX_SQL_CONNECTIONS),
            )
        case sections.McpSource():
            from triage.adapters.mcp import McpSource

            return McpSource(
                name,
                command=section.command,
                args=section.args,
                env=section.secret_map("env"),
                url=section.address,
                headers=section.secret_map("headers_env"),
                allow_tools=frozenset(section.allow_tools),
                max_bytes=section.max_answer_bytes,
            )
        case sections.CustomSource():
            return _custom(name, section)
        case _:
            assert_never(section)


def _custom(name: str, section: sections.CustomSource) -> Source:
    module_name, function = section.factory.split(":")
    if section.python_path is not None and str(section.python_path) not in sys.path:
        sys.path.insert(0, str(section.python_path))
    try:
        module = import_module(module_name)
    except ImportError as error:
        raise ConfigError(
            f"source {name}: cannot import {module_name}: {error}."
            " Install it, or name the folder it lies in as `python_path`"
        ) from error
    factory = getattr(module, function, None)
    if not callable(factory):
        raise ConfigError(
            f"source {name}: {module_name} has no function {function}: correct `factory`"
        )
    source = factory(
        name, path=section.path, options=dict(section.options), address=section.address
    )
    missing = [method for method in ("open", "ask", "close") if not hasattr(source, method)]
    if missing:
        raise ConfigError(
            f"source {name}: what {section.factory} made has no {', '.join(missing)}:"
            " it must be a triage.ports.Source"
        )
    made: Source = source
    return made


MAX_SQL_CONNECTIONS = 10
CONNECT_S = 10.0  # that alerts wait, after a start, for sources that have yet to connect


class SourcePool:
    """The open sources of the current settings; a source whose section did not change is kept.

    With a `fallback` that is on, each is reached over MCP as well. Those settings are the
    process's: they change with a restart only, so a source that is kept keeps its face.
    """

    def __init__(
        self, clock: Clock, metrics: SourceMetrics, *, fallback: FallbackSection | None = None
    ) -> None:
        self._clock = clock
        self._metrics = metrics
        self._fallback = fallback if fallback is not None and fallback.is_on else None
        self._open: dict[str, tuple[AnySource, GuardedSource]] = {}

    async def take_up(self, wanted: Mapping[str, AnySource]) -> dict[str, GuardedSource]:
        """Open what is new or changed. On a ConfigError nothing has changed, and what was opened
        by this call is closed again. Sources no longer wanted are closed by whoever holds their
        last snapshot."""
        opened: dict[str, tuple[AnySource, GuardedSource]] = {}
        async with AsyncExitStack() as undo:
            for name, section in wanted.items():
                kept = self._open.get(name)
                # Models compare by their secrets too, which are private fields.
                if kept is not None and kept[0] == section:
                    opened[name] = kept
                    continue
                source = make_source(name, section)
                await source.open()
                undo.push_async_callback(source.close)
                guarded = self._guarded(name, section, source)
                if self._fallback is not None:
                    await self._offer(self._fallback, name, section, guarded)
                    undo.push_async_callback(close_over_mcp, guarded)
                opened[name] = (section, guarded)
            undo.pop_all()
        self._open = opened
        agents = map(cell_name, wanted) if self._fallback is not None else ()
        self._metrics.for_sources((*wanted, *agents))
        return {name: guarded for name, (_, guarded) in opened.items()}

    async def settled(self) -> None:
        """Returns when every source has connected or failed to, or after CONNECT_S.

        An alert that is judged while a server is still starting would be degraded for nothing.
        """
        starting = [
            asyncio.ensure_future(guarded.source.settled())
            for _, guarded in self._open.values()
            if isinstance(guarded.source, Connecting)
        ]
        if not starting:
            return
        try:
            await asyncio.wait(starting, timeout=CONNECT_S)
        finally:
            for task in starting:
                task.cancel()

    def _guarded(self, name: str, section: AnySource, source: Source) -> GuardedSource:
        cell = self._metrics.cell(name)
        cell.breaker(is_open=False)  # of a source of this name before it
        return GuardedSource(
            source,
            SourceLimits(
                timeout_s=section.timeout_s,
                max_concurrency=section.max_concurrency,
                max_answer_bytes=section.max_answer_bytes,
                breaker_failures=section.breaker_failures,
                breaker_reset_s=section.breaker_reset_s,
            ),
            cell,
            self._clock.monotonic,
        )

    async def _offer(
        self, fallback: FallbackSection, name: str, section: AnySource, guarded: GuardedSource
    ) -> None:
        cell = self._metrics.cell(cell_name(name))
        cell.breaker(is_open=False)
        guarded.over_mcp = await reached_over_mcp(
            guarded,
            offered_by(section),
            limits=agent_limits(guarded.limits, fallback),
            metrics=cell,
            monotonic=self._clock.monotonic,
        )


@asynccontextmanager
async def open_sources(
    wanted: Mapping[str, AnySource],
    clock: Clock,
    *,
    metrics: SourceMetrics | None = None,
    fallback: FallbackSection | None = None,
) -> AsyncIterator[Mapping[str, GuardedSource]]:
    """Sources for one command, settled, and closed at the end; with a `fallback` as SourcePool has
    them. Raises ConfigError."""
    metrics = metrics or SourceMetrics.register(CollectorRegistry())
    async with AsyncExitStack() as stack:
        pool = SourcePool(clock, metrics, fallback=fallback)
        sources = await pool.take_up(wanted)
        for guarded in sources.values():
            stack.push_async_callback(close_source, guarded)
        await pool.settled()
        yield sources


async def close_source(guarded: GuardedSource) -> None:
    """With its face. What a source raises is logged: it is gone for us, and no alert may suffer
    from it."""
    await close_over_mcp(guarded)
    await close_quietly(guarded.source)
