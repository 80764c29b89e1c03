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
        for told in findings:
            one = told._replace(detail=" ".join(told.detail.split()), closed_at=None)
            known = self._findings.get(one.finding_id)
            self._findings[one.finding_id] = one if known is None else _renewed(known, one)

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
        wanted.sort(key=lambda one: (one.closed_at or one.last_at, one.finding_id), reverse=True)
        return wanted[:MOST]

    async def save_state(self, watcher: str, states: Mapping[NodeId, bytes]) -> None:
        self._check()
        self._states.setdefault(watcher, {}).update(states)

    async def load_state(self, watcher: str) -> Mapping[NodeId, bytes]:
        self._check()
        return dict(self._states.get(watcher, {}))

    def _check(self) -> None:
        if self.failing:
            raise StoreError("the store is away")


def _renewed(known: WatchFinding, one: WatchFinding) -> WatchFinding:
    """As the store has it: what is older than what is known is only counted."""
    newest = one if one.last_at >= known.last_at else known
    reopened = known.closed_at is not None and one.last_at >= known.closed_at
    return known._replace(
        detail=newest.detail,
        evidence=newest.evidence,
        first_at=min(known.first_at, one.first_at),
        last_at=newest.last_at,
        count=known.count + one.count,
        closed_at=None if reopened else known.closed_at,
    )
