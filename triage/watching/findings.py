"""Findings on their way to the record: what was found, and what no longer holds."""

from __future__ import annotations

from collections import Counter
from datetime import datetime
from typing import Any

import structlog

from triage.errors import StoreError
from triage.model.canonical import canonical_json, sha256_hex
from triage.model.decision import NodeId
from triage.ports import Clock, WatchFinding, WatchKind, WatchLog
from triage.telemetry.watch_metrics import WatchMetrics

ID_CHARS = 16


def finding_id(kind: WatchKind, node: str, subject: str, tool_sha256: str) -> str:
    return sha256_hex(canonical_json([kind.value, node, subject, tool_sha256]))[:ID_CHARS]


def finding(
    kind: WatchKind,
    node: NodeId,
    subject: str,
    tool_sha256: str,
    detail: str,
    *,
    at: datetime,
    evidence: dict[str, Any] | None = None,
) -> WatchFinding:
    """One that was seen at `at`, aware UTC."""
    return WatchFinding(
        finding_id=finding_id(kind, node, subject, tool_sha256),
        kind=kind,
        node=node,
        subject=subject,
        tool_sha256=tool_sha256,
        detail=" ".join(detail.split()),
        first_at=at,
        last_at=at,
        evidence=evidence or {},
    )


class Findings:
    """Keeps what the store has not taken, the last of each, until it does.

    Whoever has findings shares one of these: `found` and `ended` only note, `write` writes.
    """

    def __init__(self, log: WatchLog, clock: Clock, metrics: WatchMetrics) -> None:
        self._log = log
        self._clock = clock
        self._metrics = metrics
        self._found: dict[str, WatchFinding] = {}
        self._ended: set[str] = set()
        self._logger = structlog.get_logger("triage.watch")

    def found(self, one: WatchFinding) -> None:
        self._ended.discard(one.finding_id)
        before = self._found.get(one.finding_id)
        if before is not None:
            one = one._replace(first_at=before.first_at, count=before.count + one.count)
        self._found[one.finding_id] = one

    def ended(self, its_id: str) -> None:
        """It is written as found, and then as ended, where both came since the last `write`."""
        self._ended.add(its_id)

    async def write(self) -> bool:
        """Whether the store took everything."""
        found, ended = dict(self._found), set(self._ended)
        try:
            if found:
                await self._log.found(list(found.values()))
                self._forget(found)
            if ended:
                await self._log.ended(sorted(ended), at=self._clock.now())
                self._ended -= ended
            if found or ended:
                await self.count()
        except StoreError as error:
            self._logger.warning("findings_not_written", found=len(found), error=str(error))
            return False
        return True

    async def count(self) -> None:
        """Bring the metrics up to date. Raises StoreError."""
        there = await self._log.findings()
        self._metrics.open_findings(Counter(one.kind for one in there))

    def _forget(self, written: dict[str, WatchFinding]) -> None:
        """Unless it was found again meanwhile: then that is still to be written."""
        for its_id, one in written.items():
            if self._found.get(its_id) is one:
                del self._found[its_id]
