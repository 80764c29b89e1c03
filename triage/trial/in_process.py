"""Runs an approved tool on settings, by the code that runs it for an alert.

Unapproved code may never come here: it would run in this process, where nothing holds it. What a
model wrote is tried by `SandboxTrials` until a person has approved it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence

from triage.errors import SourceFailed, SourceFailure, ToolFailed, ToolFailure
from triage.evaluation.context import ToolContext
from triage.evaluation.judge import (
    Marker,
    NoMark,
    check_count,
    check_query,
    checked,
    collect_queries,
    judge,
    raised,
)
from triage.fallback.masking import Mask
from triage.library.catalogue import Tool
from triage.model.alert import Alert, AlertId, Severity
from triage.model.canonical import sha256_hex
from triage.model.query import Answer, Query
from triage.model.verdict import Verdict
from triage.sop.procedure import SiteProfile
from triage.trial import outcome
from triage.trial.asking import Asking, Failed, Reply, first_failure
from triage.trial.limits import TrialLimits
from triage.trial.model import Answers, Candidate, Setting, Tried


class ApprovedTrials:
    """Implements `trial.model.Trials` for one approved tool, as the library loads it.

    `marker` is told while the tool's code runs, as in a daemon: code that does not end is only
    noticed from outside. Failures read as those of `SandboxTrials`, the words of the interpreters'
    own exceptions excepted.
    """

    def __init__(
        self,
        tool: Tool,
        *,
        limits: TrialLimits,
        monotonic: Callable[[], float],
        marker: Marker | None = None,
        mask: Mask | None = None,
    ) -> None:
        self._tool = tool
        self._limits = limits
        self._monotonic = monotonic
        self._marker = marker or NoMark()
        self._mask = mask or Mask((), ())

    async def run(
        self, candidate: Candidate, settings: Sequence[tuple[Setting, Answers]]
    ) -> list[Tried]:
        """Raises ValueError when the candidate's text is not the tool's own, and whatever `Answers`
        raises beside its failures."""
        tool = self._tool
        if sha256_hex(candidate.text.encode()) != tool.sha256:
            raise ValueError(f"the candidate is not the approved {tool.node}/v{tool.version}.py")
        return [await self._try(candidate, setting, answers) for setting, answers in settings]

    async def _try(self, candidate: Candidate, setting: Setting, answers: Answers) -> Tried:
        asking = Asking(answers, limits=self._limits, mask=self._mask, monotonic=self._monotonic)
        trial = _Trial(
            self._tool, candidate, setting, asking, self._marker, self._monotonic, self._limits
        )
        try:
            verdict = await trial.run()
        except (ToolFailed, SourceFailed) as failed:
            return outcome.failed(
                self._worded(failed), self._mask, asking.told, trial.used_s * 1000
            )
        finally:
            await asking.close()
        return outcome.judged(verdict, asking.told, trial.used_s * 1000)

    def _worded(self, failed: Failed) -> Failed:
        """With the line in front, and without the file, which has no name in the sandbox."""
        place = f"{self._tool.node}/v{self._tool.version}.py:"
        if failed.reason != ToolFailure.RAISED or not failed.detail.startswith(place):
            return failed
        line, _, message = failed.detail.removeprefix(place).partition(": ")
        return ToolFailed(ToolFailure.RAISED, message if line == "0" else f"line {line}: {message}")


class _Trial:
    """`used_s` is the time in the tool's own code."""

    def __init__(
        self,
        tool: Tool,
        candidate: Candidate,
        setting: Setting,
        asking: Asking,
        marker: Marker,
        monotonic: Callable[[], float],
        limits: TrialLimits,
    ) -> None:
        self.used_s = 0.0
        self._bound_s = limits.evaluate_s + limits.answers_s
        self._tool = tool
        self._sources = candidate.sources
        self._setting = setting
        self._asking = asking
        self._marker = marker
        self._monotonic = monotonic
        self._context = ToolContext(_alert(setting), _profile(setting))
        self._failed: Failed | None = None
        self._asks = 0

    async def run(self) -> Verdict:
        """Raises ToolFailed and SourceFailed."""
        if self._tool.dynamic:
            return await self._in_steps()
        site, timestamp = self._setting.site.name, self._setting.timestamp
        began = self._monotonic()
        try:
            queries = collect_queries(
                self._tool, self._sources, site, timestamp, self._context, self._marker
            )
        finally:
            self.used_s += self._monotonic() - began
        replies = await self._asking.ask(queries)
        failed = first_failure(replies)
        if failed is not None:
            raise failed
        answers = {reply.told.query: reply.answer for reply in replies}
        self._context.open_for_judging(self._parents(), answers)
        began = self._monotonic()
        try:
            return judge(self._tool, site, timestamp, self._context, self._marker)
        finally:
            self.used_s += self._monotonic() - began

    async def _in_steps(self) -> Verdict:
        self._context.open_for_judging(self._parents(), {}, self._ask)
        timer = asyncio.timeout(self._bound_s)
        verdict: Verdict | None = None
        failed: Failed | None = None
        began = self._monotonic()
        self._marker.enter(self._tool)
        try:
            async with timer:
                said = await self._tool.evaluate(
                    self._setting.site.name, self._setting.timestamp, self._context
                )
            verdict = checked(said)
        except (ToolFailed, SourceFailed) as error:
            failed = error
        except (Exception, SystemExit) as error:  # noqa: BLE001 - the tool's failure, whatever it is
            failed = raised(self._tool, error)
        finally:
            self._marker.leave()
            self.used_s += self._monotonic() - began
        if timer.expired():
            # Looked at whatever came out: a tool may have caught its own cancellation.
            raise SourceFailed(SourceFailure.DEADLINE, f"cut off after {self._bound_s:g} s")
        # A tool that swallows a failure must not turn an outage into a verdict.
        failed = self._first(failed)
        if failed is not None:
            raise failed
        assert verdict is not None
        return verdict

    async def _ask(self, query: Query) -> Answer:
        self._asks += 1
        answer: Answer = None
        failed = self._failed
        if failed is None:
            try:
                check_count(self._asks)
                check_query(query, self._sources)
            except ToolFailed as error:
                failed = self._first(error)
            else:
                reply = await self._reply(query)
                answer, failed = reply.answer, self._first(reply.failed)
        if failed is not None:
            raise failed
        return answer

    def _first(self, failed: Failed | None) -> Failed | None:
        """`failed`, unless something went wrong before."""
        self._failed = self._failed or failed
        return self._failed

    async def _reply(self, query: Query) -> Reply:
        """Waiting is not the tool's time."""
        self._marker.leave()
        began = self._monotonic()
        [reply] = await self._asking.ask([query])
        self.used_s -= self._monotonic() - began
        self._marker.enter(self._tool)
        return reply

    def _parents(self) -> Mapping[str, Verdict]:
        parents = self._setting.parents
        return {name: parents[name] for name in self._tool.reads_parents if name in parents}


def _alert(setting: Setting) -> Alert:
    """What a tool sees of one."""
    return Alert(
        alert_id=AlertId(""),
        integration="",
        tenant="",
        fingerprint="",
        alarm="",
        site=setting.site.name,
        entity=setting.entity,
        severity=Severity.UNKNOWN,
        fired_at=setting.timestamp,
        accepted_at=setting.timestamp,
        labels=setting.labels,
        annotations={},
    )


def _profile(setting: Setting) -> SiteProfile:
    return SiteProfile(site=setting.site, params=setting.params, parents={}, known=True)
