"""The quiet after: until all is answered, decided and told, or as far as it comes."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import orjson

from bench.chaos.client import HttpClient, NoAnswer
from bench.chaos.readiness import ReadinessLog
from bench.chaos.sender import Sender

POLL_S = 0.25
WATCHED = ("accepted", "decided", "dead_lettered", "outbox_pending", "outbox_given_up")


@dataclass(slots=True, kw_only=True)
class Settled:
    ledger: Mapping[str, Any]
    unsent: int
    limping: list[str]


async def until_ready(readiness: ReadinessLog, within_s: float) -> list[str]:
    """Who is not ready after so long, and why; empty as soon as all are."""
    ends = time.monotonic() + within_s
    while True:
        unready = [
            f"replica-{one.replica} is not ready: {one.why}"
            for one in await readiness.now()
            if not one.ready
        ]
        if not unready or time.monotonic() > ends:
            return unready
        await asyncio.sleep(POLL_S)


async def settle(
    sender: Sender, ports: Sequence[int], readiness: ReadinessLog, *, within_s: float
) -> Settled:
    """All messages answered, nothing pending, all told; or as far as it comes: until nothing has
    changed for `within_s`. How fast it goes is the machine's affair."""
    unsent = await sender.finish(within_s)
    clients = [HttpClient(port) for port in ports]
    limping: list[str] = []
    try:
        ledger, changed = await _ledger(clients, ""), time.monotonic()
        while _is_open(ledger):
            await asyncio.sleep(POLL_S)
            before, ledger = ledger, await _ledger(clients, "")
            if any(ledger[name] != before[name] for name in WATCHED):
                changed = time.monotonic()
            elif time.monotonic() - changed > within_s:
                limping.append(f"work is left, and nothing changed for {within_s:g} s: {ledger}")
                break
        limping += await until_ready(readiness, within_s)
        ends = time.monotonic() + within_s
        ledger = await _ledger(clients, "?full=1")
        while ledger is _NOBODY and time.monotonic() < ends:
            await asyncio.sleep(POLL_S)
            ledger = await _ledger(clients, "?full=1")
    finally:
        for client in clients:
            client.close()
    return Settled(ledger=ledger, unsent=unsent, limping=limping)


def _is_open(ledger: Mapping[str, Any]) -> bool:
    return not ledger["balances"] or any(ledger[name] for name in ("pending", "outbox_pending"))


_NOBODY: Mapping[str, Any] = {
    **dict.fromkeys(("accepted", "decided", "pending", "dead_lettered"), -1),
    **dict.fromkeys(("outbox_pending", "outbox_given_up"), -1),
    "balances": False,
    "unaccounted": [],
}
"""The ledger when no replica tells it."""


async def _ledger(clients: Sequence[HttpClient], query: str) -> Mapping[str, Any]:
    for client in clients:
        with suppress(NoAnswer):
            answer = await client.ask("GET", f"/api/v1/ledger{query}", within_s=30.0)
            if answer.status == 200:
                document: Mapping[str, Any] = orjson.loads(answer.body)
                return document
    return _NOBODY
