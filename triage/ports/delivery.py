"""Queues bring alerts to workers, streams bring producers' messages, sinks take decisions away."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Protocol

from triage.model.alert import PRIORITY_NAMES, AlertId, Severity

PATIENCE = 8


def served_first(turn: int) -> tuple[int, ...]:
    """Priorities in the order in which the `turn`-th receive of a consumer serves them.

    The most severe first; but every PATIENCE-th receive begins with the least severe, so that no
    flood of critical alerts, however long, starves the others.
    """
    order = range(len(PRIORITY_NAMES))
    return tuple(order if (turn + 1) % PATIENCE else reversed(order))


@dataclass(frozen=True, slots=True, kw_only=True)
class Delivery:
    """`token` is the queue's own handle. `published_at` is aware UTC."""

    alert_id: AlertId
    token: str
    published_at: datetime


class Brokered(Protocol):
    """What a queue and a stream say of the server behind them."""

    @property
    def label(self) -> str:
        """How messages name it, without a password."""

    @property
    def trouble(self) -> str:
        """Why the last operation failed, empty after one that did not: for readiness."""

    async def weaknesses(self) -> list[str]:
        """How what it holds could be lost in a crash, one sentence each. Raises QueueError."""

    async def close(self) -> None:
        """Idempotent. Leases that are held end by themselves."""


class Queue(Brokered, Protocol):
    """Operations raise QueueError, or StoreError where the queue is the store's own. None waits
    for a server longer than a few seconds; the next one connects again."""

    async def publish(self, alerts: Sequence[tuple[AlertId, Severity]]) -> None: ...

    async def receive(self, *, limit: int, wait_s: float) -> list[Delivery]:
        """Up to `limit`, in the order that `served_first` gives, the oldest of a priority first;
        waits up to `wait_s` for the first. Cancellation safe: what was claimed for a call that
        was cancelled is given back."""

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

    def forgot(self) -> bool:
        """Whether it has been found without its memory (a new or emptied server) since this was
        last asked: then whatever is pending must be published again."""

    async def depth(self) -> Mapping[str, int]:
        """Entries by the name of their priority, held ones included."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamMessage:
    """One message of a producer. `message_id` names it in its stream and is the same at every
    delivery; `deliveries` counts them, this one included."""

    message_id: str
    token: str
    body: bytes
    headers: Mapping[str, str] = field(default_factory=dict)
    deliveries: int = 1


class Stream(Brokered, Protocol):
    """Alerts that producers put on a stream of their own. Operations raise QueueError."""

    @property
    def name(self) -> str: ...

    async def receive(self, *, limit: int, wait_s: float) -> list[StreamMessage]:
        """Up to `limit`, the oldest first; waits up to `wait_s` for the first. A message that is
        neither acked nor released within the lease comes again. Cancellation safe."""

    async def ack(self, messages: Sequence[StreamMessage]) -> None:
        """They are durable here, and need not come again."""

    async def release(self, messages: Sequence[StreamMessage], *, delay_s: float = 0) -> None:
        """They come again after `delay_s`, to whoever asks."""


class Sink(Protocol):
    """Takes messages at least once; the receiver dedupes by key.

    `send` raises DeliveryRejected when the message will never be taken, and any other
    TriageError or OSError when it may be later (`retry_after_s` on Overloaded is honoured).
    """

    @property
    def name(self) -> str: ...

    async def send(self, key: str, body: bytes) -> None: ...

    async def close(self) -> None: ...
