"""What a registered version is tried with: its source as a candidate, a sandbox, and the sources
that it asks."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

from triage.app.sections import AnySource
from triage.app.settings import Settings
from triage.app.sources import open_sources
from triage.errors import SandboxFailed
from triage.fallback.masking import Mask
from triage.library.loader import read_source
from triage.library.manifest import ManifestVersion
from triage.model.decision import NodeId
from triage.ports import Clock
from triage.sop.procedure import Sop
from triage.trial.answers import LiveAnswers
from triage.trial.limits import TrialLimits
from triage.trial.model import Answers, Candidate, Ease, Trials, at_once

LIVE_S = 30.0  # seconds one live query may take


def candidate_of(root: Path, sop: Sop, node: NodeId, entry: ManifestVersion) -> Candidate:
    """Blocking: reads the version's file. Raises Unreadable when that is not the manifest's."""
    return Candidate(
        node=node,
        text=read_source(root, node, entry).decode(),
        sources=sop.nodes[node].sources,
        dynamic=entry.dynamic,
        reads_parents=entry.reads_parents,
    )


def asked_by(settings: Settings, sop: Sop, node: NodeId) -> dict[str, AnySource]:
    """The node's sources, those of them that are configured."""
    known = settings.sources
    return {name: known[name] for name in sop.nodes[node].sources if name in known}


def most_bytes(declared: Mapping[str, AnySource]) -> int:
    """That any of them may answer."""
    return max(
        (int(one.max_answer_bytes) for one in declared.values()),
        default=TrialLimits().answer_bytes,
    )


def room_for(declared: Mapping[str, AnySource]) -> TrialLimits:
    """The usual limits, for answers as large as those that are declared may give."""
    return TrialLimits(answer_bytes=most_bytes(declared))


@asynccontextmanager
async def sandbox_trials(
    clock: Clock,
    limits: TrialLimits | None = None,
    *,
    mask: Mask | None = None,
    workers: int = 1,
    nice: int = 0,
    ease: Ease = at_once,
) -> AsyncIterator[Trials]:
    """In a sandbox of `workers` processes, `nice` as `SandboxLimits` has it, that is closed at the
    end. `ease` is awaited before each thing that is done here for it. Raises SandboxFailed."""
    # The interpreter's library costs 20 MB, which other commands need not pay.
    from triage.adapters.sandbox import MontySandbox, SandboxLimits
    from triage.trial.trials import SandboxTrials

    limits = limits or TrialLimits()
    sandbox = MontySandbox(
        SandboxLimits(
            workers=workers,
            nice=nice,
            feed_s=limits.load_s + limits.run_s + limits.evaluate_s,
            # An answer is a little longer as the sandbox spells it.
            result_bytes=2 * limits.answer_bytes,
        )
    )
    try:
        await sandbox.open()
        if sandbox.trouble:
            raise SandboxFailed(sandbox.trouble)
        yield SandboxTrials(sandbox, limits=limits, monotonic=clock.monotonic, mask=mask, ease=ease)
    finally:
        await sandbox.close()


@asynccontextmanager
async def live_answers(declared: Mapping[str, AnySource], clock: Clock) -> AsyncIterator[Answers]:
    """Of those sources, opened for this. Raises ConfigError."""
    async with open_sources(declared, clock) as sources:
        yield LiveAnswers(sources, monotonic=clock.monotonic, timeout_s=LIVE_S)
