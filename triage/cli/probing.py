"""Asks every source, the store, queue and streams, and the fallback's endpoint how they are.

Imported for `--connect` only: it brings the adapters' libraries.
"""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Callable, Coroutine, Iterator
from functools import partial
from typing import Any

from triage.app.deliveries import make_queue, make_stream
from triage.app.oneoff import Probed as CanBeProbed
from triage.app.sections import AnySource
from triage.app.settings import Settings
from triage.app.sources import make_source
from triage.cli.probing_store import probe_store
from triage.cli.source_report import Probed, ServerReport, SourceReport
from triage.clock import SystemClock
from triage.errors import ConfigError, QueueError, SourceFailed, StoreError, ToolFailed
from triage.ports import Brokered
from triage.telemetry import logs

REACHED = "answers"
Asking = Coroutine[Any, Any, ServerReport | None]


def probe(settings: Settings, *, timeout_s: float) -> Probed:
    """Each opened, asked, and closed; all at once, in the order of the configuration."""
    logs.configure(format="console", level="critical", stream=sys.stderr)
    return asyncio.run(_probe_all(settings, timeout_s))


async def _probe_all(settings: Settings, timeout_s: float) -> Probed:
    sources = [_probe(name, section, timeout_s) for name, section in settings.sources.items()]
    asking_sources = asyncio.gather(*sources)
    asking_servers = asyncio.gather(*_servers(settings, timeout_s))
    servers = [report for report in await asking_servers if report is not None]
    return Probed(sources=await asking_sources, servers=servers)


def _servers(
    settings: Settings, timeout_s: float
) -> Iterator[Coroutine[Any, Any, ServerReport | None]]:
    yield probe_store(settings.store.address, timeout_s=timeout_s)
    for where, make in _brokered(settings):
        yield _probe_brokered(where, make, timeout_s)
    if settings.fallback.is_on:
        from triage.cli.probing_model import probe_model

        yield probe_model(settings.fallback, timeout_s=timeout_s)


def _brokered(settings: Settings) -> Iterator[tuple[str, Callable[[], Brokered | None]]]:
    clock = SystemClock()
    yield (
        "queue",
        partial(make_queue, settings.queue, lease_s=settings.engine.lease_s, clock=clock),
    )
    for name, section in settings.streams.items():
        yield f"streams.{name}", partial(make_stream, name, section, clock)


async def _probe(name: str, section: AnySource, timeout_s: float) -> SourceReport:
    began = time.monotonic()
    version = problem = ""
    try:
        source = make_source(name, section)
        try:
            await source.open()
            if isinstance(source, CanBeProbed):
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


async def _probe_brokered(
    where: str, make: Callable[[], Brokered | None], timeout_s: float
) -> ServerReport | None:
    """None for a queue that is the store's own."""
    began = time.monotonic()
    label = problem = fix = ""
    weaknesses: tuple[str, ...] = ()
    try:
        brokered = make()
        if brokered is None:
            return None
        label = brokered.label
        try:
            async with asyncio.timeout(timeout_s):
                weaknesses = tuple(await brokered.weaknesses())
        finally:
            await brokered.close()
    except TimeoutError:
        problem = f"{label} did not answer in {timeout_s:g} s"
        fix = "is it running, and not overloaded?"
    except ConfigError as error:
        problem = str(error)
    except (QueueError, StoreError) as error:
        problem, fix = str(error), "is it running, and are its address and credentials right?"
    return ServerReport(
        where=where,
        label=label,
        state="" if problem else REACHED,
        problem=problem,
        fix=fix,
        weaknesses=weaknesses,
        elapsed_ms=(time.monotonic() - began) * 1000,
    )
