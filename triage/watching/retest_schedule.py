"""Re-tests of the active tools beside the deciding of alerts, one case at a time."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager
from typing import NamedTuple

import structlog

from triage.errors import StoreError, TriageError
from triage.model.case import LabelledCase
from triage.model.decision import NodeId
from triage.ports import Clock, WatchLog
from triage.sop.procedure import SiteProfile
from triage.telemetry.watch_metrics import CRASHED, WatchMetrics
from triage.trial.model import Answers, Candidate, Trials
from triage.watching.findings import Findings, finding
from triage.watching.retest import Retested, Seen, retest_case

SHARE = 0.05  # of the time: after a case nothing is done for nineteen times as long as it took
LEAST_REST_S = 0.05
MOST_REST_S = 60.0
FIRST_S = 3600.0  # within which the first one begins, at a moment of its own in every replica


class Task(NamedTuple):
    """One active tool, and what it is tried on. `candidate` is its approved source."""

    candidate: Candidate
    tool_sha256: str
    cases: Sequence[LabelledCase]
    profile: Callable[[str], SiteProfile]
    trials: Trials


OpenLive = Callable[[], AbstractAsyncContextManager[Answers]]


class Retester:
    """`run` re-tests every node's tool each `every_s`, until `stop`. Nothing is begun while
    `is_draining`. Belongs to the event loop's thread."""

    def __init__(
        self,
        *,
        nodes: Callable[[], Sequence[NodeId]],
        task: Callable[[NodeId], Awaitable[Task | None]],
        live: OpenLive | None,
        findings: Findings,
        log: WatchLog,
        clock: Clock,
        metrics: WatchMetrics,
        every_s: float,
        is_draining: Callable[[], bool] = lambda: False,
        jitter: Callable[[], float] = random.random,
    ) -> None:
        """`task` gives what there is to be done for a node now, None for a node without tool or
        cases. `live` opens the sources as they are at that moment."""
        self._nodes = nodes
        self._task = task
        self._live = live
        self._findings = findings
        self._log = log
        self._clock = clock
        self._metrics = metrics
        self._every_s = every_s
        self._is_draining = is_draining
        self._jitter = jitter
        self._stopping = asyncio.Event()
        self._logger = structlog.get_logger("triage.retest")

    def stop(self) -> None:
        """What is under way is finished, and nothing more is begun."""
        self._stopping.set()

    async def run(self) -> None:
        await self._rest(self._jitter() * min(self._every_s, FIRST_S))
        while not self._stopping.is_set():
            began = self._clock.monotonic()
            for node in self._nodes():
                if self._off:
                    return
                await self.retest(node)
            took_s = self._clock.monotonic() - began
            await self._rest(max(LEAST_REST_S, self._every_s - took_s))

    async def retest(self, node: NodeId) -> list[Retested]:
        """Every case of one node; what is found is written, and what no longer holds ended. Cut
        short by `stop`, nothing is ended."""
        ended: list[Retested] = []
        try:
            task = await self._task(node)
            if task is None:
                return []
            for case in task.cases:
                if self._off:
                    return ended
                ended += await self._case(task, case)
            await self._tell(node, task, ended)
        except TriageError as error:
            self._logger.warning("retest_failed", node=node, error=str(error))
        except Exception:
            # A fault of this project ends this node's re-test, and neither alerts nor daemon.
            self._metrics.retested(CRASHED)
            self._logger.exception("retest_crashed", node=node)
        return ended

    @property
    def _off(self) -> bool:
        return self._stopping.is_set() or self._is_draining()

    async def _case(self, task: Task, case: LabelledCase) -> list[Retested]:
        began = self._clock.monotonic()
        profile = task.profile(case.warehouse)
        if self._live is None:
            ended = await retest_case(task.candidate, case, profile, task.trials)
        else:
            async with self._live() as live:
                ended = await retest_case(task.candidate, case, profile, task.trials, live)
        for one in ended:
            self._metrics.retested(one.result)
        took_s = self._clock.monotonic() - began
        await self._rest(max(LEAST_REST_S, min(MOST_REST_S, took_s * (1 / SHARE - 1))))
        return ended

    async def _tell(self, node: NodeId, task: Task, ended: Sequence[Retested]) -> None:
        seen: dict[tuple[str, str], Seen] = {}
        for one in ended:
            for found in one.found:
                seen.setdefault((found.kind, found.subject), found)
        now = self._clock.now()
        there = {
            one.finding_id: one
            for one in (
                finding(
                    found.kind,
                    node,
                    found.subject,
                    task.tool_sha256,
                    found.detail,
                    at=now,
                    evidence=dict(found.evidence),
                )
                for found in seen.values()
            )
        }
        for its in there.values():
            self._findings.found(its)
        try:
            for before in await self._log.findings(node=node):
                # Of a re-test, whichever process made it: those name a case.
                if before.evidence.get("case") and before.finding_id not in there:
                    self._findings.ended(before.finding_id)
        except StoreError as error:
            self._logger.warning("retest_not_compared", node=node, error=str(error))
        await self._findings.write()
        if there:
            self._logger.warning(
                "retest_found",
                node=node,
                findings=[one.detail for one in there.values()][:10],
                count=len(there),
            )

    async def _rest(self, seconds: float) -> None:
        try:
            async with asyncio.timeout(seconds):
                await self._stopping.wait()
        except TimeoutError:
            return
