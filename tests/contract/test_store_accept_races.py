"""Messages that several replicas take at the same moment: one after the other, whoever is first."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from tests.contract.conftest import StoreMaker
from tests.contract.store_world import HandClock, arrival, resolve
from triage.adapters.store import Store
from triage.model.alert import Accepted, AcceptStatus, Arrival
from triage.ports import AlertLog

NEW, KNOWN, RESOLVED = AcceptStatus.NEW, AcceptStatus.KNOWN, AcceptStatus.RESOLVED
DUPLICATE = AcceptStatus.DUPLICATE


@pytest.fixture
def clock() -> HandClock:
    return HandClock()


@pytest.fixture
async def store(make_store: StoreMaker, clock: HandClock) -> Store:
    return await make_store(clock=clock)


async def one(log: AlertLog, what: Arrival) -> Accepted:
    [answer] = await log.accept([what])
    return answer


async def replicas_of(maker: StoreMaker, store: Store, clock: HandClock) -> list[Store]:
    """SQLite has one, which then competes with itself."""
    again = maker.backend == "postgres"
    return [store, await maker(clock=clock) if again else store]


@pytest.mark.parametrize(
    ("what", "else_"),
    [
        (arrival(starts_at_ns=1), KNOWN),
        (arrival(starts_at_ns=None), KNOWN),
        (arrival(starts_at_ns=None, delivery_key="m"), DUPLICATE),
        (resolve(starts_at_ns=1), RESOLVED),
        (resolve(starts_at_ns=None), RESOLVED),
    ],
)
async def test_replicas_that_take_one_message_at_once_make_one_alert(
    make_store: StoreMaker, store: Store, clock: HandClock, what: Arrival, else_: AcceptStatus
) -> None:
    replicas = await replicas_of(make_store, store, clock)
    for n in range(5):
        name = f"f{n}"
        copies = [replace(what, fingerprint=name), replace(what, fingerprint=name)]
        if what.delivery_key:
            copies = [replace(copy, delivery_key=name) for copy in copies]
        answers = await asyncio.gather(
            *(replicas[n % 2].alerts.accept(copies[: 1 + n // 3]) for n in range(6))
        )
        statuses = [answer.status for several in answers for answer in several]
        assert sorted(statuses) == sorted([NEW] + [else_] * 8)
    ledger = await store.ledger.ledger(full=True)
    assert (ledger.accepted, ledger.balances) == (5, True)


async def test_requests_of_the_same_alerts_in_another_order_do_not_block_each_other(
    make_store: StoreMaker, clock: HandClock
) -> None:
    replicas = [await make_store(clock=clock)]
    if make_store.backend == "postgres":
        replicas.append(await make_store(clock=clock))
    names = [f"f{n}" for n in range(30)]
    asked = [
        replicas[n % len(replicas)].alerts.accept(
            [arrival(name) for name in (names if n % 2 else reversed(names))]
        )
        for n in range(8)
    ]
    answers = [answer for several in await asyncio.gather(*asked) for answer in several]
    assert sum(answer.status is NEW for answer in answers) == len(names)
    assert (await replicas[0].ledger.ledger(full=True)).accepted == len(names)


async def test_a_firing_and_its_resolve_at_once_are_one_alert(
    make_store: StoreMaker, store: Store, clock: HandClock
) -> None:
    first, second = await replicas_of(make_store, store, clock)
    for n in range(5):
        fired, ended = await asyncio.gather(
            one(first.alerts, arrival(f"f{n}")), one(second.alerts, resolve(f"f{n}"))
        )
        assert fired.alert_id == ended.alert_id
        assert (fired.status, ended.status) in ((NEW, RESOLVED), (KNOWN, NEW))
        assert fired.alert_id is not None
        stored = await store.alerts.stored(fired.alert_id)
        assert stored is not None
        assert stored.alert.resolved_at is not None
        assert not stored.alert.unmatched_resolve
