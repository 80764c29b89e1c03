"""A stream that producers write alerts to: a key of Redis that is theirs.

Read through a consumer group, so that replicas share it and nothing that was written before the
group was there is missed. Nothing is deleted: how long entries are kept is the producers' business.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Mapping, Sequence
from typing import Any

from triage.adapters.redis.connection import BLOCK_S, Connection, Forgotten, Script
from triage.adapters.redis.consumers import TIDY, Call, gone_ms, unique_name
from triage.adapters.redis.durability import Loss, weaknesses
from triage.ports import StreamMessage

AT_A_TIME = 500

_LOSS = Loss(
    "messages",
    "alerts that triage had not received are lost, whatever their producers were told",
)

_PRELUDE = """
local stream, later, group, consumer = KEYS[1], KEYS[2], ARGV[1], ARGV[2]
local lease_ms = tonumber(ARGV[3])
local t = redis.call('TIME')
local now = t[1] * 1000 + math.floor(t[2] / 1000)
local function pending(id) return redis.call('XPENDING', stream, group, id, id, 1)[1] end
-- Claimable again after `wait_ms`, which is at most a lease; no delivery is counted.
local function put_off(id, wait_ms, count)
  redis.call('XCLAIM', stream, group, consumer, 0, id,
    'IDLE', lease_ms - wait_ms, 'RETRYCOUNT', count, 'JUSTID')
end
"""
RECEIVE = Script(
    _PRELUDE
    + """
