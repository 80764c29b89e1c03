"""All the queries of one attempt: each asked once, all ended by one deadline."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Iterable, Mapping
from typing import Any, Protocol

from triage.evaluation.guard import Answered, Reply, out_of_time, unknown_source
from triage.model.query import Query


class Fetcher(Protocol):
    def fetch(self, query: Query, deadline: float) -> Coroutine[Any, Any, Reply]: ...


class Ticket:
    """One distinct query of the attempt. `reply` is None until `AnswerBook.settle` saw to it."""

    __slots__ = ("query", "reply", "task")

    def __init__(self, query: Query) -> None:
        self.query = query
        self.reply: Reply | None = None
        self.task: asyncio.Task[Reply] | None = None


class AnswerBook:
    """Belongs to one attempt. `close` must be awaited, whatever ended it.

    `deadline` is on the sources' clock and `left_s` seconds away. They are two numbers because
    uvloop's `loop.time()` ticks in milliseconds and is no clock to measure by.

    A task per query and one timer per attempt: a timer per call would cost more than the call
    to an in-memory source. Sources stop by themselves within the time they are given; the timer
    is for the one that does not. Callers hold tickets rather than queries because hashing a query
    costs a microsecond, and each would be looked up a dozen times.
    """

    def __init__(self, sources: Mapping[str, Fetcher], *, deadline: float, left_s: float) -> None:
        self.deadline = deadline
        self.round_trips = 0
        self._sources = sources
        self._tickets: dict[Query, Ticket] = {}
        self._loop = asyncio.get_running_loop()
        self._timer = self._loop.call_later(left_s, self._expire)
        self._expired = False

    def want(self, query: Query) -> Ticket:
        """Start asking, unless it was asked already."""
        ticket = self._tickets.get(query)
        if ticket is not None:
            return ticket
        ticket = self._tickets[query] = Ticket(query)
        source = self._sources.get(query.source)
        if source is None:
            ticket.reply = unknown_source(
                query, f"no source is configured under the name {query.source!r}"
            )
        elif self._expired:
            ticket.reply = out_of_time(query)
        else:
            # Named, because a task without a name makes one up, and formats it.
            ticket.task = asyncio.Task(
                source.fetch(query, self.deadline), loop=self._loop, name=query.source
            )
        return ticket

    async def settle(self, tickets: Iterable[Ticket]) -> bool:
        """Wait until each ticket has a reply. Whether anything had to be waited for: what a
        prefetch asked may have been answered meanwhile."""
        waited = False
        for ticket in tickets:
            if ticket.reply is None:
                waited = waited or (ticket.task is not None and not ticket.task.done())
                ticket.reply = await self._reply(ticket)
        return waited

    async def ask(self, query: Query) -> Reply:
        """One query, for a tool that asks in steps. Several steps may run at once."""
        ticket = self.want(query)
        if ticket.reply is None:
            self.round_trips += 1
            ticket.reply = await self._reply(ticket)
        return ticket.reply

    def extend(self, *, deadline: float, left_s: float) -> None:
        """Give what is asked from now on until `deadline`; what was cut off stays so."""
        self._timer.cancel()
        self._expired = False
        self.deadline = deadline
        self._timer = self._loop.call_later(left_s, self._expire)

    def evidence(self) -> dict[str, bytes]:
        """Bodies of all answers that were waited for, by SHA-256."""
        return {
            ticket.reply.asked.answer_sha256: ticket.reply.body
            for ticket in self._tickets.values()
            if isinstance(ticket.reply, Answered)
        }

    async def close(self) -> None:
        """End what is still being asked (a subtree's prefetch mostly asks too much)."""
        self._timer.cancel()
        # A ticket with a reply was awaited, or cut off by `_expire`: its task may still run then.
        tasks = [
            ticket.task
            for ticket in self._tickets.values()
            if ticket.task is not None and (ticket.reply is None or not ticket.task.done())
        ]
        running = [task for task in tasks if not task.done()]
        for task in running:
            task.cancel()
        if running:
            await asyncio.wait(running)
        for task in tasks:
            if not task.cancelled() and (error := task.exception()) is not None:
                raise error

    async def _reply(self, ticket: Ticket) -> Reply:
        task = ticket.task
        assert task is not None
        try:
            return await task
        except asyncio.CancelledError:
            # Two things look alike here: our own task is being cancelled, or a deadline cut the
            # query off, be it the timer's or that of another dynamic tool waiting for the same.
            current = asyncio.current_task()
            if not task.cancelled() or (current is not None and current.cancelling()):
                raise
            return out_of_time(ticket.query)

    def _expire(self) -> None:
        self._expired = True
        for ticket in self._tickets.values():
            if ticket.task is not None and not ticket.task.done():
                ticket.task.cancel()
                ticket.reply = out_of_time(ticket.query)
