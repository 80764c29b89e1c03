"""One Redis server: asked within bounds, with its failures made QueueErrors.

Nothing here cancels the client library in the middle of a command: a connection that is cut off
there may be given to the next command with an answer unread, or without the handshake that names
its user and database. Whoever calls is cancelled at once; the command runs to its end beside it,
which the timeouts of its socket bound.
"""

from __future__ import annotations

import asyncio
import hashlib
import random
import re
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar

from triage.adapters.redis.address import Address
from triage.errors import ConfigError, QueueError

if TYPE_CHECKING:
    from redis.asyncio import ConnectionPool

CONNECT_S = 1.0
ANSWER_S = 3.0
"""For one answer. A blocked read asks for less than this, so that it never runs into it."""
BLOCK_S = 0.5
"""A blocked read at a time: how late a lapsed lease is seen, and a receiver that is not wanted any
more ends."""
AT_ONCE = 16
"""Commands under way, blocked reads apart: so many may hang with a server that hangs."""
BACKOFF_S = (0.05, 1.0)
PROBE_S = CONNECT_S + 2 * ANSWER_S
"""How long others fail at once while one call sees whether the server is there again."""
CLOSE_S = 2 * ANSWER_S
CONNECTIONS = 1000

_MOVED = re.compile(r"(?:MOVED )?\d+ (?P<host>\S*):(?P<port>\d+)")
_FORGOTTEN = ("NOQUEUE", "NOGROUP", "UNBLOCKED")

T = TypeVar("T")


class Forgotten(QueueError):
    """What was made on the server is not there (any more)."""


class Refused(QueueError):
    """The server is there and said no."""


@dataclass(frozen=True, slots=True)
class Script:
    """Runs on the server as one step. Sent by its hash once the server knows it."""

    text: str
    sha1: str = field(init=False)

    def __post_init__(self) -> None:
        # How Redis itself names a script.
        digest = hashlib.sha1(self.text.encode(), usedforsecurity=False).hexdigest()
        object.__setattr__(self, "sha1", digest)


