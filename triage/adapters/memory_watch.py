"""Findings about tools in this process: for tests and benchmarks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime

from triage.errors import StoreError
from triage.model.decision import NodeId
from triage.ports import WatchFinding

MOST = 1_000


class MemoryWatchLog:
    """Implements `ports.WatchLog`. While `failing`, everything raises StoreError."""

    def __init__(self) -> None:
        self.failing = False
        self._findings: dict[str, WatchFinding] = {}
        self._states: dict[str, dict[NodeId, bytes]] = {}

    async def found(self, findings: Sequence[WatchFinding]) -> None:
        self._check()
        for one in findings:
            known = self._findings.get(one.finding_id, one._replace(count=0))
            self._findings[one.finding_id] = one._replace(
                count=known.count + one.count,
                first_at=min(known.first_at, one.first_at),
                last_at=max(known.last_at, one.last_at),
                closed_at=None,
            )

    async def ended(self, finding_ids: Sequence[str], *, at: datetime) -> None:
        self._check()
        for its_id in finding_ids:
            one = self._findings.get(its_id)
            if one is not None and one.closed_at is None:
                self._findings[its_id] = one._replace(closed_at=at)

    async def findings(self, *, node: str = "", closed: bool = False) -> Sequence[WatchFinding]:
        self._check()
        wanted = [
            one
            for one in self._findings.values()
            if node in ("", one.node) and (one.closed_at is not None) == closed
        ]
        return sorted(wanted, key=lambda one: one.last_at, reverse=True)[:MOST]

    async def save_state(self, watcher: str, states: Mapping[NodeId, bytes]) -> None:
        self._check()
        self._states.setdefault(watcher, {}).update(states)

    async def load_state(self, watcher: str) -> Mapping[NodeId, bytes]:
        self._check()
        return dict(self._states.get(watcher, {}))

    def _check(self) -> None:
        if self.failing:
            raise StoreError("the store is away")
