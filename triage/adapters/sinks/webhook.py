"""Decisions posted to an HTTP receiver, signed as Standard Webhooks has it.

https://github.com/standard-webhooks/standard-webhooks/blob/main/spec/standard-webhooks.md: the
header `webhook-signature` holds, for each secret, `v1,` and the base64 HMAC-SHA-256 of
`<webhook-id>.<webhook-timestamp>.<body>`. The id is the message's key, the same at every attempt.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import hashlib
import hmac
import re
from collections.abc import Sequence
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from urllib.parse import quote

import httpx

from triage.errors import (
    ConfigError,
    DeliveryRejected,
    Overloaded,
    SourceFailed,
    SourceFailure,
)
from triage.ports import Clock

SECRET_PREFIX = "whsec_"  # noqa: S105 - what a secret begins with, not one
LEAST_SECRET_BYTES = 24  # the specification's minimum
MAX_RESPONSE_BYTES = 64 * 1024
MAX_RETRY_AFTER_S = 3600
SHOWN_RESPONSE_BYTES = 200
TRY_AGAIN = frozenset({408, 425, 429})


class WebhookSink:
    """Posts each message once a `send`; 2xx means that the receiver has it.

    `url` is http or https without user information. `secrets` are base64 with an optional
    `whsec_` in front; every message is signed with each of them, so that a receiver can change
    over. `timeout_s` bounds the whole exchange. `connections` is how many `send`s may run at once
    without waiting for each other. Raises ConfigError for a URL or secret that cannot be used.

    `send` raises DeliveryRejected for a 4xx, Overloaded when the receiver says when to come back
    (at most an hour is believed), and SourceFailed for anything else, redirects included: a signed
    body goes where the configuration says and nowhere else. Cancelled, the receiver may have the
    message or not.
    """

    def __init__(
        self,
        *,
        name: str,
        url: str,
        secrets: Sequence[str],
        clock: Clock,
        timeout_s: float = 5.0,
        connections: int = 4,
    ) -> None:
        self._name = name
        self._url = _checked_url(name, url)
        self._keys = tuple(_signing_key(name, secret) for secret in secrets)
        if not self._keys:
            raise ConfigError(f"sink {name}: a webhook needs at least one secret")
        self._clock = clock
        self._timeout_s = timeout_s
        self._connections = connections
        self._client: httpx.AsyncClient | None = None

    def __repr__(self) -> str:
        return f"WebhookSink(name={self._name!r}, host={self._url.host!r}, secrets=**********)"

    @property
    def name(self) -> str:
        return self._name

    async def send(self, key: str, body: bytes) -> None:
        headers = self._headers(key, body)
        try:
            async with asyncio.timeout(self._timeout_s):
                code, retry_after, said = await self._post(headers, body)
        except (TimeoutError, httpx.TimeoutException) as error:
            raise SourceFailed(
                SourceFailure.TIMEOUT, f"no answer from {self._place} in {self._timeout_s:g} s"
            ) from error
        except httpx.ConnectError as error:
            raise SourceFailed(SourceFailure.CONNECT, f"{self._place}: {error}") from error
        except httpx.TransportError as error:
            raise SourceFailed(SourceFailure.PROTOCOL, f"{self._place}: {error!r}") from error
        self._judge(code, retry_after, said)

    async def close(self) -> None:
        client, self._client = self._client, None
        if client is not None:
            await client.aclose()

    def _headers(self, key: str, body: bytes) -> dict[str, str]:
        # A key may hold an asset's name; what no header may hold is percent-encoded in it.
        message_id = quote(key, safe="!#$&'()*+,-./:;=?@[]_~|")
        timestamp = str(int(self._clock.now().timestamp()))
        return {
            "content-type": "application/json",
            "user-agent": "triage",
            # The body of the answer is for an error message only: no bombs to unpack.
            "accept-encoding": "identity",
            "webhook-id": message_id,
            "webhook-timestamp": timestamp,
            "webhook-signature": sign(self._keys, message_id, timestamp, body),
            "idempotency-key": message_id,
        }

    async def _post(self, headers: dict[str, str], body: bytes) -> tuple[int, str, bytes]:
        """Status, Retry-After (or what Location says for a redirect), the body's beginning."""
        if self._client is None:
            self._client = httpx.AsyncClient(
                follow_redirects=False,
                timeout=self._timeout_s,
                limits=httpx.Limits(
                    max_connections=self._connections,
                    max_keepalive_connections=self._connections,
                ),
            )
        request = self._client.build_request("POST", self._url, headers=headers, content=body)
        response = await self._client.send(request, stream=True)
        said = b""
        read = 0
        try:
            # Read to the end where it is near, so that the connection can be used again.
            async for chunk in response.aiter_raw():
                read += len(chunk)
                said = (said + chunk)[:SHOWN_RESPONSE_BYTES]
                if read > MAX_RESPONSE_BYTES:
                    break
        finally:
            await response.aclose()
        return response.status_code, response.headers.get("retry-after", ""), said

    def _judge(self, code: int, retry_after: str, said: bytes) -> None:
        if 200 <= code < 300:  # noqa: PLR2004 - HTTP's own classes
            return
        problem = f"{self._place} answered {code}"
        if said:
            problem += f": {said.decode('utf-8', 'replace')!r}"
        if code in TRY_AGAIN or code >= 500:  # noqa: PLR2004 - as above
            seconds = retry_after_seconds(retry_after, self._clock.now())
            if seconds is not None:
                raise Overloaded(problem, seconds)
            raise SourceFailed(SourceFailure.SERVER_ERROR, problem)
        if code < 400:  # noqa: PLR2004 - as above
            raise SourceFailed(
                SourceFailure.PROTOCOL,
                f"{problem}; redirects are not followed: set the sink's url to the final address",
            )
        raise DeliveryRejected(problem)

    @property
    def _place(self) -> str:
        """Without path and query, which may hold a secret."""
        return f"{self._url.scheme}://{self._url.netloc.decode('ascii')}"