class Connection:
    """Belongs to one event loop. Raises ConfigError when the URL cannot be used or the redis
    package is missing; connects when it is first asked."""

    def __init__(self, url: str) -> None:
        try:
            import redis.asyncio
            from redis import exceptions
        except ImportError:
            raise ConfigError(
                "a queue or stream on Redis needs the redis package: pip install 'triage[redis]'"
            ) from None
        self._address = Address.read(url)
        self._client = redis.asyncio
        self._raised = exceptions
        self._pools: list[ConnectionPool] = []
        self._execute: Callable[..., Awaitable[Any]]
        try:
            self._use_pool()
            # Makes an object and connects to nothing; it refuses options that nobody knows.
            self._pools[-1].connection_class(**self._pools[-1].connection_kwargs)
        except Exception:  # noqa: BLE001 - what the library says of an option may quote its value
            raise ConfigError(self._address.unusable) from None
        self.label = self._address.label
        self.trouble = ""
        self.is_closing = False
        self._has_answered = False
        self._places = asyncio.Semaphore(AT_ONCE)
        self._tasks: set[asyncio.Task[Any]] = set()
        self._failures = 0
        self._next_try = 0.0
        self._mended = asyncio.Event()

    def spawn(self, work: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        """Runs whether or not its caller is cancelled; `close` waits for it."""
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._ended)
        return task

    def begin(self, work: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        """The same for what a caller asked for. Raises QueueError once closed."""
        if self.is_closing:
            work.close()
            raise QueueError(f"{self.label} is closed")
        return self.spawn(work)

    async def to_the_end(self, work: Coroutine[Any, Any, T]) -> T:
        """A caller that is cancelled leaves at once, and the work goes on. Raises QueueError."""
        return await asyncio.shield(self.begin(work))

    async def run(self, script: Script, keys: Sequence[str], *arguments: object) -> Any:
        """Raises QueueError; Forgotten when what it works on is missing."""
        async with self._places:
            self._fail_early()
            command = (len(keys), *keys, *arguments)
            try:
                return await self._ask("EVALSHA", script.sha1, *command)
            except _UnknownScript:
                return await self._ask("EVAL", script.text, *command)

    async def ask(self, *command: object) -> Any:
        """Raises QueueError; Forgotten when what it works on is missing."""
        async with self._places:
            self._fail_early()
            return await self._ask(*command)

    async def blocked_read(self, *command: object) -> Any:
        """The same for a command that waits, up to BLOCK_S, on a connection of its own."""
        self._fail_early()
        return await self._ask(*command)

    async def until_next_try(self, wait_s: float) -> None:
        """Waits, up to `wait_s`, while it would be no use to ask."""
        left = min(wait_s, self._next_try - asyncio.get_running_loop().time())
        if left <= 0 or not self._failures:
            return
        self._mended.clear()
        try:
            async with asyncio.timeout(left):
                await self._mended.wait()
        except TimeoutError:
            return

    async def close(self, farewell: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Idempotent. `farewell` is the last that is done, when the server answers."""
        if not self.is_closing:
            self.is_closing = True
            self._mended.set()
            try:
                while self._tasks:
                    # Each is bounded by the timeouts of its socket.
                    await asyncio.wait(self._tasks, timeout=CLOSE_S)
                if self._has_answered and not self.trouble:
                    await farewell()
            except QueueError:
                # Leases end by themselves, and other consumers tidy up what is left.
                pass
        for pool in self._pools:
            try:
                await pool.disconnect()
            except (self._raised.RedisError, OSError):
                # A connection that could not be ended in good order is gone all the same.
                continue

    def _use_pool(self, **elsewhere: object) -> None:
        from redis.asyncio.retry import Retry
        from redis.backoff import NoBackoff

        own = {
            "socket_timeout": ANSWER_S,
            "socket_connect_timeout": CONNECT_S,
            "health_check_interval": 0,
            "max_connections": CONNECTIONS,
            "decode_responses": False,
            "protocol": 2,
            "retry": Retry(NoBackoff(), 0),
        }
        pool = self._client.ConnectionPool(**{**self._address.options, **own, **elsewhere})
        commands = self._client.Redis(connection_pool=pool)
        # Answers as the server gives them: how the library shapes them depends on its version.
        commands.response_callbacks.clear()
        self._execute = commands.execute_command
        self._pools.append(pool)

    def _fail_early(self) -> None:
        """A server that hangs costs one call its time, not every call: whoever comes first after
        the pause tries, and the others fail at once until it is known how that went."""
        if not self._failures:
            return
        now = asyncio.get_running_loop().time()
        if now < self._next_try:
            raise QueueError(self.trouble)
        self._next_try = now + PROBE_S

    async def _ask(self, *command: object) -> Any:
        try:
            try:
                answer = await self._execute(*command)
            except self._raised.ResponseError as error:
                if not await self._follows(error):
                    raise
                answer = await self._execute(*command)
        except self._raised.NoScriptError:
            raise _UnknownScript from None
        except self._raised.ResponseError as error:
            # It is there and says no: a full memory must not keep acks from freeing some.
            self._mend()
            if any(word in str(error) for word in _FORGOTTEN):
                raise Forgotten(f"{self.label}: {error}") from None
            raise await self._refused(error) from None
        except (self._raised.RedisError, OSError, RuntimeError) as error:
            # RuntimeError: what uvloop says to who writes to a connection that was lost just now.
            raise self._failed(error) from None
        self._mend()
        return answer

    async def _follows(self, error: Exception) -> bool:
        """Whether another node of a cluster has the keys, which are all on one, and is asked from
        now on."""
        # The library takes the first word off in some versions.
        moved = _MOVED.fullmatch(str(error))
        if moved is None:
            return False
        latest = self._pools[-1]
        host = moved["host"] or latest.connection_kwargs.get("host", "localhost")
        there = {"host": host, "port": int(moved["port"])}
        if not latest.connection_kwargs.items() >= there.items():
            self._use_pool(**there)
            await latest.disconnect(inuse_connections=False)
        return True

    async def _refused(self, error: Exception) -> Refused:
        hint = ""
        if isinstance(error, self._raised.ReadOnlyError):
            hint = " (a replica: give the URL of the primary)"
            # After a fail-over the name may lead to the new primary by now.
            await self._pools[-1].disconnect(inuse_connections=False)
        elif "unauthenticated" in str(error):
            hint = " (it wants a password)"
        failure = Refused(f"{self.label}: {self._address.scrubbed(error)}{hint}")
        self.trouble = str(failure)
        return failure

    def _failed(self, error: Exception) -> QueueError:
        failure = QueueError(f"{self.label}: {self._address.scrubbed(error)}")
        self.trouble = str(failure)
        self._failures += 1
        least, most = BACKOFF_S
        pause = min(most, least * 2 ** min(self._failures, 10)) * random.uniform(0.5, 1)
        self._next_try = asyncio.get_running_loop().time() + pause
        return failure

    def _mend(self) -> None:
        self._has_answered = True
        self._failures = 0
        self.trouble = ""
        self._mended.set()

    def _ended(self, task: asyncio.Task[Any]) -> None:
        self._tasks.discard(task)
        if not task.cancelled():
            # Whoever was cancelled does not ask how it went.
            task.exception()


class _UnknownScript(Exception):
    """The server does not have it: it was restarted, or never had it."""
