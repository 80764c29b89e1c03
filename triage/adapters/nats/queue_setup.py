"""What the queue makes on a server, and how it finds out that it is not what it was.

One stream with WorkQueue retention: an entry is there until it is acked. Its subject ends with
the alert's id, and it is published on condition that this subject is empty; so an alert that
waits or is held is never entered twice, however late it is published again, and can be entered
again as soon as it was acked. A window of message ids could do neither. One durable pull consumer
a priority.
"""

from __future__ import annotations

from typing import Any

from triage.adapters.nats.jetstream import JetStream, Json, durable_pull
from triage.errors import QueueError
from triage.model.alert import PRIORITY_NAMES

_RETENTION = "workqueue"
_LOOKS = 3

TIMER_S = 1.0
"""What nats-server adds to the time until it looks again for deliveries that were not acked."""


def held_s(lease_s: float) -> float:
    """For how long a delivery is held, so that others have it after `lease_s`, and not a second
    later."""
    return max(lease_s / 2, lease_s - TIMER_S)


class QueueSetup:
    """`name` is the stream's. `forgot` is set when memory was lost."""

    def __init__(self, *, name: str, lease_s: float) -> None:
        self.name = name
        self.forgot = False
        self.newest = 0
        """The highest sequence that a publish of ours was given in this stream."""
        self._lease_s = lease_s
        self._created = ""

    async def prepare(self, server: JetStream) -> bool:
        """Everything is there and as it should be when this returns: whether the stream is still
        the one it was. Raises QueueError."""
        info = await server.stream(self.name)
        if info is None:
            self.forgot = True
            await server.create_stream(self._stream())
            info = await server.stream(self.name)
            if info is None:
                raise QueueError(f"{server.label}: stream {self.name} was deleted as it was made")
        self._compare(server.label, info)
        for priority in PRIORITY_NAMES:
            await self._put_consumer(server, priority)
        if await self._is_broken(server):
            await self._restart_consumers(server)
        is_same: bool = info["created"] == self._created
        if not is_same:
            # Somebody else may have made it again, and not have got as far as to publish.
            self.forgot = self.forgot or bool(self._created)
            self._created, self.newest = info["created"], 0
        elif info["state"]["last_seq"] < self.newest:
            # Restored from a copy, or cut off by a power cut.
            self.forgot = True
            self.newest = 0
        return is_same

    def subject(self, priority: str, alert_id: str) -> str:
        return f"{self.name}.work.{priority}.{alert_id}"

    def _stream(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "description": "what wakes the workers of triage; the record is its store",
            "subjects": [self.subject("*", "*")],
            "retention": _RETENTION,
            "storage": "file",
            "discard": "new",
            "num_replicas": 1,
            "max_consumers": -1,
            "max_msgs": -1,
            "max_bytes": -1,
        }

    def _consumer(self, priority: str) -> dict[str, Any]:
        consumer = durable_pull(priority, lease_s=self._lease_s)
        return consumer | {"filter_subject": self.subject(priority, "*")}

    def _compare(self, label: str, info: Json) -> None:
        wanted, found = self._stream(), info["config"]
        differing = [key for key in ("subjects", "retention") if wanted[key] != found.get(key)]
        if differing:
            what = ", ".join(f"its {key} is {found.get(key)!r}" for key in differing)
            raise QueueError(
                f"{label}: stream {self.name} is there already and not triage's: {what}; give"
                f" [queue] another name, or remove it: nats stream rm {self.name}"
            )

    async def _put_consumer(self, server: JetStream, priority: str) -> None:
        wanted = self._consumer(priority)
        info = await server.consumer(self.name, priority)
        if info is None:
            self.forgot = True
            await server.put_consumer(self.name, wanted)
            return
        found = info["config"]
        fixed = ("filter_subject", "ack_policy", "deliver_policy")
        differing = [key for key in fixed if wanted[key] != found.get(key)]
        if found.get("deliver_subject"):
            differing.append("deliver_subject")
        if differing:
            what = ", ".join(f"its {key} is {found.get(key)!r}" for key in differing)
            raise QueueError(
                f"{server.label}: consumer {priority} of stream {self.name} is not triage's:"
                f" {what}; remove it: nats consumer rm {self.name} {priority}"
            )
        if any(found.get(key) != wanted[key] for key in ("ack_wait", "max_deliver")):
            await server.put_consumer(self.name, {**found, **wanted})

    async def _is_broken(self, server: JetStream) -> bool:
        """Whether consumers have lost sight of entries, or remember some that are gone: either way
        some would never be delivered. They are stored apart from the stream, and a power cut may
        leave one older than the other."""
        last: object = None
        for _ in range(_LOOKS):
            info = await server.stream(self.name)
            if info is None:
                return False
            state = info["state"]
            consumers = await server.consumers(self.name, PRIORITY_NAMES)
            seen = sum(one["num_pending"] + one["num_ack_pending"] for one in consumers)
            ahead = max(one["delivered"]["stream_seq"] for one in consumers)
            if state["messages"] == seen and ahead <= state["last_seq"]:
                return False
            now = (state["messages"], state["last_seq"], seen, ahead)
            if now == last:
                return True
            # Others are at work, and the figures were not of one moment.
            last = now
        return False

    async def _restart_consumers(self, server: JetStream) -> None:
        for priority in PRIORITY_NAMES:
            await self.restart_consumer(server, priority)

    async def restart_consumer(self, server: JetStream, priority: str) -> None:
        """Everything that the stream still has of the priority is handed out anew."""
        self.forgot = True
        await server.delete_consumer(self.name, priority)
        await server.put_consumer(self.name, self._consumer(priority))
