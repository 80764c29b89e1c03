"""What every replica says of itself, asked a few times a second, past the proxies."""

from __future__ import annotations

import asyncio
import time
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass

import orjson

from bench.chaos.client import HttpClient, NoAnswer

EVERY_S = 0.2
ANSWER_S = 2.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Said:
    """`ready` is what a replica answered, None when it did not answer; `why` names what is not
    well. `at` is when it was asked, seconds of `time.time`."""

    at: float
    replica: int
    ready: bool | None
    why: str = ""


class ReadinessLog:
    """`said` is all, in order of the answers."""

    def __init__(self, ports: Sequence[int]) -> None:
        self.said: list[Said] = []
        self._latest: dict[int, Said] = {}
        self._clients = [HttpClient(port) for port in ports]

    def answering(self) -> bool:
        """Whether any replica answered when it was last asked, well or not."""
        return any(one.ready is not None for one in self._latest.values())

    async def watch(self) -> None:
        """Until cancelled."""
        try:
            async with asyncio.TaskGroup() as group:
                for replica in range(len(self._clients)):
                    group.create_task(self._watch(replica))
        finally:
            for client in self._clients:
                client.close()

    async def now(self) -> list[Said]:
        return await asyncio.gather(*(self._ask(n) for n in range(len(self._clients))))

    async def _watch(self, replica: int) -> None:
        while True:
            self._latest[replica] = await self._ask(replica)
            self.said.append(self._latest[replica])
            await asyncio.sleep(EVERY_S)

    async def _ask(self, replica: int) -> Said:
        at = time.time()
        try:
            answer = await self._clients[replica].ask("GET", "/-/ready", within_s=ANSWER_S)
        except NoAnswer as error:
            return Said(at=at, replica=replica, ready=None, why=str(error))
        document = orjson.loads(answer.body)
        wrong = [
            f"{name}: {value}"
            for name, value in document.items()
            if isinstance(value, str) and value != "ok" and name != "fallback"
        ]
        return Said(at=at, replica=replica, ready=answer.status == 200, why="; ".join(wrong))


def none_ready(said: Sequence[Said], replicas: int) -> list[tuple[float, float]]:
    """When no replica was ready: (from, until), ascending. A replica counts as unready from the
    first answer that says so (or that does not come) to the next one that is good."""
    spans: list[tuple[float, float]] = []
    unready = set(range(replicas))
    began = said[0].at if said else 0.0
    for one in sorted(said, key=lambda each: each.at):
        was_dark = len(unready) == replicas
        if one.ready:
            unready.discard(one.replica)
        else:
            unready.add(one.replica)
        is_dark = len(unready) == replicas
        if is_dark and not was_dark:
            began = one.at
        elif was_dark and not is_dark:
            spans.append((began, one.at))
    if said and len(unready) == replicas:
        spans.append((began, max(one.at for one in said)))
    return spans


def darkness(
    said: Sequence[Said], replicas: int, outages: Sequence[tuple[float, float]]
) -> list[tuple[float, float]]:
    """When nobody could work: no replica was ready, or one of `outages`, each up to the first
    replica that was ready when it was asked after it. Ascending, and apart."""
    ready = sorted(one.at for one in said if one.ready)
    spans = none_ready(said, replicas)
    for since, until in outages:
        place = bisect_left(ready, until)
        spans.append((since, ready[place] if place < len(ready) else until))
    apart: list[tuple[float, float]] = []
    for since, until in sorted(spans):
        if apart and since <= apart[-1][1]:
            apart[-1] = (apart[-1][0], max(apart[-1][1], until))
        else:
            apart.append((since, until))
    return apart
