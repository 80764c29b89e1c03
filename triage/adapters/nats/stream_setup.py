"""The consumer that triage makes on a producers' stream, and how it finds out that it is stuck.

Stream and consumer are stored apart on the server, and after a power cut one may be older than the
other. A consumer that is ahead of its stream passes over what is entered until the stream has
caught up; one that remembers messages which the stream has no more looks for one of them at each
pull, and nats-server 2.9 then hands out nothing. Neither says so: a pull ends as on an empty
stream. Either is made anew where the old one's acks end: messages come twice rather than never.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any

from triage.adapters.nats.jetstream import JetStream, Json, durable_pull
from triage.errors import QueueError

SILENT = 4
"""Pulls in a row that end with nothing, after which the consumer is looked at."""
LONGEST_DELAY_S = 60.0
"""For which a message that was given back may rest."""


class StreamSetup:
    """`section` is the name in `[streams]`, `stream` that on the server, `group` the consumer's."""

    def __init__(
        self, *, section: str, stream: str, group: str, subject: str, lease_s: float
    ) -> None:
        self.section = section
        self.stream = stream
        # What a consumer may not be called.
        self.group = group.replace(".", "_")
        self.era = 0
        """Counts the streams and consumers that there were."""
        self.newest: datetime | None = None
        """When the newest message that was received had been entered."""
        self._subject = subject
        self._lease_s = lease_s
        self._created: tuple[str, str] = ("", "")
        self._silent = 0
        self._looked: tuple[Any, ...] = ()
        self._since = 0.0

    async def prepare(self, server: JetStream) -> None:
        """The consumer is there and as it should be when this returns. Raises QueueError, also when
        there is no stream."""
        info = await server.stream(self.stream)
        if info is None:
            raise QueueError(
                f"{server.label} is not there; its producers make it (nats stream add"
                f" {self.stream}), or [streams.{self.section}] names the wrong one; it is looked"
                " for until it is there"
            )
        wanted = self._consumer()
        consumer = await server.consumer(self.stream, self.group)
        if consumer is None:
            consumer = await server.put_consumer(self.stream, wanted)
        else:
            self._compare(server.label, consumer["config"], wanted)
            if consumer["config"].get("ack_wait") != wanted["ack_wait"]:
                await server.put_consumer(
                    self.stream, {**consumer["config"], "ack_wait": wanted["ack_wait"]}
                )
            if consumer["delivered"]["stream_seq"] > info["state"]["last_seq"]:
                consumer = await self._restart(server, info, consumer)
        self._entered(info, consumer)

    async def look(self, server: JetStream, now: float) -> None:
        """After each pull that gave nothing; `now` is monotonic, in seconds. Raises QueueError."""
        self._silent += 1
        if self._silent < SILENT:
            return
        self._silent = 0
        consumer = await server.consumer(self.stream, self.group)
        if consumer is None:
            return  # as the next pull will find
        waiting, held = consumer["num_pending"], consumer["num_ack_pending"]
        # Whatever anybody received or settled in the meantime changes one of these.
        looked = (consumer["delivered"]["consumer_seq"], consumer["ack_floor"]["stream_seq"], held)
        if not (waiting or held) or looked != self._looked:
            self._looked, self._since = looked, now
        elif waiting or now - self._since > self._lease_s + LONGEST_DELAY_S:
            info = await server.stream(self.stream)
            if info is not None:
                self._entered(info, await self._restart(server, info, consumer))

    def gave(self, newest: datetime) -> None:
        """A pull gave something; `newest` is when the last of it had been entered."""
        self._silent = 0
        self.newest = newest if self.newest is None else max(self.newest, newest)

    def _entered(self, info: Json, consumer: Json) -> None:
        created = (info["created"], consumer["created"])
        if created != self._created:
            self._created = created
            self._looked = ()
            self.era += 1

    async def _restart(self, server: JetStream, info: Json, consumer: Json) -> Json:
        await server.delete_consumer(self.stream, self.group)
        return await server.put_consumer(
            self.stream, {**self._consumer(), **self._rest(info, consumer)}
        )

    def _rest(self, info: Json, consumer: Json) -> dict[str, Any]:
        """Where a new consumer starts: after what is acked without a gap. A stream that ends before
        that has lost its end, and may have been filled up to there with others: they are younger
        than what was received, or, when nothing was, cannot be told from the old ones."""
        floor = consumer["ack_floor"]["stream_seq"]
        if floor <= info["state"]["last_seq"]:
            return {"deliver_policy": "by_start_sequence", "opt_start_seq": floor + 1}
        if self.newest is not None:
            return {"deliver_policy": "by_start_time", "opt_start_time": self.newest.isoformat()}
        return {}

    def _consumer(self) -> dict[str, Any]:
        consumer = durable_pull(self.group, lease_s=self._lease_s)
        consumer["description"] = "triage: alerts of producers"
        return consumer | ({"filter_subject": self._subject} if self._subject else {})

    def _compare(self, label: str, found: Json, wanted: Json) -> None:
        differing = [
            key
            for key in ("filter_subject", "ack_policy", "deliver_subject")
            if (found.get(key) or "") != wanted.get(key, "")
        ]
        if differing:
            what = ", ".join(f"its {key} is {found.get(key)!r}" for key in differing)
            raise QueueError(
                f"{label}: consumer {self.group} is there already and another's: {what}; give"
                f" [streams.{self.section}] another group, or remove it:"
                f" nats consumer rm {self.stream} {self.group}"
            )
