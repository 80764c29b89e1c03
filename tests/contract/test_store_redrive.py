"""What people do with dead letters: try one again, or take it out for good."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import timedelta

import orjson
import pytest

from tests.contract.conftest import StoreMaker
from tests.contract.dead_letter_world import balance, dead_alert, message
from tests.contract.store_rows import change, count, query
from tests.contract.store_world import START, HandClock, arrival, decision, resolve
from triage.adapters.store import Store
from triage.errors import PayloadError, StoreError
from triage.model.alert import Accepted, AcceptStatus, Arrival, ArrivalKind, Severity
from triage.model.decision import Outcome
from triage.ports import CommitStatus


@pytest.fixture
def clock() -> HandClock:
    return HandClock()


@pytest.fixture
async def store(make_store: StoreMaker, clock: HandClock) -> Store:
    return await make_store(clock=clock)


# --- trying again -----------------------------------------------------------------------------


async def test_a_redriven_alert_is_pending_with_all_its_attempts_and_queued(
    make_store: StoreMaker, clock: HandClock
) -> None:
    store = await make_store(clock=clock, max_pending=2)
    alert_id = await dead_alert(store)
    for name in "ab":  # no backlog is in its way
        await store.alerts.accept([arrival(name)])
    clock.advance(60)

    work = await store.dead_letters.redrive(alert_id, by="ann\nlee", at=clock.now())

    assert work == [
        Accepted(alert_id=alert_id, status=AcceptStatus.NEW, severity=Severity.CRITICAL)
    ]
    assert await balance(store) == (3, 3, 0, 0)
    assert await store.dead_letters.dead_letter(alert_id) is None
    stored = await store.alerts.stored(alert_id)
    assert stored is not None
    assert (stored.status, stored.attempts) == ("pending", 0)
    assert (alert_id, Severity.CRITICAL) in await store.alerts.to_wake(limit=9)
    received = await store.queue.receive(limit=1, wait_s=0)
    assert [delivery.alert_id for delivery in received] == [alert_id]
    committed = await store.decisions.commit(decision(alert_id), {}, ())
    assert committed is CommitStatus.COMMITTED
    assert await balance(store) == (3, 2, 0, 0)
    [event] = query(make_store, "SELECT event, fingerprint, alert_id, raw FROM events")
    assert event[:3] == ("redriven", "f", alert_id)
    assert orjson.loads(event[3]) == {
        "by": "ann lee",
        "note": "",
        "dead_letter_id": alert_id,
        "reason": "attempts_used_up",
        "detail": "2 attempts",
        "attempts": 2,
        "alert_ids": [],
    }


async def test_a_redriven_alert_wakes_a_worker(store: Store) -> None:
    alert_id = await dead_alert(store)
    waiting = asyncio.create_task(store.queue.receive(limit=1, wait_s=60))
    await store.dead_letters.redrive(alert_id, by="ann", at=START)
    [delivery] = await waiting
    assert delivery.alert_id == alert_id


async def test_a_queue_elsewhere_is_left_to_the_caller(
    make_store: StoreMaker, clock: HandClock
) -> None:
    store = await make_store(clock=clock, embedded_queue=False)
    [answer] = await store.alerts.accept([arrival()])
    assert answer.alert_id is not None
    await store.alerts.dead_letter(answer.alert_id, "attempts_used_up", "")
    assert await store.dead_letters.redrive(answer.alert_id, by="ann", at=START)
    assert await store.queue.receive(limit=1, wait_s=0) == []
    assert count(make_store, "queue") == 0


async def test_a_redriven_alert_that_was_resolved_meanwhile_is_decided_so(store: Store) -> None:
    alert_id = await dead_alert(store)
    await store.alerts.accept([resolve()])
    await store.dead_letters.redrive(alert_id, by="ann", at=START)
    late = await store.decisions.commit(decision(alert_id, Outcome.ACTIONS), {}, ())
    assert late is CommitStatus.RESOLVED_MEANWHILE


async def test_an_alert_can_be_given_up_and_tried_again_many_times(store: Store) -> None:
    alert_id = await dead_alert(store)
    for _ in range(3):
        assert await store.dead_letters.redrive(alert_id, by="ann", at=START)
        assert await store.alerts.dead_letter(alert_id, "attempts_used_up", "")
        assert await balance(store) == (1, 0, 1, 0)


async def test_a_messages_alerts_stand_in_its_place(
    make_store: StoreMaker, clock: HandClock
) -> None:
    store = await make_store(clock=clock, max_pending=2)
    await store.dead_letters.bury(message())
    known = arrival("known")
    await store.alerts.accept([known])
    event = arrival(kind=ArrivalKind.EVENT, event="acknowledge")
    arrivals = [arrival("a", delivery_key="k"), known, event, arrival("b"), arrival("c")]

    work = await store.dead_letters.redrive("m1", by="ann", at=START, arrivals=arrivals)

    assert work is not None
    assert [answer.status for answer in work] == [AcceptStatus.NEW] * 3
    assert await balance(store) == (4, 4, 0, 0)
    received = await store.queue.receive(limit=9, wait_s=0)
    assert {answer.alert_id for answer in work} < {delivery.alert_id for delivery in received}
    [again] = await store.alerts.accept([arrivals[0]])
    assert again.status is AcceptStatus.DUPLICATE
    noted = query(make_store, "SELECT integration, fingerprint, raw FROM events ORDER BY id")
    assert [row[:2] for row in noted] == [("alertmanager", "f"), ("orders", "m1")]
    ids = [answer.alert_id for answer in work]
    assert set(ids) < set(orjson.loads(noted[1][2])["alert_ids"])


async def test_a_message_that_holds_no_alert_still_stays_where_it_is(store: Store) -> None:
    await store.dead_letters.bury(message())
    bad = replace(arrival(), site="\0")
    for arrivals in ([], [arrival(), bad]):
        with pytest.raises(PayloadError):
            await store.dead_letters.redrive("m1", by="ann", at=START, arrivals=arrivals)
    assert await store.dead_letters.dead_letter("m1") == message()
    assert await balance(store) == (1, 0, 1, 0)


async def test_a_message_whose_alerts_are_known_makes_no_work(store: Store) -> None:
    await store.dead_letters.bury(message())
    await store.alerts.accept([arrival()])
    assert await store.dead_letters.redrive("m1", by="ann", at=START, arrivals=[arrival()]) == []
    assert await balance(store) == (1, 1, 0, 0)


# --- taking out -------------------------------------------------------------------------------


async def test_a_discarded_alert_is_kept_and_never_worked_on(
    make_store: StoreMaker, store: Store
) -> None:
    alert_id = await dead_alert(store)
    assert await store.dead_letters.discard(alert_id, by="ann", note=" no\nloss ", at=START)

    assert await balance(store) == (1, 0, 0, 1)
    assert await store.dead_letters.dead_letter(alert_id) is None
    stored = await store.alerts.begin_attempt(alert_id)
    assert stored is not None
    assert (stored.status, stored.attempts) == ("discarded", 2)
    late = await store.decisions.commit(decision(alert_id), {}, ())
    assert late is CommitStatus.ALREADY_DECIDED
    [again] = await store.alerts.accept([arrival()])
    assert again.status is AcceptStatus.KNOWN
    [(event, raw)] = query(make_store, "SELECT event, raw FROM events")
    noted = orjson.loads(raw)
    assert (event, noted["by"], noted["note"]) == ("discarded", "ann", "no loss")
    assert noted["reason"] == "attempts_used_up"


async def test_a_discarded_message_is_counted_and_gone(
    make_store: StoreMaker, store: Store
) -> None:
    await store.dead_letters.bury(message())
    assert await store.dead_letters.discard("m1", by="ann", note="spam", at=START)
    assert await balance(store) == (1, 0, 0, 1)
    assert (await store.ledger.ledger()).purged == 1
    assert count(make_store, "dead_letters") == 0
    [(event, at)] = query(make_store, "SELECT event, at FROM events")
    assert (event, at) == ("discarded", START.timestamp() * 1e6)


# --- two people -------------------------------------------------------------------------------


@pytest.mark.parametrize("of", ["alert", "message"])
async def test_of_people_who_deal_with_one_at_once_one_does(
    make_store: StoreMaker, store: Store, clock: HandClock, of: str
) -> None:
    other = await make_store(clock=clock) if make_store.backend == "postgres" else store
    arrivals: list[Arrival] = []
    for n in range(6):
        name = f"m{n}"
        if of == "alert":
            name = await dead_alert(store, f"f{n}")
        else:
            await store.dead_letters.bury(message(name))
            arrivals = [arrival(name)]
        redrives = [
            one.dead_letters.redrive(name, by="ann", at=START, arrivals=arrivals)
            for one in (store, other)
        ]
        discards = [
            one.dead_letters.discard(name, by="bob", note="", at=START) for one in (other, store)
        ]
        done = await asyncio.gather(*redrives, *discards)
        assert len([one for one in done if one]) == 1, done
    accepted, pending, dead, discarded = await balance(store)
    assert (accepted, dead) == (6, 0)
    assert pending + discarded == 6
    assert count(make_store, "events") == 6


async def test_a_dead_letter_whose_alert_is_none_changes_nothing(
    make_store: StoreMaker, store: Store
) -> None:
    alert_id = await dead_alert(store)
    change(make_store, "UPDATE alerts SET status = 'decided'")
    with pytest.raises(StoreError, match="is not dead-lettered"):
        await store.dead_letters.redrive(alert_id, by="ann", at=START)
    with pytest.raises(StoreError, match="is not dead-lettered"):
        await store.dead_letters.discard(alert_id, by="ann", note="", at=START)
    assert await store.dead_letters.dead_letter(alert_id) is not None
    assert (await store.ledger.ledger()).dead_lettered == 1
    assert alert_id in (await store.ledger.ledger(full=True)).unaccounted


async def test_a_dead_letter_of_an_alert_that_is_gone_can_be_read(
    make_store: StoreMaker, store: Store
) -> None:
    alert_id = await dead_alert(store)
    change(make_store, "DELETE FROM alerts")
    letter = await store.dead_letters.dead_letter(alert_id)
    assert letter is not None
    assert (letter.alert_id, letter.alarm, letter.payload) == (alert_id, "", b"")


async def test_when_it_was_dealt_with_is_told_by_whoever_did(
    make_store: StoreMaker, store: Store
) -> None:
    await store.dead_letters.bury(message())
    then = START + timedelta(days=1)
    await store.dead_letters.redrive("m1", by="ann", at=then, arrivals=[arrival()])
    [(at,)] = query(make_store, "SELECT at FROM events")
    assert at == then.timestamp() * 1e6
