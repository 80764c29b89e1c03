"""One POST to the endpoint through httpx: bounded in time and size, and told in values."""

from __future__ import annotations

import asyncio
import ssl
from dataclasses import dataclass
from typing import Any

import httpx

from triage.adapters.chat.address import Address
from triage.adapters.chat.setback import Setback
from triage.errors import ConfigError, ModelFailure

CONNECT_S = 5.0
IDLE_S = 4.0  # seconds; uvicorn, which serves most local models, hangs up after 5
ERROR_BYTES = 65_536  # of an error's body, the rest is not read
PIECES_A_TURN = 256

CLOSED = Setback(failure=ModelFailure.CONNECT, problem="is closed", counts=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """`retry_after` and `date` are headers, empty when absent. The body of anything but a success
    may be cut off."""

    status: int
    succeeded: bool
    retry_after: str
    date: str
    body: bytes


class Wire:
    """Keeps up to `max_kept` quiet connections. The bare transport and not a client of httpx:
    no cookies, no redirects, no proxies from the environment, no unpacking. What is sent holds
    the site's affairs and a key, and goes where the configuration says and nowhere else."""

    def __init__(self, address: Address, *, ca_file: str, max_kept: int) -> None:
        self._address = address
        self._ca_file = ca_file
        self._max_kept = max_kept
        self._transport: httpx.AsyncHTTPTransport | None = None
        self._closed = asyncio.Event()
        self._under_way: set[asyncio.Timeout] = set()
        self._quiet = asyncio.Event()

    def open(self) -> None:
        """Connects at the first request. Raises ConfigError for a `ca_file` that cannot be used."""
        if self._transport is None:
            self._transport = httpx.AsyncHTTPTransport(
                verify=self._tls(),
                limits=httpx.Limits(
                    # Who calls counts the requests: a second count could only be wrong.
                    max_connections=None,
                    max_keepalive_connections=self._max_kept,
                    keepalive_expiry=IDLE_S,
                ),
            )

    async def close(self) -> None:
        """Requests under way end as failed. Returns when they have."""
        self._closed.set()
        for limit in self._under_way:
            if not limit.expired():
                limit.reschedule(0.0)  # long past, on the clock of any loop
        while self._under_way:
            self._quiet.clear()
            await self._quiet.wait()
        transport, self._transport = self._transport, None
        if transport is not None:
            await transport.aclose()

    async def post(self, body: bytes, timeout_s: float, max_bytes: int) -> Reply | Setback:
        """Ends within `timeout_s`. Cancelled, the endpoint may have done the work or not."""
        if self._closed.is_set():
            return CLOSED
        try:
            self.open()
        except ConfigError as error:
            return Setback(failure=ModelFailure.CONNECT, problem=f"cannot be asked: {error}")
        progress = _Progress()
        limit = asyncio.timeout(timeout_s)
        self._under_way.add(limit)
        try:
            async with limit:
                return await self._exchange(body, progress, max_bytes)
        except TimeoutError:
            return CLOSED if self._closed.is_set() else progress.out_of_time(timeout_s)
        except httpx.TransportError as error:
            return progress.broken(error)
        finally:
            self._under_way.discard(limit)
            self._quiet.set()

    async def _exchange(self, body: bytes, progress: _Progress, max_bytes: int) -> Reply | Setback:
        assert self._transport is not None
        request = httpx.Request(
            "POST",
            self._address.url,
            headers=self._address.headers,
            content=body,
            extensions={"timeout": {"connect": CONNECT_S}, "trace": progress.note},
        )
        response = await self._transport.handle_async_request(request)
        progress.answered = True
        try:
            return await self._read(response, max_bytes)
        finally:
            # Of a body read to its end, the connection is kept; otherwise it is closed.
            await response.aclose()

    async def _read(self, response: httpx.Response, max_bytes: int) -> Reply | Setback:
        headers = response.headers
        succeeded = response.is_success
        if headers.get("content-encoding", "identity").lower() != "identity":
            if succeeded:
                return Setback(
                    failure=ModelFailure.PROTOCOL,
                    problem="compresses its answers though it was asked not to",
                )
            body: bytes | None = b""
        else:
            body = await self._body(response, max_bytes if succeeded else ERROR_BYTES, succeeded)
        if body is None:
            return Setback(
                failure=ModelFailure.PROTOCOL,
                problem=f"answered with more than {max_bytes} bytes",
            )
        return Reply(
            status=response.status_code,
            succeeded=succeeded,
            retry_after=headers.get("retry-after", ""),
            date=headers.get("date", ""),
            body=body,
        )

    async def _body(self, response: httpx.Response, most: int, succeeded: bool) -> bytes | None:
        """None when it is too large; of an error no more than its beginning."""
        stated = response.headers.get("content-length", "")
        if (
            succeeded
            and stated.isdecimal()
            and (len(stated) > len(str(most)) or int(stated) > most)
        ):
            return None
        body = bytearray()
        pieces = 0
        async for piece in response.aiter_raw():
            body += piece
            pieces += 1
            if len(body) > most:
                return None if succeeded else bytes(body[:most])
            if pieces % PIECES_A_TURN == 0:
                # Of chunks of one byte, 64 KiB are parsed without a pause: 0.1 s in which nobody
                # else would run, and no time limit would strike.
                await asyncio.sleep(0)
        return bytes(body)

    def _tls(self) -> ssl.SSLContext:
        if self._address.url.scheme != "https":
            return ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)  # not used; loading authorities costs
        try:
            return ssl.create_default_context(cafile=self._ca_file or None)
        except (OSError, ssl.SSLError) as error:
            raise ConfigError(f"ca_file {self._ca_file} cannot be used: {error}") from error


class _Progress:
    """How far a request came: what failed before it was sent cost the endpoint nothing."""

    def __init__(self) -> None:
        self._connected_anew = False
        self._sent = False
        self.answered = False

    async def note(self, event: str, _: Any) -> None:
        """The transport's trace."""
        if event == "connection.connect_tcp.started":
            self._connected_anew = True
        elif event == "http11.send_request_headers.started":
            self._sent = True

    def out_of_time(self, timeout_s: float) -> Setback:
        if not self._sent:
            return Setback(
                failure=ModelFailure.CONNECT, problem=f"gave no connection in {timeout_s:.3g} s"
            )
        # Never asked again: the model was paid for working on it, or still works on it.
        return Setback(
            failure=ModelFailure.TIMEOUT, problem=f"gave no whole answer in {timeout_s:.3g} s"
        )

    def broken(self, error: httpx.TransportError) -> Setback:
        said = str(error) or type(error).__name__
        if not self._sent:
            return Setback(
                failure=ModelFailure.CONNECT,
                problem="cannot be reached",
                said=said,
                fix="check llm_url, and ca_file if it is a matter of certificates",
                repeat=True,
            )
        return Setback(
            failure=ModelFailure.PROTOCOL,
            problem="broke off" if self.answered else "gave no HTTP answer",
            said=said,
            # On a connection kept from before, the endpoint had most likely hung up as the
            # request was on its way. On a new one it hangs up because of the request.
            repeat=not (self._connected_anew or self.answered),
        )
