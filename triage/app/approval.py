"""What is tried before a version becomes the active one: its node's cases in both interpreters."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from triage.app.settings import Settings
from triage.app.sources import open_sources
from triage.app.trial_parts import asked_by, candidate_of, room_for, sandbox_trials
from triage.clock import SystemClock
from triage.errors import ConfigError, Finding, InvalidFiles
from triage.library.manifest import ManifestVersion, source_path
from triage.maker.agreement import Agreement, CaseTrial, agreement
from triage.maker.answering import CaseSettings
from triage.maker.cases_file import cases_path, read_cases
from triage.model.case import LabelledCase
from triage.model.decision import NodeId
from triage.sop.procedure import Sop
from triage.sop.sites import Sites, load_sites, no_sites

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
        sites = load_sites(self.settings.sop.sites, self.sop)
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
        candidate = await asyncio.to_thread(candidate_of, root, self.sop, self.node, self.entry)
        declared = asked_by(self.settings, self.sop, self.node)
        clock = SystemClock()
        async with sandbox_trials(clock, room_for(declared)) as trials:
            recorded = CaseSettings(sites, {}, monotonic=clock.monotonic)
            first = await agreement(
                candidate, [_tested(case, recorded) for case in cases], trials, progress=progress
            )
            if not first.unanswered or not self.live:
                return first
            async with open_sources(declared, clock) as live:
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


def _tested(case: LabelledCase, settings: CaseSettings) -> CaseTrial:
    return CaseTrial(case.case_id, *settings(case))
