"""A process that accepts and decides alerts and says so, a line at a time, until it is killed.

`python -m tests.integration.store_writer STORE PREFIX COUNT`: each line is `accepted ID` or
`decided ID OUTCOME`, written after the store's call has returned.
"""

from __future__ import annotations

import asyncio
import os
import sys
from itertools import count

from tests.contract.gap_world import gap
from tests.contract.store_world import HandClock, arrival, decision, resolve
from triage.adapters.store import Store
from triage.model.alert import Arrival
from triage.model.decision import Outcome
from triage.ports import CommitStatus, Message

CONSUMERS = 4
PRODUCERS = 8


def say(*words: str) -> None:
    os.write(1, (" ".join(words) + "\n").encode())  # one write, so that no line is cut


async def main(location: str, prefix: str, alerts: int) -> None:
    store = await Store.open(location, clock=HandClock(), lease_s=0.0)
    numbers = iter(range(alerts)) if alerts else count()

    async def accept(what: list[Arrival]) -> None:
        for answer in await store.alerts.accept(what):
            say("accepted", str(answer.alert_id))

    async def produce() -> None:
        for number in numbers:
            name = f"{prefix}-{number}"
            await accept([arrival(name), arrival(f"{name}-second")])
            if number % 5 == 0:
                await accept([resolve(name)])

    async def consume() -> None:
        while True:
            for delivery in await store.queue.receive(limit=2, wait_s=60):
                await store.alerts.begin_attempt(delivery.alert_id)
                key = delivery.alert_id
                for outcome in (Outcome.ACTIONS, Outcome.RESOLVED):
                    status = await store.decisions.commit(
                        decision(key, outcome),
                        {key: b"answer " * 100},
                        [Message(sink="hook", key=key, body=outcome.value.encode())],
                        [gap(key)],
                    )
                    if status is CommitStatus.COMMITTED:
                        say("decided", key, outcome.value)
                    if status is not CommitStatus.RESOLVED_MEANWHILE:
                        break
                await store.queue.settle(acked=[delivery])

    async with asyncio.TaskGroup() as tasks:
        consumers = [tasks.create_task(consume()) for _ in range(CONSUMERS if not alerts else 0)]
        await asyncio.gather(*(produce() for _ in range(PRODUCERS if not alerts else 1)))
        for consumer in consumers:
            consumer.cancel()
    await store.close()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], sys.argv[2], int(sys.argv[3])))
