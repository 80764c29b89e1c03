"""What `/-/ready` says."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from triage.adapters.store import Store
from triage.app.current import Current
from triage.app.deliveries import Deliveries
from triage.app.fallback import Agent
from triage.errors import StoreError


@dataclass(frozen=True, slots=True, kw_only=True)
class Readiness:
    store: Store
    deliveries: Deliveries
    current: Current
    agent: Agent
    is_draining: Callable[[], bool]

    async def document(self) -> Mapping[str, Any]:
        """A source, fallback or producers' stream that is down is told, and does not make us
        unready: alerts are still taken, and decided."""
        store = self.store.trouble
        try:
            await self.store.ledger.ledger()
        except StoreError as error:
            store = store or str(error)
        queue = await self.deliveries.queue_trouble()
        draining = self.is_draining()
        return {
            "ready": not (draining or store or queue),
            "draining": draining,
            "store": store or "ok",
            "queue": queue or "ok",
            "streams": self.deliveries.streams(),
            "sources": {
                name: "left alone after failures" if source.breaker_is_open else "ok"
                for name, source in self.current.snapshots.current.sources.items()
            },
            "fallback": self.agent.state,
        }
