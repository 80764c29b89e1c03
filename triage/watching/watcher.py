"""Looks at every decision once it is on disk, and says what has changed under the tools.

Nothing here is waited for by whoever decides. Figures of an answer are worked out one answer at a
time, with the event loop let in between; those of a large one in a thread.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Mapping
from typing import NamedTuple

import structlog

from triage.errors import StoreError
from triage.model.alert import Alert
from triage.model.decision import Asked, Decision, NodeId, NodeResult
from triage.ports import Clock, WatchLog
from triage.sop.procedure import Sop
from triage.telemetry.watch_metrics import (
    BEHIND,
    CRASHED,
    OVERSIZED,
    UNREADABLE,
    WatchMetrics,
)
from triage.watching.committed import Committed, Pinned
from triage.watching.drift import Alarm, NodeDrift
from triage.watching.features import (
    MAX_BODY,
    SlotSeen,
    failed_slot,
    node_seen,
    slot_seen,
    slots_of,
)
from triage.watching.findings import Findings, finding, finding_id

MAX_WAITING_BYTES = 64 << 20  # of evidence that waits
IN_THREAD = 32 << 10  # bytes of an answer: more takes over a millisecond
METRICS_NODES = 500  # of an SOP


class _Waiting(NamedTuple):
    decision: Decision
    evidence: Mapping[str, bytes]
    size: int
    sop: Sop


class Watcher:
    """`offer` is for whoever decided; `run` does the work, until `stop`.

    At most `max_waiting` decisions wait, and 64 MiB of their evidence; one that does not fit is
    counted. What was learned is saved under `name` every `save_s` seconds and at the end; `run`
    begins with what was saved. Belongs to the event loop's thread.
    """

    def __init__(
        self,
        *,
        log: WatchLog,
        findings: Findings,
        clock: Clock,
        metrics: WatchMetrics,
        name: str,
        save_s: float = 300.0,
        max_waiting: int = 256,
        metrics_nodes: int = METRICS_NODES,
    ) -> None:
        """`name` is this replica's, and the same after a restart. Of an SOP with more nodes than
        `metrics_nodes` there are no shares by node."""
        self._log = log
        self._findings = findings
        self._clock = clock
        self._metrics = metrics
        self._name = name
        self._save_s = save_s
        self._max_waiting = max_waiting
        self._metrics_nodes = metrics_nodes
        self._shares = False
        self._waiting: deque[_Waiting] = deque()
        self._size = 0
        self._nodes: dict[NodeId, NodeDrift] = {}
        self._unsaved: set[NodeId] = set()
        self._sop_sha256 = ""
        self._offered = asyncio.Event()
        self._idle = asyncio.Event()
        self._idle.set()
        self._stopping = False
        self._logger = structlog.get_logger("triage.watch")

    def offer(self, alert: Alert, committed: Committed, pinned: Pinned) -> None:  # noqa: ARG002 - as workers offer it
        """A decision that is durable, and was first. Returns at once."""
        decision = committed.decision
        if not decision.nodes:
            return
        size = sum(map(len, committed.evidence.values()))
        if (
            len(self._waiting) >= self._max_waiting
            or (self._waiting and self._size + size > MAX_WAITING_BYTES)
            or self._stopping
        ):
            self._metrics.dropped(BEHIND)
            return
        self._waiting.append(_Waiting(decision, committed.evidence, size, pinned.sop))
        self._size += size
        self._metrics.waiting.set(len(self._waiting))
        self._idle.clear()
        self._offered.set()

    def stop(self) -> None:
        """What waits is counted as dropped, and `run` ends once all that was learned is saved."""
        self._stopping = True
        self._offered.set()

    async def settled(self) -> None:
        """Returns when nothing waits, and what was found is written or cannot be."""
        await self._idle.wait()

    def drift(self, node: NodeId) -> NodeDrift | None:
        """What was learned of a node, None before it was evaluated."""
        return self._nodes.get(node)

    async def run(self) -> None:
        """Raises only for a fault of this project. Cancelled, it saves nothing any more."""
        await self._load()
        saving_at = self._clock.monotonic() + self._save_s
        while not self._stopping:
            if self._waiting:
                await self._look_at_next()
                continue
            await self._findings.write()
            self._idle.set()
            if self._clock.monotonic() >= saving_at:
                await self._save()
                saving_at = self._clock.monotonic() + self._save_s
            await self._something(saving_at - self._clock.monotonic())
        for _ in self._waiting:
            self._metrics.dropped(BEHIND)
        self._waiting.clear()
        self._metrics.waiting.set(0)
        await self._save()
        self._idle.set()

    async def _something(self, at_most_s: float) -> None:
        self._offered.clear()
        if self._waiting or self._stopping:
            return
        try:
            async with asyncio.timeout(max(0.0, at_most_s)):
                await self._offered.wait()
        except TimeoutError:
            return

    # --- one decision -----------------------------------------------------------------------------

    async def _look_at_next(self) -> None:
        waiting = self._waiting.popleft()
        self._size -= waiting.size
        self._metrics.waiting.set(len(self._waiting))
        if waiting.decision.pinned.sop_sha256 != self._sop_sha256:
            self._take_up(waiting.sop, waiting.decision.pinned.sop_sha256)
        await self._look_at(waiting)
        # Whoever decides comes first, also when a hundred decisions wait here.
        await asyncio.sleep(0)

    async def _look_at(self, waiting: _Waiting) -> None:
        decision = waiting.decision
        done: dict[tuple[str, str], SlotSeen] = {}
        for result in decision.nodes:
            if result.node not in waiting.sop.nodes:
                continue
            try:
                slots = [
                    await self._slot(name, asked, waiting.evidence, done)
                    for name, asked in slots_of(result)
                ]
                self._judge(decision, result, [slot for slot in slots if slot is not None])
            except Exception:
                # A fault of this project costs this look at this node, and no alert.
                self._metrics.dropped(CRASHED)
                self._logger.exception(
                    "watch_crashed", alert_id=decision.alert_id, node=result.node
                )
            await asyncio.sleep(0)

    async def _slot(
        self,
        name: str,
        asked: Asked,
        evidence: Mapping[str, bytes],
        done: dict[tuple[str, str], SlotSeen],
    ) -> SlotSeen | None:
        """None for what is not looked at, which is counted. Nodes share answers, and `done`."""
        if asked.failure is not None:
            return failed_slot(name, asked)
        body = evidence.get(asked.answer_sha256)
        if body is None or len(body) > MAX_BODY:
            self._metrics.dropped(OVERSIZED if body is not None else UNREADABLE)
            return None
        key = (name, asked.answer_sha256)
        if key not in done:
            try:
                if len(body) > IN_THREAD:
                    done[key] = await asyncio.to_thread(slot_seen, name, asked.query, body)
                else:
                    done[key] = slot_seen(name, asked.query, body)
                    await asyncio.sleep(0)
            except (ValueError, TypeError):
                # A source of a person's own may answer in forms of its own.
                self._metrics.dropped(UNREADABLE)
                return None
        return done[key]

    def _judge(self, decision: Decision, result: NodeResult, slots: list[SlotSeen]) -> None:
        drift = self._nodes.get(result.node)
        if drift is None:
            drift = self._nodes[result.node] = NodeDrift(result.node)
        tool, held = drift.tool_sha256, dict(drift.open)
        change = drift.see(node_seen(result, decision.site, decision.fired_at, slots))
        if drift.tool_sha256 != tool:
            # Another tool has findings of its own, also of what it inherits.
            for kind, subject in held:
                self._findings.ended(finding_id(kind, result.node, subject, tool))
            opened = tuple(drift.open.values())
        else:
            for kind, subject in change.ended:
                self._findings.ended(finding_id(kind, result.node, subject, tool))
                self._logger.info("watch_ended", node=result.node, kind=kind, subject=subject)
            opened = change.opened
        for alarm in opened:
            self._report(drift, alarm)
        self._unsaved.add(result.node)
        self._metrics.evaluations.inc()
        if not self._shares:
            return
        self._metrics.shares(
            result.node,
            verdicts=drift.verdict_shares(),
            nulls=drift.null_share(),
            empty=drift.empty_share(),
            left_out=drift.unwatched,
        )

    def _report(self, drift: NodeDrift, alarm: Alarm, *, again: bool = False) -> None:
        if not again:
            self._logger.warning(
                "watch_finding",
                node=drift.node,
                kind=alarm.kind.value,
                subject=alarm.subject,
                detail=alarm.detail,
            )
        self._findings.found(
            finding(
                alarm.kind,
                drift.node,
                alarm.subject,
                drift.tool_sha256,
                alarm.detail,
                at=self._clock.now(),
                evidence=dict(alarm.evidence),
            )
        )

    # --- what outlives a decision -----------------------------------------------------------------

    def _take_up(self, sop: Sop, sop_sha256: str) -> None:
        """Nodes that the SOP no longer has are forgotten, and their findings ended."""
        self._sop_sha256 = sop_sha256
        # All or none: of some of the nodes, a sum or a maximum would be a riddle.
        self._shares = len(sop.nodes) <= self._metrics_nodes
        if not self._shares:
            self._logger.info(
                "watch_shares_left_out", nodes=len(sop.nodes), metrics_nodes=self._metrics_nodes
            )
        for node in [node for node in self._nodes if node not in sop.nodes]:
            drift = self._nodes.pop(node)
            self._unsaved.discard(node)
            for kind, subject in drift.open:
                self._findings.ended(finding_id(kind, node, subject, drift.tool_sha256))
        self._metrics.retain(self._nodes if self._shares else ())

    async def _load(self) -> None:
        try:
            states = await self._log.load_state(self._name)
            await self._findings.count()
        except StoreError as error:
            self._logger.warning("watch_state_not_loaded", error=str(error))
            return
        for node, state in states.items():
            try:
                self._nodes[node] = NodeDrift.of(node, state)
            except ValueError as error:
                self._logger.warning("watch_state_unusable", node=node, error=str(error))
            await asyncio.sleep(0)

    async def _save(self) -> None:
        """What is open is told again, with the figures that it has now."""
        for node in sorted(self._unsaved):
            drift = self._nodes[node]
            for alarm in drift.open.values():
                self._report(drift, alarm, again=True)
        await self._findings.write()
        states = {}
        for node in sorted(self._unsaved):
            states[node] = self._nodes[node].state()
            await asyncio.sleep(0)
        try:
            if states:
                await self._log.save_state(self._name, states)
        except StoreError as error:
            self._logger.warning("watch_state_not_saved", error=str(error))
            return
        self._unsaved -= states.keys()
