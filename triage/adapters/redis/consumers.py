"""Consumers of a group: each process is one of its own, and leaves when it can."""

from __future__ import annotations

import asyncio
import os
import secrets
import socket
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Any, TypeVar

from triage.adapters.redis.connection import Connection, Script
from triage.errors import QueueError

T = TypeVar("T")

GONE_S = 3600.0
"""A consumer that was silent for so long and holds nothing is taken off the server's list."""

TIDY = Script("""
for _, key in ipairs(KEYS) do
  for _, info in ipairs(redis.call('XINFO', 'CONSUMERS', key, ARGV[1])) do
    local of = {}
    for i = 1, #info, 2 do of[info[i]] = info[i + 1] end
    -- One that holds something is left: what it holds would go with it.
    if of['pending'] == 0 and (of['name'] == ARGV[2] or of['idle'] > tonumber(ARGV[3])) then
      redis.call('XGROUP', 'DELCONSUMER', key, ARGV[1], of['name'])
    end
  end
end
""")
"""KEYS are streams; ARGV: the group, a consumer that leaves, and after how many ms of silence one
counts as gone. Consumers have names of their own in every process, and would pile up."""


def unique_name() -> str:
    """A name that no other has, and that tells a person which process it is."""
    return f"{socket.gethostname()}-{os.getpid()}-{secrets.token_hex(4)}"


def gone_ms(lease_ms: int) -> int:
    return max(round(GONE_S * 1000), 10 * lease_ms)


@dataclass(slots=True)
class Call:
    """One `receive`. What it claims when it is no longer wanted is given back."""

    server: Connection
    is_wanted: bool = True

    @property
    def goes_on(self) -> bool:
        return self.is_wanted and not self.server.is_closing

    async def ended(
        self,
        receiving: Coroutine[Any, Any, list[T]],
        give_back: Callable[[list[T]], Coroutine[Any, Any, None]],
    ) -> list[T]:
        """What it received. Cancelled, it leaves at once, and `give_back` gets what comes yet."""
        task = self.server.begin(receiving)
        try:
            return await asyncio.shield(task)
        except asyncio.CancelledError:
            self.is_wanted = False
            # It may have ended already, in the very turn of the loop in which this was cancelled.
            self.server.spawn(self._returned(task, give_back))
            raise

    async def _returned(
        self,
        task: asyncio.Task[list[T]],
        give_back: Callable[[list[T]], Coroutine[Any, Any, None]],
    ) -> None:
        try:
            unwanted = await task
            if unwanted:
                await give_back(unwanted)
        except QueueError:
            # Nothing was claimed, or its lease ends by itself.
            return
