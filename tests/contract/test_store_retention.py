"""Retention: what goes, what stays, and that the ledger balances through it."""

from __future__ import annotations

import asyncio
import random
from dataclasses import replace
from datetime import timedelta
from typing import Any

import psycopg
import pytest

from tests.contract.conftest import StoreMaker
from tests.contract.gap_world import gap
from tests.contract.retention_world import DAY_S, balance, decided, kept, one
from tests.contract.store_rows import count, query
from tests.contract.store_world import START, HandClock, arrival, decision
from triage.adapters.store import Store
from triage.adapters.store.purging import Step, purge_decided
from triage.model.alert import AcceptStatus, ArrivalKind
from triage.ports import DeadLetter, Message, Purged


@pytest.fixture
def clock() -> HandClock:
    return HandClock()


@pytest.fixture
async def store(make_store: StoreMaker, clock: HandClock) -> Store:
    return await make_store(clock=clock)


# --- by age -----------------------------------------------------------------------------------


async def test_nothing_goes_from_an_empty_store(store: Store, clock: HandClock) -> None:
    purged = await store.retention.purge(older_than=clock.now(), max_bytes=0)
    assert purged == Purged()
    assert not purged.anything


async def test_what_was_decided_before_goes_with_all_that_hangs_on_it(
    make_store: StoreMaker, store: Store, clock: HandClock
) -> None:
    message = Message(sink="hook", key="k", body=b"x")
    old = await decided(store, "old", (message,), delivery_key="m1")
    [row] = await store.outbox.due("hook", now=clock.now(), limit=1)
    await store.outbox.delivered([row.row])
    clock.advance(1)
    edge = clock.now()
    young = await decided(store, "young", (replace(message, key="l"),), delivery_key="m2")

    purged = await store.retention.purge(older_than=edge, max_bytes=None)

    assert purged == Purged(decisions=1, deliveries=1)
    assert purged.anything
    assert await kept(store) == {young}
    assert await store.decisions.get(old) is None
    assert await store.alerts.stored(old) is None
    assert [count(make_store, table) for table in ("alerts", "deliveries", "outbox")] == [1, 1, 1]
    assert await balance(store) == (2, 2, 1)
    assert await store.retention.purge(older_than=edge, max_bytes=None) == Purged()


async def test_what_was_purged_is_new_when_it_is_sent_again(store: Store, clock: HandClock) -> None:
    await decided(store, "f", delivery_key="m1")
    clock.advance(1)
    await store.retention.purge(older_than=clock.now(), max_bytes=None)
    again = await one(store, arrival("f", delivery_key="m1"))
    assert again.status is AcceptStatus.NEW
    assert await balance(store) == (2, 1, 1)


async def test_pending_and_dead_lettered_alerts_stay_however_old(
    store: Store, clock: HandClock
) -> None:
    pending, dead = [await one(store, arrival(name)) for name in ("pending", "dead")]
    assert pending.alert_id is not None
    assert dead.alert_id is not None
    await store.alerts.dead_letter(dead.alert_id, "attempts_used_up", "")
    await store.dead_letters.bury(
        DeadLetter(
            dead_letter_id="m", stream="s", format="native", payload=b"", reason="r", detail="",
            attempts=1, at=START,
        )
    )  # fmt: skip
    clock.advance(1_000 * DAY_S)
    assert not (await store.retention.purge(older_than=clock.now(), max_bytes=0)).anything
    assert await store.alerts.stored(pending.alert_id) is not None
    assert await store.dead_letters.dead_letter("m") is not None
    assert await balance(store) == (3, 0, 0)


async def test_an_alert_decided_late_is_as_old_as_its_decision(
    store: Store, clock: HandClock
) -> None:
    answer = await one(store, arrival())
    clock.advance(10)
    edge = clock.now()
    assert answer.alert_id is not None
    await store.decisions.commit(decision(answer.alert_id), {}, ())
    assert not (await store.retention.purge(older_than=edge, max_bytes=None)).decisions
    assert await kept(store) == {answer.alert_id}


async def test_what_its_sender_has_spoken_of_since_stays(store: Store, clock: HandClock) -> None:
    repeated, silent = [await decided(store, name) for name in ("repeated", "silent")]
    clock.advance(2 * DAY_S)
    edge = clock.now()
    clock.advance(1)
    assert (await one(store, arrival("repeated"))).status is AcceptStatus.KNOWN

    assert (await store.retention.purge(older_than=edge, max_bytes=None)).decisions == 1
    assert await kept(store) == {repeated}
    assert await store.decisions.get(silent) is None
    clock.advance(1)
    assert (await store.retention.purge(older_than=clock.now(), max_bytes=None)).decisions == 1
    assert await balance(store) == (2, 2, 2)


