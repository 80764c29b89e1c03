"""Redis: the queue on its streams, and the streams that producers put alerts on."""

from triage.adapters.redis.queue import RedisQueue
from triage.adapters.redis.stream import RedisStream

__all__ = ["RedisQueue", "RedisStream"]
