"""Whether a registered version answers a gap: on what was recorded, then with the live sources."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

from triage.app.settings import Settings
from triage.app.trial_parts import asked_by, candidate_of, live_answers, room_for, sandbox_trials
from triage.fallback.masking import Mask
from triage.maker.from_gap import Answered, GapMaterial, case_settings, close_answered_gap
from triage.trial.model import Answers, Trials

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
    candidate = await asyncio.to_thread(candidate_of, settings.sop.library, sop, node, entry)
    declared = asked_by(settings, sop, node)
    mask = Mask(settings.fallback.mask, settings.secrets())

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

    async with sandbox_trials(clock, room_for(declared), mask=mask) as trials:
        found = await attempt(trials, None)
        if not found.unrecorded:
            return found
        async with live_answers(declared, clock) as live:
            return await attempt(trials, live)
