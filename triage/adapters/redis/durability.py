"""How a Redis server could lose what it holds, read from its settings."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from triage.adapters.redis.connection import Refused

if TYPE_CHECKING:
    from triage.adapters.redis.connection import Connection

_SETTINGS = ("appendonly", "appendfsync", "maxmemory", "maxmemory-policy")
_UNSEEN = (
    "{server}: its settings could not be looked at (CONFIG GET is refused); unless they are"
    " appendonly yes, appendfsync always and maxmemory-policy noeviction it may lose {what}, and"
    " then {then}"
)
_NO_FILE = (
    "{server}: appendonly is no: whenever it ends it loses {what} since its last snapshot, and then"
    " {then}; set appendonly to yes and appendfsync to always"
)
_EVERY_SECOND = (
    "{server}: appendfsync is everysec: when its machine crashes or loses power (not when only"
    " Redis ends) it loses {what} of the last second or two, and then {then}; set it to always"
)
_NEVER = (
    "{server}: appendfsync is no: when its machine crashes or loses power it loses {what} of about"
    " the last half minute, and then {then}; set it to always"
)
_BY_FSYNC = {"everysec": _EVERY_SECOND, "no": _NEVER}
_EVICTS = (
    "{server}: maxmemory-policy is {policy}: once it holds {limit} bytes it deletes whole keys,"
    " {what} among them, and then {then}; set it to noeviction"
)


@dataclass(frozen=True, slots=True)
class Loss:
    """What would be lost, in the plural, and what follows from that."""

    what: str
    consequence: str


async def weaknesses(server: Connection, loss: Loss) -> list[str]:
    """One sentence each. Raises QueueError."""
    words = {"server": server.label, "what": loss.what, "then": loss.consequence}
    try:
        settings = {name: await _setting(server, name) for name in _SETTINGS}
    except Refused:
        # This server works; it only is not to be looked into.
        server.trouble = ""
        return [_UNSEEN.format(**words)]
    limit, policy = settings["maxmemory"], settings["maxmemory-policy"]
    found = []
    if settings["appendonly"] == "no":
        found.append(_NO_FILE.format(**words))
    elif settings["appendfsync"] in _BY_FSYNC:
        found.append(_BY_FSYNC[settings["appendfsync"]].format(**words))
    # What the queue makes has no expiry, so the volatile policies leave it alone.
    if limit not in ("", "0") and policy.startswith("allkeys"):
        found.append(_EVICTS.format(limit=limit, policy=policy, **words))
    return found


async def _setting(server: Connection, name: str) -> str:
    answer = await server.ask("CONFIG", "GET", name)
    return answer[1].decode(errors="replace") if len(answer) > 1 else ""
