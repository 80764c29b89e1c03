"""The queue on NATS JetStream: a stream of wake-ups, one durable pull consumer a priority."""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter
from collections.abc import Mapping, Sequence

import orjson

from triage.adapters.nats.connection import Connection
from triage.adapters.nats.delivered import Delivered
from triage.adapters.nats.exchange import ACK, IN_PROGRESS, NAK, UNANSWERED, Pull, Request, is_gone
from triage.adapters.nats.jetstream import WRONG_LAST_SEQUENCE, Gone, JetStream, Refused
from triage.adapters.nats.leases import Leases
from triage.adapters.nats.queue_setup import QueueSetup, held_s
from triage.adapters.nats.weaknesses import weaknesses
from triage.adapters.nats.wire import Wire
from triage.errors import QueueError
from triage.model.alert import PRIORITY_NAMES, AlertId, Severity
from triage.ports import Clock, Delivery, served_first

POLL_S = 0.5
"""Leases that end and delays that pass wake nobody, so receivers look this often as well."""
AT_ONCE = 500
SILENT = 4
"""Pulls in a row that a consumer leaves unanswered, though the server answers, before it is made
anew."""
_ONLY_WHEN_EMPTY = {"Nats-Expected-Last-Subject-Sequence": "0"}


class NatsQueue:
    """Everything on the server is made when it is missing, and named after `name`.

    A lease is `lease_s` long, or up to a second less (`held_s`), and kept by the server; its end is
    known here as well (`Leases`).
    After a crash the server may hand out what is still held: whoever decides first wins.

    Raises ConfigError for a URL that cannot be used, or when the library is missing. Belongs to
    one event loop.
    """

    def __init__(self, *, url: str, name: str, lease_s: float, clock: Clock) -> None:
        # What a stream may not be called, and a subject would be divided at.
        self._setup = QueueSetup(name=name.replace(".", "_"), lease_s=held_s(lease_s))
        self._leases = Leases(lease_s=held_s(lease_s), clock=clock)
        self._connection = Connection(
            url, name=name, prepare=self._prepare, wake=f"{self._setup.name}.wake"
        )
        self._turn = 0
        self._silent = Counter[str]()

    @property
    def label(self) -> str:
        return self._connection.label

    @property
    def trouble(self) -> str:
        return self._connection.trouble

    async def publish(self, alerts: Sequence[tuple[AlertId, Severity]]) -> None:
        if not alerts:
            return
        with self._connection.operation():
            for start in range(0, len(alerts), AT_ONCE):
                await self._publish(alerts[start : start + AT_ONCE])
            wire = await self._connection.ready()
            await wire.wake()

    async def receive(self, *, limit: int, wait_s: float) -> list[Delivery]:
        if limit < 1:
            return []
        order = served_first(self._turn)
        self._turn += 1
        loop = asyncio.get_running_loop()
        until = loop.time() + wait_s
        is_second = False
        with self._connection.operation():
            while True:
                wire = await self._connection.ready()
                # Taken before asking: what is published meanwhile must not be missed.
                woken = wire.woken
                try:
                    deliveries = await self._fetch(wire, order, limit)
                except Gone:
                    if is_second:
                        raise
                    is_second = True
                    continue
                left = until - loop.time()
                if deliveries or left <= 0:
                    return deliveries
                self._connection.works()
                is_second = False
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(min(left, POLL_S)):
                        await woken.wait()

    async def settle(
        self,
        *,
        acked: Sequence[Delivery] = (),
        returned: Sequence[Delivery] = (),
        delay_s: float = 0,
    ) -> None:
        done = self._held(acked)
        again = self._held(returned)
        if not done and not again:
            return
        nak = NAK if delay_s <= 0 else NAK + b" " + orjson.dumps({"delay": round(delay_s * 1e9)})
        requests = [
            *(Request(delivery.token, ACK) for delivery in done),
            *(Request(delivery.token, nak) for delivery in again),
        ]
        with self._connection.operation():
            wire = await self._connection.ready()
            # With answers: once it returns, what was given back can be received.
            replies = await wire.tell(requests)
            for delivery in (*done, *again):
                self._leases.end(delivery.token)
            if any(map(is_gone, replies)):
                self._connection.unprepare()
            if again and delay_s <= 0:
                await wire.wake()

    async def extend(self, deliveries: Sequence[Delivery]) -> list[Delivery]:
        held = self._held(deliveries)
        if not held:
            return []
        asked_at = self._leases.now()
        with self._connection.operation():
            wire = await self._connection.ready()
            replies = await wire.tell([Request(one.token, IN_PROGRESS) for one in held])
        renewed = []
        for delivery, reply in zip(held, replies, strict=True):
            if is_gone(reply):
                self._leases.end(delivery.token)
                self._connection.unprepare()
            elif self._leases.holds(delivery.token):
                self._leases.begin(delivery.token, asked_at)
                renewed.append(delivery)
        return renewed

    def forgot(self) -> bool:
        forgot, self._setup.forgot = self._setup.forgot, False
        return forgot

    async def depth(self) -> Mapping[str, int]:
        with self._connection.operation():
            server = self._server(await self._connection.ready())
            try:
                consumers = await server.consumers(self._setup.name, PRIORITY_NAMES)
            except Gone:
                self._connection.unprepare()
                raise
        return {
            name: one["num_pending"] + one["num_ack_pending"]
            for name, one in zip(PRIORITY_NAMES, consumers, strict=True)
        }

    async def weaknesses(self) -> list[str]:
        with self._connection.operation():
            wire = await self._connection.ready()
            info = await self._server(wire).stream(self._setup.name)
        if info is None:
            self._connection.unprepare()
            raise QueueError(f"{self.label}: stream {self._setup.name} was just deleted")
        loss = "wake-ups are lost, and their alerts wait for the sweeper,"
        return list(
            weaknesses(info, version=wire.server_version, version_text=wire.version, loss=loss)
        )

    async def close(self) -> None:
        await self._connection.close()

    async def _prepare(self, wire: Wire) -> None:
        if not await self._setup.prepare(self._server(wire)):
            # Another stream counts from 1 again: what was held in the old one names others.
            self._leases.forget()

    def _server(self, wire: Wire) -> JetStream:
        return JetStream(wire, self.label)

    def _held(self, deliveries: Sequence[Delivery]) -> list[Delivery]:
        return [delivery for delivery in deliveries if self._leases.holds(delivery.token)]

    async def _publish(self, alerts: Sequence[tuple[AlertId, Severity]]) -> None:
        requests = [
            Request(
                self._setup.subject(PRIORITY_NAMES[severity.priority], alert_id),
                headers=_ONLY_WHEN_EMPTY,
            )
            for alert_id, severity in alerts
        ]
        wire = await self._connection.ready()
        replies = await wire.ask(requests)
        if any(map(is_gone, replies)):
            self._connection.unprepare()
            wire = await self._connection.ready()
            replies = await wire.ask(requests)
        server = self._server(wire)
        for reply in replies:
            try:
                entered = server.answer(reply)
            except Refused as refused:
                if refused.code != WRONG_LAST_SEQUENCE:
                    raise
            else:
                self._setup.newest = max(self._setup.newest, int(entered.get("seq", 0)))

    async def _fetch(self, wire: Wire, order: Sequence[int], limit: int) -> list[Delivery]:
        self._leases.tidy()
        got: list[Delivered] = []
        deliveries: list[Delivery] = []
        try:
            for priority in order:
                asked_at = self._leases.now()
                server, name = self._server(wire), PRIORITY_NAMES[priority]
                pull = await server.pull(self._setup.name, name, batch=limit - len(got))
                got += pull.messages
                deliveries += [self._take(message, asked_at) for message in pull.messages]
                if self._is_stuck(name, pull):
                    await self._setup.restart_consumer(server, name)
                if len(got) >= limit:
                    break
        except asyncio.CancelledError:
            wire.give_back(got)
            for delivery in deliveries:
                self._leases.end(delivery.token)
            raise
        except Gone:
            self._connection.unprepare()
            if not deliveries:
                raise
        except QueueError:
            # What was handed out before that is ours all the same.
            if not deliveries:
                raise
        return deliveries

    def _is_stuck(self, priority: str, pull: Pull) -> bool:
        """A consumer that remembers entries which the stream does not have looks for one at each
        pull, and nats-server 2.9 then says nothing: with enough of them, for ever. What others
        hold is handed out a second time when it is made anew, and decided once all the same."""
        if pull.messages or pull.status != UNANSWERED:
            del self._silent[priority]
            return False
        self._silent[priority] += 1
        if self._silent[priority] < SILENT:
            return False
        del self._silent[priority]
        return True

    def _take(self, message: Delivered, asked_at: float) -> Delivery:
        self._leases.begin(message.settle, asked_at)
        return Delivery(
            alert_id=AlertId(message.subject.rpartition(".")[2]),
            token=message.settle,
            published_at=message.stored_at,
        )
