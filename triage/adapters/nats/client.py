"""The library's client, made to end at once and to keep passwords off plain connections.

Imported when something is to be connected: the library is an extra.
"""

from __future__ import annotations

import asyncio
import contextlib

from nats.aio.client import Client as LibraryClient
from nats.errors import Error

END_S = 1.0


class Client(LibraryClient):
    """One connection, never made a second time. With the library's own reconnecting, commands of
    before an outage would be sent after it: pulls that nobody waits for any more."""

    tls_only = False

    async def end(self) -> None:
        """Its socket and tasks are gone when this returns, whatever state it was in.

        The library closes in good order, and so waits for ever for a server that has stopped
        reading; and it leaves its tasks behind when the last bytes cannot be written.
        """
        self._pending = []
        self._pending_data_size = 0
        subscriptions = list(self._subs.values())
        writer = getattr(self._transport, "_io_writer", None)
        if writer is not None:
            writer.transport.abort()
        # It is aborted, and what cannot be closed in good order after that need not be.
        with contextlib.suppress(TimeoutError, OSError, Error):
            async with asyncio.timeout(END_S):
                await self.close()
        for subscription in subscriptions:
            subscription._stop_processing()  # noqa: SLF001 - see above
        for task in (self._reading_task, self._ping_interval_task, self._flusher_task):
            if task is not None:
                task.cancel()

    def _connect_command(self) -> bytes:
        if self.tls_only and not self._server_info.get("tls_required"):
            # The library takes tls:// for a wish, and would send the password in the clear.
            raise Error("the server does not require TLS, and the URL says tls://")
        return super()._connect_command()

    @staticmethod
    def _parse_header_lines(raw: bytes) -> dict[str, str]:
        # Backwards, as the last one wins there: of a header that comes twice the first counts.
        lines = raw.split(b"\r\n")
        return LibraryClient._parse_header_lines(b"\r\n".join(reversed(lines)))  # noqa: SLF001
