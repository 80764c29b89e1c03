"""Queues bring alerts to workers, sinks take decisions away."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from triage.model.alert import AlertId, Severity


@dataclass(frozen=True, slots=True, kw_only=True)
class Delivery:
    """`token` is the queue's own handle. `published_at` is aware UTC."""

    alert_id: AlertId
    token: str
    published_at: datetime


class Queue(Protocol):
    async def publish(self, alerts: Sequence[tuple[AlertId, Severity]]) -> None: ...

    async def receive(self, *, limit: int, wait_s: float) -> list[Delivery]:
        """Up to `limit`, most severe first; waits up to `wait_s` for the first."""

    async def settle(
        self,
        *,
        acked: Sequence[Delivery] = (),
        returned: Sequence[Delivery] = (),
        delay_s: float = 0,
    ) -> None:
        """Ack `acked`; give `returned` back, to be received again after `delay_s`."""

    async def extend(self, deliveries: Sequence[Delivery]) -> list[Delivery]:
        """Renew the leases; those still held are returned."""


class Sink(Protocol):
    """Takes messages at least once; the receiver dedupes by key.

    `send` raises DeliveryRejected when the message will never be taken, and any other
    TriageError or OSError when it may be later (`retry_after_s` on Overloaded is honoured).
    """

    @property
    def name(self) -> str: ...

    async def send(self, key: str, body: bytes) -> None: ...

    async def close(self) -> None: ...
