"""The JSON API of JetStream, as far as every server from 2.9 on speaks it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import orjson

from triage.adapters.nats.exchange import NO_RESPONDERS, UNANSWERED, Pull, Reply, Request
from triage.adapters.nats.wire import Wire
from triage.errors import QueueError

STREAM_MISSING = 10059
CONSUMER_MISSING = 10014
WRONG_LAST_SEQUENCE = 10071

_NOTHING = frozenset({"", "404", "408"})
"""What a pull ends with when there is no more, and at its time."""

Json = Mapping[str, Any]


def durable_pull(name: str, *, lease_s: float) -> dict[str, Any]:
    """A durable consumer that is pulled from, beginning with the oldest entry."""
    return {
        "durable_name": name,
        "deliver_policy": "all",
        "ack_policy": "explicit",
        "ack_wait": round(lease_s * 1e9),
        # Without a limit, since attempts are counted in the store: what JetStream gives up is lost
        # without a word, or stays in the stream with its subject taken.
        "max_deliver": -1,
        "max_ack_pending": -1,
        "replay_policy": "instant",
    }


class Refused(QueueError):
    """The server's own refusal; `code` is its number for it."""

    def __init__(self, code: int, problem: str) -> None:
        self.code = code
        super().__init__(problem)


class Gone(QueueError):
    """The stream or consumer that was used is not there any more."""


@dataclass(frozen=True, slots=True)
class JetStream:
    """`label` is how messages name the server. Everything raises QueueError."""

    wire: Wire
    label: str

    async def stream(self, name: str) -> Json | None:
        """Its `config`, `state` and `created`; None when there is none."""
        return await self._find(f"STREAM.INFO.{name}", STREAM_MISSING)

    async def create_stream(self, config: Json) -> Json:
        return await self._call(f"STREAM.CREATE.{config['name']}", config)

    async def consumer(self, stream: str, name: str) -> Json | None:
        return await self._find(f"CONSUMER.INFO.{stream}.{name}", CONSUMER_MISSING)

    async def consumers(self, stream: str, names: Sequence[str]) -> list[Json]:
        """Raises Gone when one is missing."""
        replies = await self.wire.ask(
            [Request(f"$JS.API.CONSUMER.INFO.{stream}.{name}") for name in names]
        )
        try:
            infos = [self.answer(reply) for reply in replies]
        except Refused as refused:
            if refused.code in {CONSUMER_MISSING, STREAM_MISSING}:
                raise Gone(str(refused)) from None
            raise
        if not all(_is_info(info) for info in infos):
            raise Gone(f"{self.label}: a consumer of stream {stream} was just deleted")
        return infos

    async def put_consumer(self, stream: str, config: Json) -> Json:
        """Make it, or give it another configuration."""
        return await self._call(
            f"CONSUMER.DURABLE.CREATE.{stream}.{config['durable_name']}",
            {"stream_name": stream, "config": config},
        )

    async def delete_consumer(self, stream: str, name: str) -> None:
        """Nothing happens when it is not there."""
        await self._find(f"CONSUMER.DELETE.{stream}.{name}", CONSUMER_MISSING)

    async def pull(
        self, stream: str, consumer: str, *, batch: int, wait_s: float = 0, max_bytes: int = 0
    ) -> Pull:
        """As of `Wire`, but raises Gone, and QueueError for what else the server ended it with
        before it had given anything. UNANSWERED, the consumer is there and has said nothing."""
        complaints = self.wire.complaints
        pull = await self.wire.pull(
            stream, consumer, batch=batch, wait_s=wait_s, max_bytes=max_bytes
        )
        if pull.messages or pull.status in _NOTHING:
            return pull
        said = f"{self.label}: consumer {consumer} of stream {stream}"
        if pull.status == UNANSWERED:
            if await self.consumer(stream, consumer) is None:
                raise Gone(f"{said} is gone")
            self.wire.raise_complaint(since=complaints)
            return pull
        if pull.status == NO_RESPONDERS or "deleted" in pull.description.lower():
            raise Gone(f"{said} is gone")
        raise QueueError(f"{said}: {pull.description or pull.status}")

    def answer(self, reply: Reply) -> Json:
        """Raises Refused for an error."""
        if reply.status == NO_RESPONDERS:
            raise QueueError(
                f"{self.label}: JetStream is not enabled for us there: start nats-server with -js"
                " or a jetstream block, and enable it for the account"
            )
        try:
            document = orjson.loads(reply.payload)
        except orjson.JSONDecodeError:
            document = None
        if not isinstance(document, dict):
            raise QueueError(f"{self.label}: JetStream gave an answer that is no JSON object")
        error = document.get("error")
        if error:
            code = int(error.get("err_code", 0))
            raise Refused(code, f"{self.label}: {error.get('description', 'refused')}")
        return document

    async def _find(self, what: str, missing: int) -> Json | None:
        try:
            found = await self._call(what)
        except Refused as refused:
            if refused.code in {missing, STREAM_MISSING}:
                return None
            raise
        return found if _is_info(found) else None

    async def _call(self, what: str, body: Json | None = None) -> Json:
        payload = b"" if body is None else orjson.dumps(body)
        [reply] = await self.wire.ask([Request(f"$JS.API.{what}", payload)])
        return self.answer(reply)


def _is_info(document: Json) -> bool:
    """Of what is deleted at that very moment the server tells nothing, and no error."""
    return "config" in document
