"""Whether a registered version answers a gap: on what was recorded, then with the live sources."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from typing import TYPE_CHECKING

from prometheus_client import CollectorRegistry

from triage.app.settings import Settings
from triage.app.sources import SourcePool, close_source
from triage.errors import SandboxFailed
from triage.library.loader import read_source
from triage.maker.from_gap import Answered, GapMaterial, case_settings, close_answered_gap
from triage.telemetry.edge_metrics import SourceMetrics
from triage.trial.answers import LiveAnswers
from triage.trial.limits import TrialLimits
from triage.trial.model import Answers, Candidate, Trials

if TYPE_CHECKING:
    from triage.library.manifest import ManifestVersion
    from triage.ports import Clock
    from triage.sop.procedure import Sop
    from triage.sop.sites import Sites


async def close_gap_of(
    settings: Settings,
    sop: Sop,
    sites: Sites,
    entry: ManifestVersion,
    material: GapMaterial,
    *,
    close: Callable[[str], Awaitable[None]],
    clock: Clock,
) -> Answered:
    """Runs the version in the sandbox on the gap's recorded answers; where it asks what was not
    recorded, once more with the sources of `settings`, which need their secrets for that.

    `close` is given the note. Raises Unreadable when the source is not the manifest's,
    SandboxFailed when there is no sandbox, ConfigError for sources that cannot be opened, and what
    `close` raises. May be cancelled.
    """
    node = material.node
    text = await asyncio.to_thread(read_source, settings.sop.library, node, entry)
    candidate = Candidate(
        node=node,
        text=text.decode(),
        sources=sop.nodes[node].sources,
        dynamic=entry.dynamic,
        reads_parents=entry.reads_parents,
    )

    async def attempt(trials: Trials, beyond: Answers | None) -> Answered:
        return await close_answered_gap(
            material,
            candidate,
            version=entry.version,
            sha256=entry.sha256,
            trials=trials,
            settings=case_settings(sites, beyond),
            close=close,
        )

    async with _trials(settings, clock) as trials:
        found = await attempt(trials, None)
        if not found.unrecorded:
            return found
        async with _live(settings, candidate.sources, clock) as live:
            return await attempt(trials, live)


@asynccontextmanager
async def _trials(settings: Settings, clock: Clock) -> AsyncIterator[Trials]:
    # The interpreter's library costs 20 MB, which other commands need not pay.
    from triage.adapters.sandbox import MontySandbox, SandboxLimits
    from triage.fallback.masking import Mask
    from triage.trial.trials import SandboxTrials

    sandbox = MontySandbox(SandboxLimits(workers=1))
    try:
        await sandbox.open()
        if sandbox.trouble:
            raise SandboxFailed(sandbox.trouble)
        yield SandboxTrials(
            sandbox,
            limits=TrialLimits(),
            monotonic=clock.monotonic,
            mask=Mask(settings.fallback.mask, settings.secrets()),
        )
    finally:
        await sandbox.close()


@asynccontextmanager
async def _live(
    settings: Settings, declared: tuple[str, ...], clock: Clock
) -> AsyncIterator[Answers]:
    wanted = {name: settings.sources[name] for name in declared if name in settings.sources}
    async with AsyncExitStack() as stack:
        pool = SourcePool(clock, SourceMetrics.register(CollectorRegistry()))
        sources = await pool.take_up(wanted)
        for guarded in sources.values():
            stack.push_async_callback(close_source, guarded)
        await pool.settled()
        yield LiveAnswers(sources, monotonic=clock.monotonic, timeout_s=TrialLimits().answers_s)