local left = tonumber(ARGV[4])
local got = {}
local cursor = '0-0'
repeat
  -- What was deleted meanwhile it takes out of the group's list by itself.
  local found = redis.call('XAUTOCLAIM', stream, group, consumer, lease_ms, cursor, 'COUNT', left)
  cursor = found[1]
  for _, entry in ipairs(found[2]) do
    if entry then
      local count = pending(entry[1])[4]
      local due = tonumber(redis.call('ZSCORE', later, entry[1]) or 0)
      if due > now then
        put_off(entry[1], math.min(lease_ms, due - now), count - 1)
      else
        got[#got + 1] = {entry[1], count, entry[2]}
        left = left - 1
      end
    end
  end
until cursor == '0-0' or left <= 0
if left > 0 then
  local found = redis.call(
    'XREADGROUP', 'GROUP', group, consumer, 'COUNT', left, 'STREAMS', stream, '>')
  if found then
    for _, entry in ipairs(found[1][2]) do got[#got + 1] = {entry[1], 1, entry[2]} end
  end
end
return got
"""
)
"""ARGV: how many. Returns the entries: id, how often it was delivered, names and values."""

RELEASE = Script(
    _PRELUDE
    + """
local delay_ms = tonumber(ARGV[4])
redis.call('ZREMRANGEBYSCORE', later, '-inf', now)
for i = 6, #ARGV, 2 do
  local id, count = ARGV[i], tonumber(ARGV[i + 1])
  local held = pending(id)
  if held and held[2] == consumer and held[4] == count then
    put_off(id, math.min(lease_ms, delay_ms), count - tonumber(ARGV[5]))
    -- Redis knows no time to come: what is put off for longer than a lease is put off again.
    if delay_ms > lease_ms then redis.call('ZADD', later, now + delay_ms, id) end
  end
end
"""
)
"""ARGV: the delay in ms, how many deliveries not to count, then for each message id and count."""

MAKE_GROUP = Script("""
local made = redis.pcall('XGROUP', 'CREATE', KEYS[1], ARGV[1], '0', 'MKSTREAM')
if made.err and not string.find(made.err, 'BUSYGROUP') then return made end
""")


class RedisStream:
    """See `triage.ports.Stream`. `stream` is the producers' key. The body is the field
    `body_field` of an entry, the other fields are headers; an entry without that field has an
    empty body. A message that was released is seen within half a second by whoever waits.

    Besides the producers' key it may write `<stream>:later:<group>`. Raises ConfigError when the
    URL cannot be used or the redis package is missing.
    """

    def __init__(
        self,
        url: str,
        *,
        stream: str,
        group: str,
        lease_s: float,
        body_field: str = "body",
        consumer: str = "",
    ) -> None:
        self._server = Connection(url)
        self._stream = stream
        self._group = group
        self._lease_ms = max(1, round(lease_s * 1000))
        self._body_field = body_field.encode()
        self._consumer = consumer or unique_name()
        # On one node of a cluster with the stream.
        tag = stream if "{" in stream else f"{{{stream}}}"
        self._keys = [stream, f"{tag}:later:{group}"]

    @property
    def name(self) -> str:
        return self._stream

    @property
    def label(self) -> str:
        return f"{self._server.label} stream {self._stream}"

    @property
    def trouble(self) -> str:
        return self._server.trouble

    async def receive(self, *, limit: int, wait_s: float) -> list[StreamMessage]:
        call = Call(self._server)
        return await call.ended(self._receive(limit, wait_s, call), self._give_back)

    async def ack(self, messages: Sequence[StreamMessage]) -> None:
        if messages:
            await self._server.to_the_end(self._ack(messages))

    async def release(self, messages: Sequence[StreamMessage], *, delay_s: float = 0) -> None:
        if messages:
            await self._server.to_the_end(self._release(messages, delay_s))

    async def weaknesses(self) -> list[str]:
        return await self._server.to_the_end(weaknesses(self._server, _LOSS))

    async def close(self) -> None:
        await self._server.close(self._tidy)

    async def _receive(self, limit: int, wait_s: float, call: Call) -> list[StreamMessage]:
        loop = asyncio.get_running_loop()
        ends = loop.time() + wait_s
        await self._server.until_next_try(wait_s)
        while True:
            found = await self._run(RECEIVE, min(limit, AT_A_TIME))
            got = [self._message(entry, count, words) for entry, count, words in found]
            left = ends - loop.time()
            if not got and left > 0 and call.goes_on:
                got = await self._wait(limit, min(left, BLOCK_S))
            if got or left <= 0 or not call.goes_on:
                break
        if got and self._server.is_closing:
            await self._give_back(got)
            return []
        return got

    async def _wait(self, limit: int, wait_s: float) -> list[StreamMessage]:
        try:
            answer = await self._server.blocked_read(
                *("XREADGROUP", "GROUP", self._group, self._consumer),
                *("COUNT", min(limit, AT_A_TIME)),
                # 0 ms would be for ever.
                *("BLOCK", max(1, math.ceil(wait_s * 1000)), "STREAMS", self._stream, ">"),
            )
        except Forgotten:
            # The next pass makes it again.
            return []
        return [
            self._message(entry, 1, words)
            for _, entries in answer or ()
            for entry, words in entries
        ]

    async def _give_back(self, unwanted: Sequence[StreamMessage]) -> None:
        """As if they had not been delivered: that nobody took them is no fault of theirs."""
        await self._release(unwanted, 0, uncounted=1)

    async def _ack(self, messages: Sequence[StreamMessage]) -> None:
        # Whoever holds them by now: they are durable here, and nobody needs them any more.
        for start in range(0, len(messages), AT_A_TIME):
            ids = [message.message_id for message in messages[start : start + AT_A_TIME]]
            try:
                await self._server.ask("XACK", self._stream, self._group, *ids)
            except Forgotten:
                await self._make()

    async def _release(
        self, messages: Sequence[StreamMessage], delay_s: float, *, uncounted: int = 0
    ) -> None:
        delay_ms = math.ceil(delay_s * 1000)
        for start in range(0, len(messages), AT_A_TIME):
            words = [
                word
                for message in messages[start : start + AT_A_TIME]
                for word in (message.message_id, message.token)
            ]
            await self._run(RELEASE, delay_ms, uncounted, *words)

    async def _run(self, script: Script, *arguments: object) -> Any:
        known = (self._group, self._consumer, self._lease_ms)
        try:
            return await self._server.run(script, self._keys, *known, *arguments)
        except Forgotten:
            await self._make()
        return await self._server.run(script, self._keys, *known, *arguments)

    async def _make(self) -> None:
        await self._server.run(MAKE_GROUP, [self._stream], self._group)
        await self._tidy()

    async def _tidy(self) -> None:
        leaver = self._consumer if self._server.is_closing else ""
        await self._server.run(TIDY, [self._stream], self._group, leaver, gone_ms(self._lease_ms))

    def _message(self, entry_id: bytes, count: int, words: Sequence[bytes]) -> StreamMessage:
        fields = dict(zip(words[::2], words[1::2], strict=True))
        body = fields.pop(self._body_field, b"")
        return StreamMessage(
            message_id=entry_id.decode(),
            token=str(count),
            body=body,
            headers=_text(fields),
            deliveries=count,
        )


def _text(fields: Mapping[bytes, bytes]) -> dict[str, str]:
    return {
        name.decode(errors="replace"): value.decode(errors="replace")
        for name, value in fields.items()
    }
