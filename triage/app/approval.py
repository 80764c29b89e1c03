"""What is tried before a version becomes the active one: its node's cases in both interpreters."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass

from prometheus_client import CollectorRegistry

from triage.app.sections import AnySource
from triage.app.settings import Settings
from triage.app.sources import SourcePool, close_source
from triage.clock import SystemClock
from triage.errors import ConfigError, Finding, InvalidFiles, SandboxFailed
from triage.evaluation.guard import GuardedSource
from triage.library.loader import read_source
from triage.library.manifest import ManifestVersion, source_path
from triage.maker.agreement import Agreement, CaseTrial, agreement
from triage.maker.answering import CaseSettings
from triage.maker.cases_file import cases_path, read_cases
from triage.model.case import LabelledCase
from triage.model.decision import NodeId
from triage.sop.procedure import Sop
from triage.sop.sites import Sites, load_sites, no_sites
from triage.telemetry.edge_metrics import SourceMetrics
from triage.trial.limits import TrialLimits
from triage.trial.model import Candidate, Trials

Progress = Callable[[int, int], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Approval:
    """One version to be approved. With `live` the sources are asked for what a case has no recorded
    answer to; then `settings` hold their secrets."""

    settings: Settings
    sop: Sop
    node: NodeId
    entry: ManifestVersion
    live: bool

    def cases(self) -> tuple[Sites, Sequence[LabelledCase]]:
        """Of the node, in the order of their file. Blocking: reads files. Raises InvalidFiles for
        one that has a fault."""
        path = cases_path(self.settings.sop.library, self.node)
        if not path.exists():
            return no_sites(self.sop), ()
        file = self.settings.sop.sites
        sites = no_sites(self.sop) if file is None else load_sites(file, self.sop)
        read = read_cases(path, self.sop, sites)
        if read.errors:
            raise InvalidFiles(read.findings)
        return sites, read.cases

    async def agree(
        self, sites: Sites, cases: Sequence[LabelledCase], progress: Progress
    ) -> Agreement:
        """On recorded answers first; then, where those did not suffice, on the sources'.

        Raises Unreadable when the source is not the manifest's, SandboxFailed and OSError when an
        interpreter cannot be started. May be cancelled.
        """
        root = self.settings.sop.library
        source = await asyncio.to_thread(read_source, root, self.node, self.entry)
        candidate = Candidate(
            node=self.node,
            text=source.decode(),
            sources=self.sop.nodes[self.node].sources,
            dynamic=self.entry.dynamic,
            reads_parents=self.entry.reads_parents,
        )
        clock = SystemClock()
        async with _trials(self._declared()) as trials:
            recorded = CaseSettings(sites, {}, monotonic=clock.monotonic)
            first = await agreement(
                candidate, [_tested(case, recorded) for case in cases], trials, progress=progress
            )
            if not first.unanswered or not self.live:
                return first
            async with _sources(self._declared(), clock) as live:
                asking = CaseSettings(sites, live, monotonic=clock.monotonic)
                left = [case for case in cases if case.case_id in first.unanswered]
                return first.and_then(
                    await agreement(
                        candidate,
                        [_tested(case, asking) for case in left],
                        trials,
                        progress=progress,
                    )
                )

    def refused(self, agreed: Agreement) -> ConfigError | None:
        """Why the version may not be approved, None when it may."""
        if not agreed.unlike and not agreed.problem:
            return None
        gate = agreed.gate
        return ConfigError(f"{self._file}: does not pass the gate {gate.name!r}: {gate.detail}")

    def untried(self, agreed: Agreement | None) -> Finding:
        """The warning for a version that nothing could be compared of. None: for want of cases."""
        why = "the node has no labelled cases" if agreed is None else agreed.gate.detail
        return Finding(
            file=self._file,
            where=self.node,
            problem=f"was not run in sandbox and CPython to compare them: {why}",
            fix=f"add cases with recorded answers: `triage cases add {self.node} FILE`",
            warning=True,
        )

    @property
    def _file(self) -> str:
        root = self.settings.sop.library
        return str(source_path(root, self.node, self.entry.version))

    def _declared(self) -> dict[str, AnySource]:
        known = self.settings.sources
        return {name: known[name] for name in self.sop.nodes[self.node].sources if name in known}


def _tested(case: LabelledCase, settings: CaseSettings) -> CaseTrial:
    return CaseTrial(case.case_id, *settings(case))


@asynccontextmanager
async def _sources(
    declared: Mapping[str, AnySource], clock: SystemClock
) -> AsyncIterator[Mapping[str, GuardedSource]]:
    metrics = SourceMetrics.register(CollectorRegistry())
    async with AsyncExitStack() as stack:
        pool = SourcePool(clock, metrics)
        sources = await pool.take_up(declared)
        for guarded in sources.values():
            stack.push_async_callback(close_source, guarded)
        await pool.settled()
        yield sources


@asynccontextmanager
async def _trials(declared: Mapping[str, AnySource]) -> AsyncIterator[Trials]:
    """Raises SandboxFailed."""
    # The interpreter's library costs 20 MB, which other commands need not pay.
    from triage.adapters.sandbox import MontySandbox, SandboxLimits
    from triage.trial.trials import SandboxTrials

    most = max((int(one.max_answer_bytes) for one in declared.values()), default=0)
    limits = TrialLimits(answer_bytes=most or TrialLimits().answer_bytes)
    # An answer is a little longer as the sandbox spells it.
    sandbox = MontySandbox(SandboxLimits(workers=1, result_bytes=2 * limits.answer_bytes))
    try:
        await sandbox.open()
        if sandbox.trouble:
            raise SandboxFailed(sandbox.trouble)
        yield SandboxTrials(sandbox, limits=limits, monotonic=SystemClock().monotonic)
    finally:
        await sandbox.close()
