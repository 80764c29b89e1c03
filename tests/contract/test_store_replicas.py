"""Several replicas on one PostgreSQL database: each thing is done by one of them."""

from __future__ import annotations

import asyncio

import pytest

from tests.contract.conftest import Databases, StoreMaker
from tests.contract.gap_world import gap
from tests.contract.replica_world import WITHIN_S, accepted
from tests.contract.store_world import START, HandClock, arrival, decision, resolve
from triage.adapters.store import Store, pg_session
from triage.adapters.store.schema import COUNTER_NAMES
from triage.model.alert import AcceptStatus, AlertId, Severity
from triage.ports import CommitStatus, Message

pytestmark = pytest.mark.parametrize("make_store", ["postgres"], indirect=True)


@pytest.fixture
def clock() -> HandClock:
    return HandClock()


@pytest.fixture
async def replicas(make_store: StoreMaker, clock: HandClock) -> tuple[Store, Store]:
    return await make_store(clock=clock), await make_store(clock=clock)


async def test_two_replicas_make_one_decision(replicas: tuple[Store, Store]) -> None:
    ids = [await accepted(replicas[n % 2], f"f{n}") for n in range(30)]

    async def commit(store: Store, alert_id: AlertId) -> CommitStatus:
        messages = [Message(sink="hook", key=alert_id, body=b"1")]
        evidence = {"shared": b"one", f"own-{alert_id}": b"two"}
        gaps = [gap(alert_id, node) for node in ("b", "a")]
        return await store.decisions.commit(decision(alert_id), evidence, messages, gaps)

    # In both orders: what one batch locks first, another one locks last.
    statuses = await asyncio.gather(
        *(commit(replicas[0], alert_id) for alert_id in ids),
        *(commit(replicas[1], alert_id) for alert_id in reversed(ids)),
    )

    first, second = statuses[:30], list(reversed(statuses[30:]))
    for pair in zip(first, second, strict=True):
        assert sorted(pair) == [CommitStatus.ALREADY_DECIDED, CommitStatus.COMMITTED]
    ledger = await replicas[0].ledger.ledger(full=True)
    assert (ledger.decided, ledger.pending, ledger.outbox_pending) == (30, 0, 30)
    assert ledger.balances, ledger
    assert ledger == await replicas[1].ledger.ledger()
    kind = await replicas[0].gaps.gap(gap(AlertId("any"), "a").gap_id)
    assert kind is not None
    assert kind.count == 30


async def test_the_same_deliveries_at_two_replicas_are_one(replicas: tuple[Store, Store]) -> None:
    async def accept(store: Store, numbers: list[int]) -> list[AcceptStatus]:
        statuses = []
        for n in numbers:
            [answer] = await store.alerts.accept(
                [arrival(f"f{n}", delivery_key=f"k{n}", starts_at_ns=None if n % 2 else 1)]
            )
            statuses.append(answer.status)
        return statuses

    numbers = list(range(24))
    found = await asyncio.gather(
        *(accept(store, numbers[n::3]) for store in replicas for n in range(3))
    )
    statuses = [status for each in found for status in each]

    assert statuses.count(AcceptStatus.NEW) == 24
    assert statuses.count(AcceptStatus.DUPLICATE) == 24
    ledger = await replicas[1].ledger.ledger(full=True)
    assert (ledger.accepted, ledger.balances) == (24, True)


async def test_the_same_request_at_two_replicas_in_two_orders(
    replicas: tuple[Store, Store],
) -> None:
    """As two Alertmanagers send it: no key, a group of alerts each."""
    names = [f"f{n}" for n in range(40)]
    forth = [arrival(name, starts_at_ns=None) for name in names]
    back = [arrival(name, starts_at_ns=None) for name in reversed(names)]
    answers = await asyncio.gather(
        *(replicas[n % 2].alerts.accept(forth if n % 4 < 2 else back) for n in range(8))
    )
    statuses = [answer.status for each in answers for answer in each]
    assert statuses.count(AcceptStatus.NEW) == 40
    assert statuses.count(AcceptStatus.KNOWN) == 7 * 40
    assert (await replicas[0].ledger.ledger(full=True)).accepted == 40


async def test_fire_and_resolve_at_two_replicas_are_of_one_alert(
    replicas: tuple[Store, Store],
) -> None:
    for n in range(12):
        fire, end = (what(f"f{n}") for what in (arrival, resolve))
        one, two = replicas if n % 2 else reversed(replicas)
        answers = await asyncio.gather(one.alerts.accept([fire]), two.alerts.accept([end]))
        assert len({answer.alert_id for [answer] in answers}) == 1
    ledger = await replicas[0].ledger.ledger(full=True)
    assert (ledger.accepted, ledger.balances) == (12, True)


