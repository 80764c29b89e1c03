"""Who may call what, how much they may send, and how many at once."""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import ipaddress
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from starlette.requests import ClientDisconnect, Request

from triage.app.http.replies import HttpProblem

Scope = Literal["ingest", "read", "admin"]

LOOPBACK_NAMES = frozenset({"127.0.0.1", "localhost"})
BODY_S = 30.0  # seconds a body may take to come: a request that stalls holds a slot
LONGEST_NUMBER = 18  # digits: int() of thousands of them raises


@dataclass(frozen=True, slots=True, kw_only=True)
class Token:
    """Only the SHA-256 of a bearer token is kept in memory."""

    name: str
    sha256: bytes
    scopes: frozenset[str]


def token(name: str, secret: str, scopes: Sequence[str]) -> Token:
    return Token(
        name=name, sha256=hashlib.sha256(secret.encode()).digest(), scopes=frozenset(scopes)
    )


class Gate:
    """Checks bearer tokens. Without any token configured the daemon listens on loopback only,
    and what a web page makes a browser send is refused by its Host or Origin header."""

    def __init__(self, tokens: Sequence[Token]) -> None:
        self._tokens = tuple(tokens)

    def admit(self, request: Request, scope: Scope) -> str:
        """The caller's token name, "" where no token is configured. Raises HttpProblem."""
        if not self._tokens:
            host = request.headers.get("host", "")
            name = host.rsplit(":", 1)[0] if not host.endswith("]") else host
            if not _is_loopback(name) or "origin" in request.headers:
                raise HttpProblem(
                    403,
                    "no token is configured, so only programs on this machine may call:"
                    " the Host header must be a loopback name and there must be no Origin",
                )
            return ""
        scheme, _, secret = request.headers.get("authorization", "").partition(" ")
        if scheme.lower() != "bearer" or not secret:
            raise HttpProblem(
                401, "send `Authorization: Bearer <token>`", {"WWW-Authenticate": "Bearer"}
            )
        digest = hashlib.sha256(secret.strip().encode()).digest()
        found = None
        for candidate in self._tokens:  # no early end: the time must not tell which token is near
            if hmac.compare_digest(candidate.sha256, digest):
                found = candidate
        if found is None:
            raise HttpProblem(
                401, "this token is not known", {"WWW-Authenticate": 'Bearer error="invalid_token"'}
            )
        if scope not in found.scopes:
            raise HttpProblem(403, f"token {found.name!r} lacks the scope {scope!r}")
        return found.name


def _is_loopback(name: str) -> bool:
    """Whether a Host header's name is this machine whatever a resolver says."""
    if name.lower() in LOOPBACK_NAMES:
        return True
    try:
        return ipaddress.ip_address(name.strip("[]")).is_loopback
    except ValueError:
        return False


class RequestLimit:
    """At most `limit` requests at once; the rest are told to come back."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._in_use = 0

    def __enter__(self) -> None:
        if self._in_use >= self._limit:
            raise HttpProblem(
                503, f"{self._limit} requests are already being answered", {"Retry-After": "1"}
            )
        self._in_use += 1

    def __exit__(self, *_: object) -> None:
        self._in_use -= 1


async def read_body(request: Request, limit: int) -> bytes:
    """The body, read no further than `limit` bytes. Raises HttpProblem 413, 415, 408 or 400."""
    too_large = HttpProblem(413, f"the body is larger than {limit} bytes")
    if request.headers.get("content-encoding", "identity").lower() != "identity":
        raise HttpProblem(415, "send the body without Content-Encoding")
    declared = request.headers.get("content-length", "")
    if declared.isdecimal() and (len(declared) > LONGEST_NUMBER or int(declared) > limit):
        raise too_large
    body = bytearray()
    try:
        async with asyncio.timeout(BODY_S):
            async for chunk in request.stream():
                body += chunk
                if len(body) > limit:
                    raise too_large
    except TimeoutError as error:
        raise HttpProblem(
            408, f"the body did not come within {BODY_S:g} s", {"Connection": "close"}
        ) from error
    except ClientDisconnect as error:
        raise HttpProblem(400, "the connection ended before the body did") from error
    return bytes(body)


def plain_headers(request: Request) -> Mapping[str, str]:
    """Header names in lower case; of a repeated header the last value."""
    return dict(request.headers.items())
