"""What is sent to a NATS server, and what is waited for."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple, Protocol

from triage.adapters.nats.delivered import Delivered

if TYPE_CHECKING:
    from nats.aio.msg import Msg

ACK = b"+ACK"
NAK = b"-NAK"
IN_PROGRESS = b"+WPI"
NO_RESPONDERS = "503"
UNANSWERED = "unanswered"


class Request(NamedTuple):
    subject: str
    payload: bytes = b""
    headers: Mapping[str, str] | None = None


class Reply(NamedTuple):
    """`status` is empty for an answer that has a payload only."""

    status: str
    payload: bytes


class Route(Protocol):
    """Takes what arrives for one operation; `done` ends the wait for it."""

    done: asyncio.Future[None]

    def take(self, place: str, message: Msg, /) -> None: ...


class Asked:
    def __init__(self, count: int) -> None:
        self.answers: dict[str, Reply] = {}
        self.done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._count = count

    def take(self, place: str, message: Msg, /) -> None:
        self.answers[place] = Reply(_status(message)[0], message.data)
        if len(self.answers) >= self._count:
            finish(self.done)


class Pull:
    """The messages of one pull request, and what ended it: an empty status for all that were
    asked for, UNANSWERED for the end of our patience."""

    def __init__(self, batch: int) -> None:
        self.messages: list[Delivered] = []
        self.status = ""
        self.description = ""
        self.done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._batch = batch

    def take(self, _place: str, message: Msg, /) -> None:
        self.status, self.description = _status(message)
        finish(self.done)

    def give_up(self) -> None:
        if not self.done.done():
            self.status = UNANSWERED
            finish(self.done)

    def add(self, message: Delivered) -> bool:
        """False when it has all it asked for."""
        if len(self.messages) >= self._batch:
            return False
        self.messages.append(message)
        if len(self.messages) == self._batch:
            finish(self.done)
        return True


def finish(done: asyncio.Future[None]) -> None:
    if not done.done():
        done.set_result(None)


def _status(message: Msg) -> tuple[str, str]:
    headers = message.headers or {}
    return headers.get("Status", ""), headers.get("Description", "")


def is_gone(reply: Reply | None) -> bool:
    """Whether there was nobody to answer: the stream or consumer is not there."""
    return reply is None or reply.status == NO_RESPONDERS
