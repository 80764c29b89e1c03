"""A producers' stream on NATS JetStream, read through a durable pull consumer."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Sequence

import orjson

from triage.adapters.nats.connection import Connection
from triage.adapters.nats.delivered import Delivered
from triage.adapters.nats.exchange import ACK, NAK, Request, is_gone
from triage.adapters.nats.jetstream import Gone, JetStream
from triage.adapters.nats.leases import Leases
from triage.adapters.nats.stream_setup import StreamSetup
from triage.adapters.nats.weaknesses import weaknesses
from triage.adapters.nats.wire import Wire
from triage.errors import ConfigError, QueueError
from triage.ports import Clock, StreamMessage

POLL_S = 1.0
"""One pull waits so long, so that a server that hangs is noticed and a pull that nobody waits for
any more ends."""
REFUSED_PAUSE_S = 0.05
LEAST_BYTES = 4 * 2**20
_OVERHEAD = 64 * 1024  # of subjects and the like, which JetStream counts as well

_STREAM = re.compile(r"[^\s.*>/\\]+")
_SUBJECT = re.compile(r"[^\s.]+(\.[^\s.]+)*")


class NatsStream:
    """`name` is that of the section, `stream` that of the stream, which its producers made;
    `subject` (wildcards allowed) takes only some of it. Replicas of one `group` share the
    messages. The consumer is made when it is missing, and starts with the oldest message.

    An ack is waited for: one that is lost costs a message received again, and nothing else.

    Raises ConfigError for what cannot be used, or when the library is missing. Belongs to one
    event loop.
    """

    def __init__(
        self,
        *,
        url: str,
        name: str,
        stream: str,
        group: str,
        lease_s: float,
        clock: Clock,
        subject: str = "",
    ) -> None:
        if not _STREAM.fullmatch(stream):
            raise ConfigError(f"[streams.{name}] stream: {stream!r} is no name of a NATS stream")
        if subject and not _SUBJECT.fullmatch(subject):
            raise ConfigError(f"[streams.{name}] subject: {subject!r} is no subject of NATS")
        self._name = name
        self._stream = stream
        self._setup = StreamSetup(
            section=name, stream=stream, group=group, subject=subject, lease_s=lease_s
        )
        self._leases = Leases(lease_s=lease_s, clock=clock)
        self._connection = Connection(url, name=f"triage {name}", prepare=self._prepare)

    @property
    def name(self) -> str:
        return self._name

    @property
    def label(self) -> str:
        return f"{self._connection.label} stream {self._stream}"

    @property
    def trouble(self) -> str:
        return self._connection.trouble

    async def receive(self, *, limit: int, wait_s: float) -> list[StreamMessage]:
        if limit < 1:
            return []
        loop = asyncio.get_running_loop()
        until = loop.time() + wait_s
        is_second = False
        with self._connection.operation():
            while True:
                wire = await self._connection.ready()
                self._leases.tidy()
                asked_at, began = self._leases.now(), loop.time()
                wait = min(POLL_S, max(0.0, until - began))
                server = JetStream(wire, self.label)
                try:
                    pull = await server.pull(
                        self._stream,
                        self._setup.group,
                        batch=limit,
                        wait_s=wait,
                        max_bytes=max(LEAST_BYTES, wire.max_payload + _OVERHEAD),
                    )
                except Gone:
                    self._connection.unprepare()
                    if is_second:
                        raise
                    is_second = True
                    continue
                if pull.messages:
                    self._setup.gave(pull.messages[-1].stored_at)
                    return [self._take(message, asked_at) for message in pull.messages]
                await self._setup.look(server, asked_at)
                if loop.time() >= until:
                    return []
                is_second = False
                self._connection.works()
                if loop.time() - began < wait / 2:
                    # Told at once that others are asking already: not over and over.
                    await asyncio.sleep(REFUSED_PAUSE_S)

    async def ack(self, messages: Sequence[StreamMessage]) -> None:
        # Also when the lease has ended: whoever has it now would only find it is here already.
        await self._settle([message.token for message in messages], ACK)

    async def release(self, messages: Sequence[StreamMessage], *, delay_s: float = 0) -> None:
        # Not when the lease has ended: it would be taken from whoever has it now.
        held = [message.token for message in messages if self._leases.holds(message.token)]
        nak = NAK if delay_s <= 0 else NAK + b" " + orjson.dumps({"delay": round(delay_s * 1e9)})
        await self._settle(held, nak)

    async def weaknesses(self) -> list[str]:
        with self._connection.operation():
            wire = await self._connection.ready()
            info = await JetStream(wire, self.label).stream(self._stream)
        if info is None:
            self._connection.unprepare()
            raise QueueError(f"{self.label} was just deleted")
        loss = "alerts that were not taken from it yet are lost"
        return list(
            weaknesses(info, version=wire.server_version, version_text=wire.version, loss=loss)
        )

    async def close(self) -> None:
        await self._connection.close()

    async def _settle(self, tokens: Sequence[str], how: bytes) -> None:
        if not tokens:
            return
        with self._connection.operation():
            wire = await self._connection.ready()
            # `ready` may have found another stream, where the same numbers name other messages.
            ours = [token for token in tokens if token.startswith(f"{self._setup.era} ")]
            replies = await wire.tell([Request(token.partition(" ")[2], how) for token in ours])
            for token in ours:
                self._leases.end(token)
            if any(map(is_gone, replies)):
                self._connection.unprepare()

    async def _prepare(self, wire: Wire) -> None:
        await self._setup.prepare(JetStream(wire, self.label))

    def _take(self, message: Delivered, asked_at: float) -> StreamMessage:
        # With the era: the same numbers name other messages in another.
        token = f"{self._setup.era} {message.settle}"
        self._leases.begin(token, asked_at)
        return StreamMessage(
            # With the time: a stream that was made again counts from 1 again.
            message_id=f"{message.stream}/{message.sequence}/{message.stored_ns}",
            token=token,
            body=message.body,
            headers=message.headers,
            deliveries=message.deliveries,
        )
