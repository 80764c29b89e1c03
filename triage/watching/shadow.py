"""Versions in shadow: run on what the active ones saw, once the decision is on disk.

Nothing here is waited for by whoever decides. A shadow runs in a sandbox of its own, approved or
not, on the answers of the decision: no source is asked. What there is no time for is counted.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from datetime import datetime
from typing import NamedTuple

import structlog

from triage.errors import SandboxFailed
from triage.library.shadow import ShadowTool
from triage.model.alert import Alert
from triage.model.decision import NodeId
from triage.ports import Clock, Compared, Comparison, ShadowLog
from triage.telemetry.shadow_metrics import ShadowMetrics
from triage.trial.model import Answers, Candidate, Ease, Setting, Trials, at_once
from triage.watching.committed import Committed, PinnedSites
from triage.watching.shadow_compare import (
    Due,
    answers_of,
    candidate_of,
    compare,
    due,
    setting_of,
)
from triage.watching.shadow_outgoing import Outgoing

AT_ONCE = 100  # decisions whose shadows are run in one go: one session for all of a version's
LINGER_S = 5.0  # for so many to come together: a session's begin costs as much as ten comparisons
FIRST_PAUSE_S = 1.0  # after trouble with the sandbox; doubled with each that follows
LONGEST_PAUSE_S = 60.0
IDLE_S = 300.0  # after which a sandbox that nothing came for is closed
KEPT_FOR_THE_STORE = 1_000  # comparisons, while it does not take them
MAX_WAITING_BYTES = 64 << 20  # of evidence that waits

OpenTrials = Callable[[], AbstractAsyncContextManager[Trials]]


class _Waiting(NamedTuple):
    alert: Alert
    committed: Committed
    pinned: PinnedSites
    at: datetime
    due: tuple[Due, ...]
    size: int


class _Run(NamedTuple):
    """One shadow on one decision."""

    waiting: _Waiting
    due: Due
    setting: Setting
    answers: Answers


class Shadows:
    """`offer` is for whoever decided; `run` does the work, until `stop`.

    At most `max_waiting` decisions wait, and 64 MiB of their evidence. One that does not fit, or is
    still waiting at the end, is counted as dropped; so is one that was under way when the sandbox
    failed, which is then begun anew, and one that waits for it when that has failed for a minute.
    What the store did not take is written with what comes next. Belongs to the event loop's thread.
    """

    def __init__(
        self,
        *,
        tools: Callable[[], Mapping[NodeId, ShadowTool]],
        trials: OpenTrials,
        log: ShadowLog,
        clock: Clock,
        metrics: ShadowMetrics,
        workers: int = 1,
        max_waiting: int = 256,
        linger_s: float = LINGER_S,
        ease: Ease = at_once,
    ) -> None:
        """`tools` are those in shadow now. `trials` opens what runs them, for each of the
        `workers` its own, when there is something to run. That waits `linger_s` for more. `ease` is
        awaited between any two decisions, so that alerts come first."""
        self._tools = tools
        self._trials = trials
        self._clock = clock
        self._metrics = metrics
        self._workers = workers
        self._max_waiting = max_waiting
        self._linger_s = linger_s
        self._ease = ease
        self._enough = min(AT_ONCE, max(1, max_waiting // 2))
        self._waiting: deque[_Waiting] = deque()
        self._size = 0
        self._outgoing = Outgoing(log, most=KEPT_FOR_THE_STORE)
        self._busy = 0
        self._idle = asyncio.Event()
        self._idle.set()
        self._offered = asyncio.Event()
        self._gathered = asyncio.Event()
        self._stopping = asyncio.Event()
        self._logger = structlog.get_logger("triage.shadow")

    def offer(self, alert: Alert, committed: Committed, pinned: PinnedSites) -> None:
        """A decision that is durable, and was first. Returns at once."""
        shadows = self._tools()
        if not shadows:
            return
        found = due(committed.decision, shadows)
        if not found:
            return
        size = sum(map(len, committed.evidence.values()))
        waiting = _Waiting(alert, committed, pinned, self._clock.now(), tuple(found), size)
        if (
            len(self._waiting) >= self._max_waiting
            or (self._waiting and self._size + size > MAX_WAITING_BYTES)
            or self._stopping.is_set()
        ):
            self._drop(waiting, waiting.due)
            return
        self._waiting.append(waiting)
        self._size += size
        self._metrics.waiting.set(len(self._waiting))
        self._idle.clear()
        self._offered.set()
        if self._is_enough:
            self._gathered.set()

    @property
    def _is_enough(self) -> bool:
        return len(self._waiting) >= self._enough or self._size >= MAX_WAITING_BYTES // 2

    @property
    def waiting(self) -> int:
        """Decisions that nobody has begun to compare."""
        return len(self._waiting)

    def stop(self) -> None:
        """What is under way and what waits is dropped, and `run` ends once that is written."""
        self._stopping.set()

    async def settled(self) -> None:
        """Returns when nothing waits and nothing is under way."""
        await self._idle.wait()

    async def run(self) -> None:
        """Raises only for a fault of this project. Cancelled, it writes nothing any more."""
        workers = [asyncio.create_task(self._work()) for _ in range(self._workers)]
        stopping = asyncio.create_task(self._stopping.wait())
        try:
            ended, _ = await asyncio.wait({stopping, *workers}, return_when=asyncio.FIRST_COMPLETED)
            for task in ended:
                task.result()
        finally:
            for task in (stopping, *workers):
                task.cancel()
            await asyncio.gather(stopping, *workers, return_exceptions=True)
        await self._drop_all()

    async def _work(self) -> None:
        troubles = 0
        while True:
            await self._something()
            try:
                async with self._trials() as trials:
                    while await self._something(IDLE_S):
                        await self._gather()
                        await self._compare_some(trials)
                        troubles = 0
            except SandboxFailed as error:
                # The shadows' own trouble: alerts are decided as ever, and of what comes meanwhile
                # the most that fits will wait.
                self._logger.warning("shadow_sandbox_failed", error=str(error))
                self._metrics.restarts.inc()
                pause_s = min(LONGEST_PAUSE_S, FIRST_PAUSE_S * 2.0**troubles)
                if pause_s >= LONGEST_PAUSE_S:
                    # Each holds on to the procedure that it was decided by.
                    await self._drop_all()
                await asyncio.sleep(pause_s)
                troubles = min(troubles + 1, 30)

    async def _something(self, within_s: float | None = None) -> bool:
        """Returns when something waits; False when nothing came within that time."""
        try:
            async with asyncio.timeout(within_s):
                while not self._waiting:
                    self._offered.clear()
                    await self._offered.wait()
        except TimeoutError:
            return False
        return True

    async def _gather(self) -> None:
        """Nobody waits for a comparison, and many at once cost the alerts beside them less."""
        if self._is_enough or self._linger_s <= 0:
            return
        self._gathered.clear()
        try:
            async with asyncio.timeout(self._linger_s):
                await self._gathered.wait()
        except TimeoutError:
            return

    async def _compare_some(self, trials: Trials) -> None:
        """Those that have waited longest. Raises SandboxFailed."""
        some = [self._take() for _ in range(min(AT_ONCE, len(self._waiting)))]
        self._busy += 1
        try:
            await self._compare(trials, some)
            await self._outgoing.write(self._ease)
        finally:
            self._busy -= 1
            if not self._waiting and not self._busy:
                self._idle.set()

    async def _drop_all(self) -> None:
        while self._waiting:
            waiting = self._take()
            self._drop(waiting, waiting.due)
        await self._outgoing.write()
        if not self._busy:
            self._idle.set()

    def _take(self) -> _Waiting:
        waiting = self._waiting.popleft()
        self._size -= waiting.size
        self._metrics.waiting.set(len(self._waiting))
        return waiting

    async def _compare(self, trials: Trials, some: Sequence[_Waiting]) -> None:
        left = {id(one): (waiting, one) for waiting in some for one in waiting.due}
        try:
            for candidate, runs in (await self._runs(some)).items():
                each = [(run.setting, run.answers) for run in runs]
                for run, tried in zip(runs, await trials.run(candidate, each), strict=True):
                    decision, at = run.waiting.committed.decision, run.waiting.at
                    self._keep(compare(run.due, tried, decision=decision, at=at))
                    del left[id(run.due)]
                    await self._ease()
                if self._outgoing.room < AT_ONCE:
                    await self._outgoing.write(self._ease)
        except SandboxFailed:
            raise
        except Exception:
            # A fault of this project costs these comparisons, and no alert.
            self._logger.exception("shadow_crashed", alerts=[one.alert.alert_id for one in some])
        finally:
            for waiting, one in left.values():
                self._drop(waiting, [one])

    async def _runs(self, some: Sequence[_Waiting]) -> Mapping[Candidate, list[_Run]]:
        """By version: one session of the sandbox serves all settings of one."""
        runs: dict[Candidate, list[_Run]] = {}
        for waiting in some:
            alert, decision = waiting.alert, waiting.committed.decision
            await self._ease()
            sop, profile = waiting.pinned.sop, waiting.pinned.sites.profile(alert.site)
            answers = answers_of(waiting.committed)
            for one in waiting.due:
                setting = setting_of(alert, decision, one.result, profile)
                run = _Run(waiting, one, setting, answers)
                runs.setdefault(candidate_of(one.shadow, sop), []).append(run)
        return runs

    def _keep(self, comparison: Comparison) -> None:
        node = comparison.pair.node
        self._metrics.compared(node, comparison.result)
        if comparison.other_clauses:
            self._metrics.other_clauses.labels(node).inc()
        self._outgoing.keep(comparison)

    def _drop(self, waiting: _Waiting, those: Iterable[Due]) -> None:
        for one in those:
            self._metrics.compared(one.result.node, Compared.DROPPED)
            self._outgoing.drop(one.pair, waiting.alert.alert_id, waiting.at)
