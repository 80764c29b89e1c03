"""The queue on Redis Streams.

Each priority has a stream for what was published and one, served before it, for what was given
back; one consumer group reads them all, and every process is a consumer of its own. A delivery is
an entry that is pending for its consumer; its lease is its idle time, which the server counts and
`extend` sets back. Whoever receives claims what has been idle for longer than the lease. An acked
entry is deleted, so the server holds no more than what is queued.
"""

from __future__ import annotations

import asyncio
import math
import secrets
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, TypeVar

from triage.adapters.redis.connection import BLOCK_S, Connection, Forgotten, Script
from triage.adapters.redis.consumers import TIDY, Call, gone_ms, unique_name
from triage.adapters.redis.durability import Loss, weaknesses
from triage.adapters.redis.scripts import DEPTH, EXTEND, MAKE, PUBLISH, RECEIVE, SETTLE
from triage.model.alert import PRIORITY_NAMES, AlertId, Severity
from triage.ports import Clock, Delivery, served_first

GROUP = "workers"
AT_A_TIME = 500
"""Alerts that one run of a script works on: nobody else is served meanwhile."""

_LOSS = Loss(
    "wake-ups",
    "no alert is lost, the store has them all, but these wait until they are published again",
)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

T = TypeVar("T")


class RedisQueue:
    """See `triage.ports.Queue`. `name` begins every key; `lease_s` runs from a claim or its last
    extension, on the server's clock. A lapsed lease is seen within half a second by whoever waits.
    Raises ConfigError when the URL cannot be used or the redis package is missing.
    """

    def __init__(
        self, url: str, *, name: str, lease_s: float, clock: Clock, consumer: str = ""
    ) -> None:
        self._server = Connection(url)
        self._clock = clock
        self._lease_ms = max(1, round(lease_s * 1000))
        self._consumer = consumer or unique_name()
        # In braces: a cluster keeps all of them on one node, where a script can reach them.
        begins = f"{{{name}}}"
        self._streams = [
            [f"{begins}:{kind}:{priority}" for kind in ("again", "work")]
            for priority in PRIORITY_NAMES
        ]
        self._keys = [f"{begins}:epoch", f"{begins}:queued"]
        for priority, streams in zip(PRIORITY_NAMES, self._streams, strict=True):
            self._keys += [*streams, f"{begins}:later:{priority}"]
        self._epoch = ""
        self._forgot = False
        self._turn = 0

    @property
    def label(self) -> str:
        return self._server.label

    @property
    def trouble(self) -> str:
        return self._server.trouble

    async def publish(self, alerts: Sequence[tuple[AlertId, Severity]]) -> None:
        if alerts:
            await self._server.to_the_end(self._publish(alerts))

    async def receive(self, *, limit: int, wait_s: float) -> list[Delivery]:
        call = Call(self._server)
        return await call.ended(self._receive(limit, wait_s, call), self._give_back)

    async def settle(
        self,
        *,
        acked: Sequence[Delivery] = (),
        returned: Sequence[Delivery] = (),
        delay_s: float = 0,
    ) -> None:
        if acked or returned:
            await self._server.to_the_end(self._settle(acked, returned, delay_s))

    async def extend(self, deliveries: Sequence[Delivery]) -> list[Delivery]:
        return await self._server.to_the_end(self._extend(deliveries)) if deliveries else []

    def forgot(self) -> bool:
        forgot, self._forgot = self._forgot, False
        return forgot

    async def depth(self) -> Mapping[str, int]:
        depths = await self._server.to_the_end(self._run(DEPTH))
        return dict(zip(PRIORITY_NAMES, depths, strict=True))

    async def weaknesses(self) -> list[str]:
        return await self._server.to_the_end(weaknesses(self._server, _LOSS))

    async def close(self) -> None:
        await self._server.close(self._tidy)

    async def _publish(self, alerts: Sequence[tuple[AlertId, Severity]]) -> None:
        now = (self._clock.now() - _EPOCH) // timedelta(microseconds=1)
        for share in _shares(alerts):
            words = [word for alert, severity in share for word in (alert, severity.priority)]
            await self._run(PUBLISH, now, *words)

    async def _receive(self, limit: int, wait_s: float, call: Call) -> list[Delivery]:
        loop = asyncio.get_running_loop()
        ends = loop.time() + wait_s
        await self._server.until_next_try(wait_s)
        order = served_first(self._turn)
        self._turn += 1
        while True:
            found, due_ms = await self._run(
                RECEIVE, self._consumer, self._lease_ms, min(limit, AT_A_TIME), *order
            )
            got = [_delivery(*one) for one in found]
            left = ends - loop.time()
            if not got and left > 0 and call.goes_on:
                block_s = min(left, BLOCK_S, due_ms / 1000 if due_ms >= 0 else left)
                got = await self._wait(order, limit, block_s)
            if got or left <= 0 or not call.goes_on:
                break
        if got and self._server.is_closing:
            await self._give_back(got)
            return []
        return got

    async def _wait(self, order: Sequence[int], limit: int, wait_s: float) -> list[Delivery]:
        """Blocks on all streams until one has something. The server hands an entry over as it
        wakes the reader, so that of many waiting readers only one is woken."""
        keys = [key for priority in order for key in self._streams[priority]]
        places = {
            key: f"{priority}:{kind}"
            for priority in order
            for key, kind in zip(self._streams[priority], "aw", strict=True)
        }
        # The count is for each stream; 0 ms would be for ever.
        each = max(1, min(limit, AT_A_TIME) // len(keys))
        try:
            answer = await self._server.blocked_read(
                *("XREADGROUP", "GROUP", GROUP, self._consumer, "COUNT", each),
                *("BLOCK", max(1, math.ceil(wait_s * 1000)), "STREAMS", *keys),
                *(">" for _ in keys),
            )
        except Forgotten:
            # The next pass makes it again.
            return []
        found = {key.decode(): entries for key, entries in answer or ()}
        got = []
        for key in keys:
            for entry_id, words in found.get(key, ()):
                fields = dict(zip(words[::2], words[1::2], strict=True))
                if b"alert" in fields:
                    place = f"{places[key]}:{entry_id.decode()}".encode()
                    got.append(_delivery(place, 1, fields[b"alert"], fields[b"published"]))
        if len(got) > limit:
            await self._give_back(got[limit:])
        return got[:limit]

    async def _give_back(self, unwanted: Sequence[Delivery]) -> None:
        await self._settle((), unwanted, 0)

    async def _settle(
        self, acked: Sequence[Delivery], returned: Sequence[Delivery], delay_s: float
    ) -> None:
        delay_ms = math.ceil(delay_s * 1000)
        said = [("ack", one) for one in acked] + [("return", one) for one in returned]
        for share in _shares(said):
            words = [word for verb, one in share for word in (verb, *_place(one))]
            await self._run(SETTLE, self._consumer, delay_ms, *words)

    async def _extend(self, deliveries: Sequence[Delivery]) -> list[Delivery]:
        held: list[Delivery] = []
        for share in _shares(deliveries):
            words = [word for one in share for word in _place(one)]
            kept = await self._run(EXTEND, self._consumer, self._lease_ms, *words)
            held += [share[index] for index in kept]
        return held

    async def _run(self, script: Script, *arguments: object) -> Any:
        for _ in range(2):
            try:
                return await self._server.run(script, self._keys, self._epoch, GROUP, *arguments)
            except Forgotten:
                await self._make()
        # Lost again between the two: a person is deleting keys, or another process is.
        return await self._server.run(script, self._keys, self._epoch, GROUP, *arguments)

    async def _make(self) -> None:
        """Whoever first finds the server empty makes streams and group, under a new epoch; by the
        epoch the others know that it was."""
        fresh = secrets.token_hex(8)
        answer = await self._server.run(MAKE, self._keys, fresh, GROUP)
        epoch, created = answer[0].decode(), answer[1]
        if created or epoch == fresh or (self._epoch and epoch != self._epoch):
            self._forgot = True
        self._epoch = epoch
        await self._tidy()

    async def _tidy(self) -> None:
        streams = [stream for streams in self._streams for stream in streams]
        leaver = self._consumer if self._server.is_closing else ""
        await self._server.run(TIDY, streams, GROUP, leaver, gone_ms(self._lease_ms))


def _delivery(place: bytes, count: int, alert: bytes, published_us: bytes) -> Delivery:
    return Delivery(
        alert_id=AlertId(alert.decode()),
        token=f"{place.decode()}/{count}",
        published_at=_EPOCH + timedelta(microseconds=int(published_us)),
    )


def _place(delivery: Delivery) -> tuple[str, str]:
    place, _, count = delivery.token.rpartition("/")
    return place, count


def _shares(of: Sequence[T]) -> Iterator[Sequence[T]]:
    return (of[start : start + AT_A_TIME] for start in range(0, len(of), AT_A_TIME))
