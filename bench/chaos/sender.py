"""Sends each message until a 2xx came for it, as Alertmanager does: to whichever replica answers.

An answer that never came, a connection that broke, 429 and 503 are tried again, at the next
replica, for as long as it takes. Only what a 2xx named goes into the journal.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Sequence
from dataclasses import dataclass, field

import orjson

from bench.chaos.client import Answer, HttpClient, NoAnswer
from bench.chaos.clock import PlanClock
from bench.chaos.journal import Journal, Promise
from bench.chaos.messages import Message

AT_ONCE = 48
ANSWER_S = 5.0  # seconds a replica has
MOST_WAIT_S = 2.0  # of what Retry-After asks for: a bench has not the patience of a real sender
PAUSE_S = 0.3
BUSY = frozenset({429, 503})


@dataclass(slots=True)
class Sent:
    """What became of the requests: `refused` by 429 or 503, `unanswered` for want of an answer.
    `rejected` are messages that were taken for wrong, with the answer's body."""

    requests: int = 0
    refused: int = 0
    unanswered: int = 0
    ids: set[str] = field(default_factory=set)
    """Of every message that left at least once."""
    rejected: list[str] = field(default_factory=list)


class Sender:
    """`ports` are those of the replicas, or of the proxies before them."""

    def __init__(self, ports: Sequence[int], journal: Journal, seed: int) -> None:
        self.sent = Sent()
        self.answered = 0
        self._clients = [HttpClient(port) for port in ports]
        self._journal = journal
        self._seed = seed
        self._tasks: set[asyncio.Task[None]] = set()
        self._open = asyncio.Semaphore(AT_ONCE)

    @property
    def under_way(self) -> int:
        return len(self._tasks)

    async def send_when_due(self, messages: Sequence[Message], clock: PlanClock) -> None:
        """Returns when all have left or wait their turn."""
        for message in messages:
            await clock.until(message.due_s)
            self.send(message)

    def send(self, message: Message) -> None:
        task = asyncio.create_task(self._deliver(message))
        self._tasks.add(task)
        task.add_done_callback(self._ended)

    async def finish(self, within_s: float) -> int:
        """How many messages still have no 2xx when so long passed without one."""
        while self._tasks:
            before = len(self._tasks)
            await asyncio.wait(self._tasks, timeout=within_s)
            if len(self._tasks) == before:
                break
        return len(self._tasks)

    async def close(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        for client in self._clients:
            client.close()

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and task.exception() is not None:
            self.sent.rejected.append(f"the sender itself failed: {task.exception()!r}")

    async def _deliver(self, message: Message) -> None:
        draw = random.Random(f"{self._seed}/sender/{message.number}/{message.kind}")
        replica = draw.randrange(len(self._clients))
        left_at = 0.0
        while True:
            async with self._open:
                left_at = left_at or time.time()
                answer = await self._try(message, replica)
                if answer is not None and 200 <= answer.status < 300:
                    self._promised(message, replica, left_at, answer)
                    return
            wait = PAUSE_S
            if answer is None:
                self.sent.unanswered += 1
            elif answer.status in BUSY:
                self.sent.refused += 1
                wait = min(MOST_WAIT_S, float(answer.headers.get("retry-after", PAUSE_S)))
            else:
                shown = answer.body[:300].decode(errors="replace")
                self.sent.rejected.append(f"message {message.number}: {answer.status} {shown}")
                return
            await asyncio.sleep(wait * draw.uniform(0.5, 1.0))
            replica = (replica + 1) % len(self._clients)

    async def _try(self, message: Message, replica: int) -> Answer | None:
        self.sent.ids.update(message.ids)
        self.sent.requests += 1
        try:
            return await self._clients[replica].ask(
                "POST",
                message.path,
                body=message.body,
                headers=message.headers,
                within_s=ANSWER_S,
            )
        except NoAnswer:
            return None

    def _promised(self, message: Message, replica: int, left_at: float, answer: Answer) -> None:
        self._journal.write(
            Promise(
                at=time.time(),
                left_at=left_at,
                message=message.number,
                kind=message.kind,
                replica=replica,
                status=answer.status,
                ids=tuple(orjson.loads(answer.body)["alert_ids"]),
                expected=message.ids,
            )
        )
        self.answered += 1