def sign(keys: Sequence[bytes], message_id: str, timestamp: str, body: bytes) -> str:
    """The value of `webhook-signature`: one signature a key, parted by spaces."""
    signed = b"%b.%b.%b" % (message_id.encode(), timestamp.encode(), body)
    return " ".join(
        "v1," + base64.b64encode(hmac.digest(key, signed, hashlib.sha256)).decode() for key in keys
    )


def retry_after_seconds(value: str, now: datetime) -> int | None:
    """A Retry-After header as seconds from `now` (aware UTC), within [0, MAX_RETRY_AFTER_S];
    None when it says nothing that can be read."""
    value = value.strip()
    if re.fullmatch(r"[0-9]+", value):
        # By length first: int() of thousands of digits raises.
        return MAX_RETRY_AFTER_S if len(value) > 9 else min(int(value), MAX_RETRY_AFTER_S)  # noqa: PLR2004 - digits
    try:
        moment = parsedate_to_datetime(value)
    except ValueError:
        return None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return min(max(0, int((moment - now).total_seconds())), MAX_RETRY_AFTER_S)


def _checked_url(name: str, url: str) -> httpx.URL:
    try:
        parsed = httpx.URL(url)
    except httpx.InvalidURL as error:
        raise ConfigError(f"sink {name}: the url cannot be read: {error}") from error
    if parsed.scheme not in {"http", "https"} or not parsed.host:
        raise ConfigError(f"sink {name}: the url must be http:// or https:// and name a host")
    if parsed.userinfo:
        raise ConfigError(f"sink {name}: the url must hold no user or password")
    return parsed


def _signing_key(name: str, secret: str) -> bytes:
    try:
        key = base64.b64decode(secret.strip().removeprefix(SECRET_PREFIX), validate=True)
    except (binascii.Error, ValueError):
        key = b""
    if len(key) < LEAST_SECRET_BYTES:
        # Without `from`: the cause would show the secret.
        raise ConfigError(
            f"sink {name}: a webhook secret is base64 of at least {LEAST_SECRET_BYTES} bytes, with "
            "or without whsec_ in front; make one with: openssl rand -base64 32"
        )
    return key
