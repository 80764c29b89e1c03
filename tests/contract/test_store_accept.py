"""What an arrival turns out to be: identity, re-sends, episodes, resolves, overload."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import timedelta

import pytest

from tests.contract.conftest import StoreMaker
from tests.contract.store_rows import query
from tests.contract.store_world import START, HandClock, arrival, decision, resolve
from triage.adapters.store import Store
from triage.adapters.store.schema import to_us
from triage.errors import Overloaded, PayloadError
from triage.model.alert import (
    Accepted,
    AcceptStatus,
    AlertId,
    Arrival,
    ArrivalKind,
    Severity,
    episode_id,
    occurrence_id,
)
from triage.model.decision import Outcome
from triage.ports import AlertLog, CommitStatus

EVENT = ArrivalKind.EVENT
NEW, KNOWN, RESOLVED = AcceptStatus.NEW, AcceptStatus.KNOWN, AcceptStatus.RESOLVED
RECORDED, DUPLICATE = AcceptStatus.RECORDED, AcceptStatus.DUPLICATE


@pytest.fixture
def clock() -> HandClock:
    return HandClock()


@pytest.fixture
async def store(make_store: StoreMaker, clock: HandClock) -> Store:
    return await make_store(clock=clock, max_pending=5)


async def one(log: AlertLog, what: Arrival) -> Accepted:
    [answer] = await log.accept([what])
    return answer


async def id_of(log: AlertLog, what: Arrival) -> AlertId:
    answer = await one(log, what)
    assert answer.alert_id is not None
    return answer.alert_id


async def test_a_firing_alert_is_kept_as_it_came(store: Store, clock: HandClock) -> None:
    what = arrival(severity=Severity.CRITICAL, tenant="t", starts_at_ns=17)

    answer = await one(store.alerts, what)

    assert answer.status is NEW
    assert answer.severity is Severity.CRITICAL
    assert answer.alert_id == occurrence_id("alertmanager", "t", "f", 17)
    assert answer.alert_id is not None
    stored = await store.alerts.begin_attempt(answer.alert_id)
    assert stored is not None
    assert stored.attempts == 0
    alert = stored.alert
    for name in ("integration", "tenant", "fingerprint", "alarm", "site", "entity", "severity"):
        assert getattr(alert, name) == getattr(what, name)
    assert alert.fired_at == what.fired_at
    assert alert.accepted_at == clock.now()
    assert dict(alert.labels) == dict(what.labels)
    assert dict(alert.annotations) == dict(what.annotations)
    assert alert.resolved_at is None
    assert not alert.unmatched_resolve


async def test_a_stored_alert_is_read_without_an_attempt(store: Store) -> None:
    key = await id_of(store.alerts, arrival(severity=Severity.CRITICAL))
    assert await store.alerts.stored(AlertId("absent")) is None
    first, second = await store.alerts.stored(key), await store.alerts.stored(key)
    assert first is not None
    assert first.attempts == 0
    assert second == first
    assert await store.alerts.begin_attempt(key) == first
    again = await store.alerts.stored(key)
    assert again is not None
    assert again.attempts == 1


async def test_the_same_occurrence_is_known_and_another_start_is_new(store: Store) -> None:
    first = await one(store.alerts, arrival(starts_at_ns=1))
    again = await one(store.alerts, arrival(starts_at_ns=1))
    other = await one(store.alerts, arrival(starts_at_ns=2))

    assert (first.status, again.status, other.status) == (NEW, KNOWN, NEW)
    assert again.alert_id == first.alert_id != other.alert_id
    ledger = await store.ledger.ledger(full=True)
    assert (ledger.accepted, ledger.pending, ledger.balances) == (2, 2, True)


async def test_a_start_in_the_year_one_is_an_identity_like_any_other(store: Store) -> None:
    assert (await one(store.alerts, arrival(starts_at_ns=-62135596800 * 10**9))).status is NEW


async def test_a_re_sent_message_is_a_duplicate_of_the_same_alert(store: Store) -> None:
    first = await one(store.alerts, arrival(starts_at_ns=None, delivery_key="m1"))
    await store.alerts.accept([resolve(starts_at_ns=None, delivery_key="m2")])

    again = await one(store.alerts, arrival(starts_at_ns=None, delivery_key="m1"))
    elsewhere = await one(store.alerts, arrival("g", tenant="other", delivery_key="m1"))

    assert again == Accepted(alert_id=first.alert_id, status=DUPLICATE, severity=first.severity)
    assert elsewhere.status is NEW


async def test_a_resolve_of_a_known_occurrence_is_kept_once(store: Store, clock: HandClock) -> None:
    alert_id = await id_of(store.alerts, arrival())
    clock.advance(5)
    ended = clock.now()

    first = await one(store.alerts, resolve())
    clock.advance(5)
    second = await one(store.alerts, resolve())

    assert (first.status, second.status) == (RESOLVED, RESOLVED)
    assert first.alert_id == second.alert_id == alert_id
    stored = await store.alerts.begin_attempt(alert_id)
    assert stored is not None
    assert stored.alert.resolved_at == ended
    assert not stored.alert.unmatched_resolve
    assert (await store.ledger.ledger()).accepted == 1


async def test_a_resolve_that_overtook_its_firing_is_work_and_the_firing_joins_it(
    store: Store,
) -> None:
    answer = await one(store.alerts, resolve())
    assert answer.status is NEW
    assert answer.alert_id is not None
    before = await store.alerts.begin_attempt(answer.alert_id)
    assert before is not None
    assert before.alert.unmatched_resolve
    assert before.alert.resolved_at is not None

    joined = await one(store.alerts, arrival())

    assert joined == Accepted(alert_id=answer.alert_id, status=KNOWN, severity=Severity.WARNING)
    after = await store.alerts.begin_attempt(answer.alert_id)
    assert after is not None
    assert not after.alert.unmatched_resolve
    assert after.alert.resolved_at == before.alert.resolved_at
    assert (await store.ledger.ledger(full=True)).accepted == 1


async def test_one_request_may_speak_of_one_occurrence_many_times(store: Store) -> None:
    answers = await store.alerts.accept([arrival(), resolve(), arrival(), arrival("g")])

    assert [answer.status for answer in answers] == [NEW, RESOLVED, KNOWN, NEW]
    assert answers[0].alert_id == answers[1].alert_id == answers[2].alert_id


async def test_episodes_follow_each_other(store: Store, clock: HandClock) -> None:
    statuses = []
    ids = []
    for what in (arrival, arrival, resolve, resolve, arrival, resolve):
        clock.advance(10)
        answer = await one(store.alerts, what(starts_at_ns=None))
        statuses.append(answer.status)
        ids.append(answer.alert_id)

    one_, two = (episode_id("alertmanager", "", "f", n) for n in (1, 2))
    assert statuses == [NEW, KNOWN, RESOLVED, RESOLVED, NEW, RESOLVED]
    assert ids == [one_, one_, one_, one_, two, two]


async def test_a_trigger_told_late_belongs_to_the_episode_that_ended(
    store: Store, clock: HandClock
) -> None:
    ended = START + timedelta(seconds=60)
    await store.alerts.accept([arrival(starts_at_ns=None, observed_at=START)])
    await store.alerts.accept([resolve(starts_at_ns=None, observed_at=ended)])
    clock.advance(120)

    late = arrival(starts_at_ns=None, observed_at=ended - timedelta(microseconds=1))
    after = arrival(starts_at_ns=None, observed_at=ended)

    assert (await one(store.alerts, late)).status is KNOWN
    assert await one(store.alerts, after) == Accepted(
        alert_id=episode_id("alertmanager", "", "f", 2), status=NEW, severity=Severity.WARNING
    )


async def test_an_old_resolve_does_not_end_the_next_episode(store: Store) -> None:
    ended = START + timedelta(seconds=60)
    again = ended + timedelta(seconds=60)
    await store.alerts.accept(
        [
            arrival(starts_at_ns=None, observed_at=START),
            resolve(starts_at_ns=None, observed_at=ended),
            arrival(starts_at_ns=None, observed_at=again),
        ]
    )

    old = await one(store.alerts, resolve(starts_at_ns=None, observed_at=ended))

    assert old.status is DUPLICATE
    assert old.alert_id == episode_id("alertmanager", "", "f", 1)
    second = await store.alerts.begin_attempt(episode_id("alertmanager", "", "f", 2))
    assert second is not None
    assert second.alert.resolved_at is None


async def test_a_first_resolve_opens_a_resolved_episode(store: Store, clock: HandClock) -> None:
    first = await one(store.alerts, resolve(starts_at_ns=None))
    late = await one(
        store.alerts, arrival(starts_at_ns=None, observed_at=START - timedelta(seconds=9))
    )
    clock.advance(1)
    fresh = await one(store.alerts, arrival(starts_at_ns=None))

    assert (first.status, late.status, fresh.status) == (NEW, KNOWN, NEW)
    assert first.alert_id == late.alert_id != fresh.alert_id
    assert first.alert_id is not None
    joined = await store.alerts.begin_attempt(first.alert_id)
    assert joined is not None
    assert not joined.alert.unmatched_resolve


async def test_events_are_recorded_and_make_no_work(store: Store) -> None:
    alert_id = await id_of(store.alerts, arrival())

    answer = await one(store.alerts, arrival(kind=EVENT, event="acknowledge", delivery_key="k"))
    again = await one(store.alerts, arrival(kind=EVENT, event="acknowledge", delivery_key="k"))

    assert (answer.alert_id, answer.status) == (None, RECORDED)
    assert (again.alert_id, again.status) == (None, DUPLICATE)
    assert (await store.ledger.ledger()).accepted == 1
    stored = await store.alerts.begin_attempt(alert_id)
    assert stored is not None
    assert stored.alert.resolved_at is None


async def test_an_event_that_ends_the_condition_resolves_what_fired_before_it(
    store: Store,
) -> None:
    ok_at = START + timedelta(seconds=60)
    before = await id_of(store.alerts, arrival(starts_at_ns=1, fired_at=ok_at))
    after = await id_of(
        store.alerts, arrival(starts_at_ns=2, fired_at=ok_at + timedelta(microseconds=1))
    )
    other = await id_of(store.alerts, arrival("g", starts_at_ns=1))

    ok = arrival(kind=EVENT, event="ok", observed_at=ok_at, ends_open_occurrences=True)
    assert (await one(store.alerts, ok)).status is RECORDED

    resolved = []
    for alert_id in (before, after, other):
        stored = await store.alerts.begin_attempt(alert_id)
        assert stored is not None
        resolved.append(stored.alert.resolved_at is not None)
    assert resolved == [True, False, False]
    assert (await store.ledger.ledger()).accepted == 3


async def test_overload_refuses_new_work_whole_and_takes_the_rest(store: Store) -> None:
    ids = [await id_of(store.alerts, arrival(f"f{n}")) for n in range(4)]

    with pytest.raises(Overloaded) as refused:
        await store.alerts.accept([resolve("f0"), arrival("f4"), arrival("f5")])
    assert refused.value.retry_after_s > 0

    untouched = await store.alerts.begin_attempt(ids[0])
    assert untouched is not None
    assert untouched.alert.resolved_at is None
    assert [a.status for a in await store.alerts.accept([arrival("f4")])] == [NEW]
    with pytest.raises(Overloaded):
        await store.alerts.accept([arrival("f5")])
    known = await store.alerts.accept([arrival("f1"), resolve("f2")])
    assert [answer.status for answer in known] == [KNOWN, RESOLVED]
    ledger = await store.ledger.ledger(full=True)
    assert (ledger.accepted, ledger.pending, ledger.balances) == (5, 5, True)


async def test_room_comes_back_with_decisions(store: Store) -> None:
    ids = [await id_of(store.alerts, arrival(f"f{n}")) for n in range(5)]
    status = await store.decisions.commit(decision(ids[0], Outcome.NO_FAULT), {}, ())
    assert status is CommitStatus.COMMITTED

    assert (await one(store.alerts, arrival("f9"))).status is NEW


async def test_a_request_larger_than_the_limit_fits_into_an_empty_store(store: Store) -> None:
    answers = await store.alerts.accept([arrival(f"f{n}") for n in range(9)])

    assert {answer.status for answer in answers} == {NEW}
    with pytest.raises(Overloaded):
        await store.alerts.accept([arrival("late")])


WORDS = (
    "integration",
    "tenant",
    "fingerprint",
    "event",
    "alarm",
    "site",
    "entity",
    "delivery_key",
)


@pytest.mark.parametrize("word", ["\ud800", "\0"])
@pytest.mark.parametrize("name", WORDS)
async def test_text_that_a_database_cannot_hold_is_refused_by_name_and_harms_nobody_else(
    store: Store, name: str, word: str
) -> None:
    bad = replace(arrival("bad"), **{name: f"a{word}b"})  # type: ignore[arg-type]
    good = asyncio.create_task(one(store.alerts, arrival("elsewhere")))

    with pytest.raises(PayloadError) as refused:
        await store.alerts.accept([arrival("good"), bad])

    assert refused.value.field == name
    assert (await good).status is NEW
    assert (await one(store.alerts, arrival("good"))).status is NEW


@pytest.mark.parametrize("name", ["labels", "annotations"])
async def test_a_label_that_is_no_unicode_is_refused_by_name(store: Store, name: str) -> None:
    bad = replace(arrival(), **{name: {"a": "\ud800"}})  # type: ignore[arg-type]
    with pytest.raises(PayloadError) as refused:
        await store.alerts.accept([bad])
    assert refused.value.field == name


async def test_labels_and_the_senders_document_may_hold_any_character(store: Store) -> None:
    words = {"\0": "\0 \u2028 \U0001f525 '\"\\%s:now"}
    what = replace(arrival(), labels=words, annotations=words, raw=b"\0\xff")
    stored = await store.alerts.stored(await id_of(store.alerts, what))
    assert stored is not None
    assert dict(stored.alert.labels) == words
    assert dict(stored.alert.annotations) == words


async def test_nothing_is_accepted_from_nothing(store: Store) -> None:
    assert await store.alerts.accept([]) == []


async def seen_at(maker: StoreMaker, alert_id: AlertId) -> int:
    [(moment,)] = query(maker, "SELECT seen_at FROM alerts WHERE alert_id = :its", its=alert_id)
    return int(moment)


@pytest.mark.parametrize(
    ("what", "status"),
    [
        (arrival(delivery_key="m2"), KNOWN),
        (resolve(delivery_key="m2"), RESOLVED),
        (arrival(delivery_key="m1"), DUPLICATE),
    ],
)
async def test_when_a_sender_last_spoke_of_an_alert_is_known_to_the_day(
    make_store: StoreMaker, store: Store, clock: HandClock, what: Arrival, status: AcceptStatus
) -> None:
    alert_id = await id_of(store.alerts, arrival(delivery_key="m1"))
    other = await id_of(store.alerts, arrival("other"))
    assert await seen_at(make_store, alert_id) == to_us(START)
    clock.advance(86_400)
    await store.alerts.accept([arrival(delivery_key="m1")])
    assert await seen_at(make_store, alert_id) == to_us(START)
    clock.advance(0.000001)

    assert (await one(store.alerts, what)).status is status

    assert await seen_at(make_store, alert_id) == to_us(clock.now())
    assert await seen_at(make_store, other) == to_us(START)