async def test_a_discarded_alert_goes_by_when_it_was_accepted(
    store: Store, clock: HandClock
) -> None:
    answer = await one(store, arrival())
    assert answer.alert_id is not None
    await store.alerts.dead_letter(answer.alert_id, "attempts_used_up", "")
    clock.advance(1)
    edge = clock.now()
    await store.dead_letters.discard(answer.alert_id, by="ann", note="", at=edge)
    assert not (await store.retention.purge(older_than=START, max_bytes=None)).anything
    assert (await store.retention.purge(older_than=edge, max_bytes=None)).decisions == 1
    assert await store.alerts.stored(answer.alert_id) is None
    assert await balance(store) == (1, 0, 1)


async def test_an_alert_that_owes_a_sink_something_stays_and_what_was_given_up_does_not_count(
    make_store: StoreMaker, store: Store, clock: HandClock
) -> None:
    messages = [Message(sink="hook", key=name, body=b"") for name in "abc"]
    ids = [
        await decided(store, name, (message,))
        for name, message in zip("abc", messages, strict=True)
    ]
    due = await store.outbox.due("hook", now=clock.now(), limit=9)
    rows = {row.key: row.row for row in due}
    await store.outbox.delivered([rows["a"]])
    await store.outbox.give_up(rows["b"], error="410")
    clock.advance(DAY_S)

    assert (await store.retention.purge(older_than=clock.now(), max_bytes=0)).decisions == 2

    assert await kept(store) == {ids[2]}
    assert query(make_store, "SELECT key FROM outbox") == [("c",)]
    ledger = await store.ledger.ledger(full=True)
    assert ledger.balances, ledger
    assert (ledger.outbox_pending, ledger.outbox_given_up) == (1, 0)
    await store.outbox.delivered([rows["c"]])
    assert (await store.retention.purge(older_than=clock.now(), max_bytes=None)).decisions == 1


async def test_many_go_in_small_steps_between_which_others_commit(
    store: Store, clock: HandClock
) -> None:
    answers = await store.alerts.accept(
        [arrival(f"f{n}", delivery_key=f"k{n}") for n in range(350)]
    )
    event = arrival(kind=ArrivalKind.EVENT, event="acknowledge")
    await store.alerts.accept([event] * 700)
    ids = [answer.alert_id for answer in answers if answer.alert_id]
    await asyncio.gather(*(store.decisions.commit(decision(each), {}, ()) for each in ids))
    clock.advance(1)

    purging = asyncio.create_task(store.retention.purge(older_than=clock.now(), max_bytes=None))
    others = 0
    while not purging.done():
        await store.alerts.accept([arrival(f"other{others}")])
        others += 1

    assert await purging == Purged(decisions=350, events=700, deliveries=350)
    assert others > 2
    assert await balance(store) == (350 + others, 350, 350)


