"""How what a JetStream stream holds could be lost in a crash, as its configuration tells."""

from __future__ import annotations

from collections.abc import Iterator

from triage.adapters.nats.jetstream import Json

_SYNC_CONFIGURABLE = (2, 10)
_LIMITS = (("max_age", "a time"), ("max_msgs", "a number"), ("max_bytes", "a size"))


def weaknesses(
    info: Json, *, version: tuple[int, int], version_text: str, loss: str
) -> Iterator[str]:
    """One sentence each. `info` is the stream's; `loss` is what a loss means, for the reader."""
    config = info["config"]
    name = config["name"]
    if config.get("storage") == "memory":
        yield f"stream {name} is kept in memory: {loss} whenever the server ends"
    elif version < _SYNC_CONFIGURABLE:
        yield (
            f"nats-server {version_text} syncs files only once in a minute or two, and before 2.10"
            f" cannot be told otherwise: {loss} in a power cut (killing the server alone loses"
            " nothing)"
        )
    else:
        yield (
            "whether the server syncs every write cannot be seen from here: without `sync_interval:"
            f" always` in its jetstream block, {loss} in a power cut"
        )
    if info.get("cluster", {}).get("name") and config.get("num_replicas", 1) == 1:
        yield (
            f"stream {name} has one replica in a cluster: {loss} with that server's disk"
            f" (nats stream edit {name} --replicas 3)"
        )
    for key, what in _LIMITS:
        limit = config.get(key, -1)
        if limit > 0 and config.get("discard") != "new":
            yield f"stream {name} has {what} limit ({key}): {loss} when the oldest is dropped"
        elif limit > 0 and key == "max_age":
            yield f"stream {name} has {what} limit ({key}): {loss} when they are older"
