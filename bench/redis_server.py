"""A private Redis server on loopback, for benchmarks and tests: a free port, its files in a folder
of its own, every write on disk before it is answered unless its flags say otherwise."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from bench.brokers import BrokerServer
from bench.servers import HOST, binary


class RedisServer(BrokerServer):
    """`flags` come after the ones given here, and so win: `("--appendonly", "no")`. Raises
    MissingServer."""

    name = "redis"
    probe = b"*1\r\n$4\r\nPING\r\n"
    greetings = (b"+PONG", b"-NOAUTH")
    """One that still loads its files says neither; one that wants a password says so only when it
    takes commands."""

    def __init__(self, folder: Path, *, flags: Sequence[str] = ()) -> None:
        super().__init__(folder)
        self._binary = binary("redis-server")
        self._flags = list(flags)

    @property
    def url(self) -> str:
        return f"redis://{HOST}:{self.port}/0"

    def argv(self) -> list[str]:
        return [
            self._binary,
            *("--bind", HOST, "--port", str(self.port)),
            *("--dir", str(self.data), "--daemonize", "no"),
            *("--save", "", "--appendonly", "yes", "--appendfsync", "always"),
            *self._flags,
        ]
