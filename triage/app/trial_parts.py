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
from triage.trial.model import Answers, Candidate, Trials

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


@asynccontextmanager
async def sandbox_trials(
    declared: Mapping[str, AnySource], clock: Clock, *, mask: Mask | None = None, workers: int = 1
) -> AsyncIterator[Trials]:
    """On answers as large as those that are `declared` may give. Raises SandboxFailed."""
    # The interpreter's library costs 20 MB, which other commands need not pay.
    from triage.adapters.sandbox import MontySandbox, SandboxLimits
    from triage.trial.trials import SandboxTrials

    answer_bytes = most_bytes(declared)
    # An answer is a little longer as the sandbox spells it.
    sandbox = MontySandbox(SandboxLimits(workers=workers, result_bytes=2 * answer_bytes))
    try:
        await sandbox.open()
        if sandbox.trouble:
            raise SandboxFailed(sandbox.trouble)
        yield SandboxTrials(
            sandbox,
            limits=TrialLimits(answer_bytes=answer_bytes),
            monotonic=clock.monotonic,
            mask=mask,
        )
    finally:
        await sandbox.close()


@asynccontextmanager
async def live_answers(declared: Mapping[str, AnySource], clock: Clock) -> AsyncIterator[Answers]:
    """Of those sources, opened for this. Raises ConfigError."""
    async with open_sources(declared, clock) as sources:
        yield LiveAnswers(sources, monotonic=clock.monotonic, timeout_s=LIVE_S)