async def test_a_purge_that_is_cancelled_has_removed_what_it_has(
    store: Store, clock: HandClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    answers = await store.alerts.accept([arrival(f"f{n}") for n in range(250)])
    ids = [answer.alert_id for answer in answers if answer.alert_id]
    await asyncio.gather(*(store.decisions.commit(decision(each), {}, ()) for each in ids))
    clock.advance(1)
    loop = asyncio.get_running_loop()

    def cancelling(*arguments: Any, **options: Any) -> Step:
        loop.call_soon_threadsafe(purging.cancel)
        return purge_decided(*arguments, **options)

    with monkeypatch.context() as patched:
        patched.setattr("triage.adapters.store.retention.purge_decided", cancelling)
        purging = asyncio.create_task(store.retention.purge(older_than=clock.now(), max_bytes=None))
        with pytest.raises(asyncio.CancelledError):
            await purging

    await store.alerts.accept([arrival("other")])  # after the step that was under way
    assert await balance(store) == (251, 250, 100)
    rest = await store.retention.purge(older_than=clock.now(), max_bytes=None)
    assert rest.decisions == 150
    assert await balance(store) == (251, 250, 250)


async def test_replicas_purge_at_once_what_each_would_alone(
    make_store: StoreMaker, store: Store, clock: HandClock
) -> None:
    answers = await store.alerts.accept(
        [arrival(f"f{n}", delivery_key=f"k{n}") for n in range(350)]
    )
    ids = [answer.alert_id for answer in answers if answer.alert_id]
    message = Message(sink="hook", key="", body=b"")
    await asyncio.gather(
        *(store.decisions.commit(decision(i), {}, [replace(message, key=i)]) for i in ids)
    )
    due = await store.outbox.due("hook", now=clock.now(), limit=1000)
    await asyncio.gather(*(store.outbox.give_up(row.row, error="410") for row in due))
    clock.advance(1)
    other = await make_store(clock=clock) if make_store.backend == "postgres" else store

    purges = await asyncio.gather(
        *(each.retention.purge(older_than=clock.now(), max_bytes=None) for each in (store, other))
    )
    rest = await store.retention.purge(older_than=clock.now(), max_bytes=None)

    assert sum(purged.decisions for purged in (*purges, rest)) == 350
    assert sum(purged.deliveries for purged in (*purges, rest)) == 350
    assert await balance(store) == (350, 350, 350)
    assert (await store.ledger.ledger()).outbox_given_up == 0
    tables = ("alerts", "decisions", "outbox", "deliveries")
    assert [count(make_store, table) for table in tables] == [0, 0, 0, 0]


@pytest.mark.parametrize("make_store", ["postgres"], indirect=True)
async def test_what_another_process_holds_is_stepped_over(
    make_store: StoreMaker, store: Store, clock: HandClock
) -> None:
    held, free = [await decided(store, name, delivery_key=name) for name in ("held", "free")]
    clock.advance(1)
    with psycopg.connect(str(make_store.location)) as other:
        other.execute("SELECT 1 FROM alerts WHERE alert_id = %s FOR UPDATE", [held])
        other.execute("SELECT 1 FROM deliveries WHERE delivery_key = 'held' FOR UPDATE")
        purged = await store.retention.purge(older_than=clock.now(), max_bytes=None)
    assert purged == Purged(decisions=1, deliveries=1)
    assert await store.decisions.get(free) is None
    purged = await store.retention.purge(older_than=clock.now(), max_bytes=None)
    assert purged == Purged(decisions=1, deliveries=1)
    assert await balance(store) == (2, 2, 2)


# --- events, gaps, episodes -------------------------------------------------------------------


async def test_events_and_delivery_keys_go_by_their_own_age(
    make_store: StoreMaker, store: Store, clock: HandClock
) -> None:
    event = arrival(kind=ArrivalKind.EVENT, event="acknowledge", delivery_key="m1")
    await one(store, event)
    clock.advance(1)
    await one(store, replace(event, delivery_key="m2"))

    purged = await store.retention.purge(older_than=clock.now(), max_bytes=None)

    assert purged == Purged(events=1, deliveries=1)
    assert query(make_store, "SELECT delivery_key FROM deliveries") == [("m2",)]


async def test_old_cases_go_and_then_closed_gaps_that_have_none(
    store: Store, clock: HandClock
) -> None:
    alert_id = await decided(store, "f")
    [late] = [await one(store, arrival("late"))]
    assert late.alert_id is not None
    old, both = gap(alert_id, "old"), gap(alert_id, "both")
    open_ = gap(alert_id, "open")
    other = await one(store, arrival("other"))
    assert other.alert_id is not None
    gaps = [each._replace(alert_id=other.alert_id) for each in (old, both, open_)]
    await store.decisions.commit(decision(other.alert_id), {}, (), gaps)
    clock.advance(DAY_S)
    young = both._replace(alert_id=late.alert_id, at=clock.now())
    await store.decisions.commit(decision(late.alert_id), {}, (), [young])
    for each in (old, both):
        assert await store.gaps.close_gap(each.gap_id, by="ann", note="", at=clock.now())

    purged = await store.retention.purge(older_than=clock.now(), max_bytes=None)

    assert purged.gap_cases == 3
    cases = {
        each.node: len(await store.gaps.gap_cases(each.gap_id, limit=9))
        for each in (old, both, open_)
    }
    assert cases == {"old": 0, "both": 1, "open": 0}
    # Closed a moment ago, so who closed it and why is news still.
    assert await store.gaps.gap(old.gap_id) is not None
    clock.advance(0.000001)
    await store.retention.purge(older_than=clock.now(), max_bytes=None)
    assert await store.gaps.gap(old.gap_id) is None
    assert await store.gaps.gap(both.gap_id) is None
    still = await store.gaps.gap(open_.gap_id)
    assert still is not None
    assert still.count == 1


async def test_many_cases_of_one_gap_go(store: Store, clock: HandClock) -> None:
    answers = await store.alerts.accept([arrival(f"f{n}") for n in range(230)])
    ids = [answer.alert_id for answer in answers if answer.alert_id]
    await asyncio.gather(
        *(store.decisions.commit(decision(each), {}, (), [gap(each, "n")]) for each in ids)
    )
    clock.advance(DAY_S)
    purged = await store.retention.purge(older_than=clock.now(), max_bytes=None)
    assert (purged.decisions, purged.gap_cases) == (230, 230)


# --- evidence ---------------------------------------------------------------------------------


async def test_evidence_is_purged_by_age_then_size(store: Store, clock: HandClock) -> None:
    noise = random.Random(7)
    bodies = {f"d{n}": noise.randbytes(1000) for n in range(6)}
    for n, (digest, body) in enumerate(bodies.items()):
        clock.advance(7200)
        answer = await one(store, arrival(f"f{n}"))
        assert answer.alert_id is not None
        evidence = {digest: body, "d0": bodies["d0"]}
        await store.decisions.commit(decision(answer.alert_id), evidence, ())

    async def left() -> list[str]:
        return [each for each in bodies if await store.decisions.evidence(each) is not None]

    retention = store.retention
    horizon = START + timedelta(seconds=7200 * 2) + timedelta(microseconds=1)
    assert await retention.purge_evidence(older_than=horizon, max_bytes=10**6) == 1
    assert await left() == ["d0", "d2", "d3", "d4", "d5"]  # d0 was used last of all
    assert await retention.purge_evidence(older_than=START, max_bytes=2500) == 3
    assert len(await left()) == 2
    assert await retention.purge_evidence(older_than=START, max_bytes=2500) == 0
    await balance(store)