async def test_a_message_to_a_sink_goes_to_one_replica(
    replicas: tuple[Store, Store], clock: HandClock
) -> None:
    alert_id = await accepted(replicas[0])
    messages = [Message(sink="hook", key=f"k{n}", body=b"%d" % n) for n in range(20)]
    await replicas[0].decisions.commit(decision(alert_id), {}, messages)

    claims = await asyncio.gather(
        *(replicas[n % 2].outbox.due("hook", now=START, limit=4) for n in range(8))
    )
    rows = [row for claim in claims for row in claim]
    assert sorted(row.key for row in rows) == sorted(message.key for message in messages)
    await replicas[1].outbox.delivered([row.row for row in rows[:19]])
    assert await replicas[0].outbox.due("hook", now=START, limit=99) == []

    # The one that nobody spoke of: its sender may be gone.
    clock.advance(60)
    [again] = await replicas[0].outbox.due("hook", now=clock.now(), limit=99)
    assert again.key == rows[19].key
    assert (await replicas[0].ledger.ledger(full=True)).outbox_pending == 1


async def test_two_replicas_never_hold_the_same(
    replicas: tuple[Store, Store], clock: HandClock
) -> None:
    ids = [await accepted(replicas[0], f"f{n}") for n in range(40)]
    shares = await asyncio.gather(
        *(replicas[n % 2].queue.receive(limit=3, wait_s=0) for n in range(16))
    )
    assert sorted(d.alert_id for share in shares for d in share) == sorted(ids)
    # A new replica ends no lease of the others.
    assert await replicas[0].queue.receive(limit=3, wait_s=0) == []
    clock.advance(30)
    assert len(await replicas[1].queue.receive(limit=99, wait_s=0)) == 40


async def test_a_replica_sees_what_another_one_publishes(replicas: tuple[Store, Store]) -> None:
    waiting = asyncio.create_task(replicas[1].queue.receive(limit=1, wait_s=60))
    alert_id = await accepted(replicas[0])
    async with asyncio.timeout(WITHIN_S):
        [delivery] = await waiting
    assert delivery.alert_id == alert_id


async def test_a_new_replica_frees_no_claim(make_store: StoreMaker, clock: HandClock) -> None:
    first = await make_store(clock=clock)
    await accepted(first)
    [held] = await first.queue.receive(limit=1, wait_s=0)
    second = await make_store(clock=clock)
    assert await second.queue.receive(limit=1, wait_s=0) == []
    assert await first.queue.extend([held]) == [held]


async def test_the_least_severe_come_first_at_times(
    make_store: StoreMaker, clock: HandClock
) -> None:
    store = await make_store(clock=clock)
    for n in range(16):
        await store.alerts.accept([arrival(f"c{n}", severity=Severity.CRITICAL)])
    [low] = await store.alerts.accept([arrival("low", severity=Severity.INFO)])
    received = []
    for _ in range(8):
        received += await store.queue.receive(limit=1, wait_s=0)
    assert [d.alert_id for d in received].index(AlertId(str(low.alert_id))) == 7
    assert await store.queue.depth() == {"critical": 16, "error": 0, "warning": 0, "info": 1}


# --- shards ---------------------------------------------------------------------------------------


def shards(make_store: StoreMaker) -> set[int]:
    found = make_store.sql("SELECT DISTINCT shard FROM counters WHERE value <> 0")
    return {row[0] for row in found}


async def test_each_replica_counts_in_a_shard_of_its_own(
    replicas: tuple[Store, Store], make_store: StoreMaker, clock: HandClock
) -> None:
    for n in range(6):
        await accepted(replicas[n % 2], f"f{n}")
    assert shards(make_store) == {1, 2}
    await replicas[0].close()
    third = await make_store(clock=clock)  # takes up the one that is free again
    await accepted(third, "g")
    assert shards(make_store) == {1, 2}
    [(rows,)] = make_store.sql("SELECT count(*) FROM counters")
    assert rows == 3 * len(COUNTER_NAMES)
    ledger = await third.ledger.ledger(full=True)
    assert (ledger.accepted, ledger.pending, ledger.balances) == (7, 7, True)


async def test_a_shard_is_lost_and_taken_with_the_connection(
    make_store: StoreMaker, postgres_databases: Databases, clock: HandClock
) -> None:
    first = await make_store(clock=clock)
    await accepted(first, "a")
    postgres_databases.end_sessions(str(make_store.location))
    second = await make_store(clock=clock)
    await accepted(second, "b")
    await accepted(first, "c")
    assert shards(make_store) == {1, 2}
    assert (await second.ledger.ledger(full=True)).accepted == 3


async def test_who_finds_no_shard_shares_one(
    make_store: StoreMaker, clock: HandClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pg_session, "SHARDS", 1)
    stores = [await make_store(clock=clock) for _ in range(3)]
    await asyncio.gather(
        *(store.alerts.accept([arrival(f"{n}-{m}")]) for m in range(8) for n, store in
          enumerate(stores))
    )  # fmt: skip
    assert shards(make_store) == {0, 1}
    ledger = await stores[0].ledger.ledger(full=True)
    assert (ledger.accepted, ledger.balances) == (24, True)
