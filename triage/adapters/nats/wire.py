"""One connection to a NATS server, used until it fails and then replaced.

Everything is bounded: a request by ANSWER_S, after which the connection counts as lost. So a
server that hangs costs each operation that long, and nothing of before is ever sent later.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Coroutine, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import orjson

from triage.adapters.nats.address import Address
from triage.adapters.nats.delivered import ACK_PREFIX, Delivered
from triage.adapters.nats.exchange import NAK, Asked, Pull, Reply, Request, Route, finish
from triage.errors import QueueError

if TYPE_CHECKING:
    from nats.aio.msg import Msg

CONNECT_S = 2.0
ANSWER_S = 2.0
STUCK_S = 0.5
"""2.9 does not answer a pull of a consumer that is not there, nor one whose messages all went to
another pull that came a moment before."""
PING_S = 20


class Wire:
    """Usable once `open` has returned. Raises QueueError from every operation once it is lost.
    `wake` is the subject that wakes receivers, if there is one. `report` is told what the server
    complains of beside its answers."""

    def __init__(self, address: Address, *, wake: str, report: Callable[[str], None]) -> None:
        from triage.adapters.nats.client import Client

        self.lost = ""
        """Why, once it is."""
        self.woken = asyncio.Event()
        """Set, and replaced, when somebody says that there is something to receive."""
        self._address = address
        self._client = Client()
        self._client.tls_only = address.tls_only
        self._wake = wake
        self.complaints = 0
        self._report = report
        self._said = ""
        self._is_open = False
        self._inbox = f"{self._client.new_inbox()}."
        self._serial = 0
        self._routes: dict[str, Route] = {}
        self._pulls: dict[tuple[str, str], Pull] = {}
        self._pulling: dict[tuple[str, str], asyncio.Lock] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    async def open(self, server: str, *, name: str) -> None:
        """To one server within CONNECT_S. Raises QueueError, and is lost then."""
        from nats.errors import Error

        try:
            async with asyncio.timeout(CONNECT_S):
                await self._open(server, name)
        except TimeoutError:
            raise QueueError(f"{server} does not answer within {CONNECT_S:g} s") from None
        except (Error, OSError, ValueError, RuntimeError) as error:
            # RuntimeError: what uvloop says to who writes to a connection that was lost just now.
            said = self._said or self._address.line(error)
            raise QueueError(f"{server}: {said}{_hint(said)}") from None
        else:
            self._is_open = True
        finally:
            if not self._is_open:
                self.lost = self.lost or "it was never connected"
                await self._client.end()

    async def _open(self, server: str, name: str) -> None:
        await self._client.connect(
            servers=[server],
            name=name,
            user=self._address.user,
            password=self._address.password,
            token=self._address.token,
            error_cb=self._on_error,
            closed_cb=self._on_closed,
            allow_reconnect=False,
            # One that refuses is tried once more at once, and what it said told to `error_cb`.
            max_reconnect_attempts=1,
            reconnect_time_wait=0,
            # 0: never wait for a flush, which cannot be cancelled. What may pile up is bounded
            # by the operations under way, as each ends with the connection.
            pending_size=0,
            ping_interval=PING_S,
            max_outstanding_pings=2,
        )
        await self._client.subscribe(f"{self._inbox}>", cb=self._on_message)
        if self._wake:
            await self._client.subscribe(self._wake, cb=self._on_wake)
        # What is published from now on finds the subscriptions.
        await self._echo()

    @property
    def server_version(self) -> tuple[int, int]:
        version = self._client.connected_server_version
        return version.major, version.minor

    @property
    def version(self) -> str:
        version = self._client.connected_server_version
        return f"{version.major}.{version.minor}.{version.patch}"

    @property
    def max_payload(self) -> int:
        """Bytes of a message's headers and body."""
        return self._client.max_payload

    async def ask(self, requests: Sequence[Request]) -> list[Reply]:
        """One answer each, in order. Raises QueueError."""
        if not requests:
            return []
        asked = Asked(len(requests))
        with self._route(asked) as inbox:
            for place, request in enumerate(requests):
                await self._publish(request, reply=f"{inbox}{place}")
            await self._finished(asked)
        return [asked.answers[str(place)] for place in range(len(requests))]

    async def tell(self, requests: Sequence[Request]) -> list[Reply | None]:
        """The same for acks and the like. None where a server that is there does not answer: it
        took notice, and knows nothing of the delivery; that is how 2.10 and later say so. Raises
        QueueError."""
        if not requests:
            return []
        asked, before = Asked(len(requests)), self.complaints
        with self._route(asked) as inbox:
            for place, request in enumerate(requests):
                await self._publish(request, reply=f"{inbox}{place}")
            await asyncio.wait((asked.done,), timeout=STUCK_S)
            if not asked.done.done():
                await self._echo()
                self.raise_complaint(since=before)
            self._raise_when_lost()
        return [asked.answers.get(str(place)) for place in range(len(requests))]

    async def wake(self) -> None:
        """Tell receivers, wherever they are. Raises QueueError."""
        await self._publish(Request(self._wake))

    async def pull(
        self,
        stream: str,
        consumer: str,
        *,
        batch: int,
        wait_s: float = 0,
        max_bytes: int = 0,
    ) -> Pull:
        """What is there, up to `batch`; waits up to `wait_s` for the first. Raises QueueError.

        An UNANSWERED one tells nothing of the server: ask it something else.
        One at a time for a consumer, since a message does not say which pull it is for. Whatever
        comes to a pull that has ended goes to the next, or is given back at once: so does what a
        cancelled one received.
        """
        key = (stream, consumer)
        asked: dict[str, Any] = {"batch": batch, "no_wait": True}
        if wait_s > 0:
            asked["expires"] = round(wait_s * 1e9)
        if max_bytes:
            asked["max_bytes"] = max_bytes
        request = Request(f"$JS.API.CONSUMER.MSG.NEXT.{stream}.{consumer}", orjson.dumps(asked))
        async with self._pulling.setdefault(key, asyncio.Lock()):
            pull = Pull(batch)
            with self._route(pull) as inbox:
                self._pulls[key] = pull
                try:
                    await self._publish(request, reply=f"{inbox}0")
                    await asyncio.wait((pull.done,), timeout=wait_s + STUCK_S)
                    pull.give_up()
                    self._raise_when_lost()
                except QueueError:
                    if not pull.messages:
                        raise
                except asyncio.CancelledError:
                    self.give_back(pull.messages)
                    raise
                finally:
                    del self._pulls[key]
        return pull

    def give_back(self, messages: Sequence[Delivered]) -> None:
        """At once, and also when the caller is being cancelled; nothing when it cannot be done:
        then the leases end by themselves."""
        if messages and not self.lost:
            self._spawn(self._give_back([message.settle for message in messages]))

    def fail(self, why: str) -> None:
        """It is of no more use, whoever waits for an answer is told, and its socket closed."""
        if self.lost:
            return
        said = f": {self._said}" if self._said else ""
        self.lost = f"{why}{said}"
        for route in self._routes.values():
            finish(route.done)
        self._wake_receivers()
        self._spawn(self._client.end())

    def raise_complaint(self, *, since: int) -> None:
        """When the server complained of something (a permission, say) since `complaints` was
        that. Raises QueueError."""
        if self.complaints > since:
            raise QueueError(f"{self._address.label}: {self._said}")

    async def close(self) -> None:
        """Gone when this returns; what is being given back is given back first."""
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=ANSWER_S)
        self.fail("it was closed")
        while self._tasks:
            await asyncio.wait(self._tasks)

    async def _echo(self) -> None:
        """Returns when the server has handed on what was sent so far. Raises QueueError."""
        asked = Asked(1)
        with self._route(asked) as inbox:
            await self._publish(Request(f"{inbox}0"))
            await self._finished(asked)

    @contextmanager
    def _route(self, route: Route) -> Iterator[str]:
        self._serial += 1
        serial = str(self._serial)
        self._routes[serial] = route
        try:
            yield f"{self._inbox}{serial}."
        finally:
            del self._routes[serial]

    async def _finished(self, asked: Asked) -> None:
        await asyncio.wait((asked.done,), timeout=ANSWER_S)
        if not asked.done.done():
            self.fail(f"no answer within {ANSWER_S:g} s")
        self._raise_when_lost()

    async def _publish(self, request: Request, *, reply: str = "") -> None:
        from nats.errors import Error

        if not self.lost and self._client.is_closed:
            self.fail("the connection was lost")
        self._raise_when_lost()
        headers = dict(request.headers) if request.headers else None
        try:
            # Puts it into a buffer, and never waits.
            await self._client.publish(request.subject, request.payload, reply, headers)
        except (Error, OSError, RuntimeError) as error:
            self.fail(self._address.line(error))
            self._raise_when_lost()

    def _raise_when_lost(self) -> None:
        if self.lost:
            raise QueueError(f"{self._address.label}: {self.lost}")

    async def _give_back(self, settles: Sequence[str]) -> None:
        with contextlib.suppress(QueueError):
            await self.tell([Request(settle, NAK) for settle in settles])
            if self._wake:
                await self.wake()

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _on_message(self, message: Msg) -> None:
        if message.reply.startswith(ACK_PREFIX):
            self._on_delivery(message)
            return
        serial, _, place = message.subject.removeprefix(self._inbox).partition(".")
        route = self._routes.get(serial)
        if route is not None:
            route.take(place, message)

    def _on_delivery(self, message: Msg) -> None:
        one = Delivered.read(message.subject, message.reply, message.headers, message.data)
        if one is None:
            return
        pull = self._pulls.get((one.stream, one.consumer))
        if pull is None or not pull.add(one):
            self.give_back([one])

    async def _on_wake(self, _message: Msg) -> None:
        self._wake_receivers()

    def _wake_receivers(self) -> None:
        self.woken.set()
        self.woken = asyncio.Event()

    async def _on_error(self, error: Exception) -> None:
        self.complaints += 1
        self._said = self._address.line(error) or type(error).__name__
        self._report(f"{self._address.label}: {self._said}")

    async def _on_closed(self) -> None:
        self.fail("the connection was lost")


def _hint(said: str) -> str:
    if "authorization" in said.lower():
        return " (user, password or token of the URL are not the server's)"
    return ""
