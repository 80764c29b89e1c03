"""NATS JetStream: the queue, and the streams that producers put alerts on."""

from triage.adapters.nats.queue import NatsQueue
from triage.adapters.nats.stream import NatsStream

__all__ = ["NatsQueue", "NatsStream"]
